"""Trials made by hand, with numbers that can be checked in the head."""

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from run_here import here

from augbench.bench.common.files import write_json, write_torch
from augbench.bench.experiment.spec import RunSpec, Settings
from augbench.bench.experiment.suite import parse_suite
from augbench.bench.launchers.launcher import Activity, LaunchRequest
from augbench.bench.launchers.local import Local
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.worker import execute
from augbench.bench.tuning.outcome import stop_early
from augbench.bench.tuning.tuning import Trial, Tuning, base_of_suite

__all__ = ["here"]

SUITE = """
name = "small"
title = "Small"
seeds = [0]
[[comparisons]]
datasets = [{ name = "mnist5k", options = { size = 14 } }]
methods = [{ name = "scale", hyperparameters = { copies = 2 } }]
network = "tiny"
budget = { epochs = 3, learning_rate = 0.02 }
"""

MakeTrial = Callable[..., Trial]


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch, settings: ExecutionSettings, stop: StopSignal) -> list[str]:
    """Have runs executed in this process; names of their folders."""
    names: list[str] = []

    def launch(
        self: Local, runs: Sequence[PlannedRun], request: LaunchRequest, poll: Callable[[Activity], None]
    ) -> None:
        for run in runs:
            names.append(run.folder.path.name)
            execute(run.folder, settings, stop)

    monkeypatch.setattr(Local, "launch", launch)
    return names


@pytest.fixture
def ray_is_there() -> None:
    """Skip where there is no Ray; in CI there has to be one."""
    if find_spec("ray") is not None and find_spec("optuna") is not None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail("Ray or Optuna is not installed; in CI the tests with them have to run.")
    pytest.skip("Ray or Optuna is not installed")


@pytest.fixture
def base() -> RunSpec:
    return base_of_suite(parse_suite(SUITE, "a test"), "scale", "mnist5k")


@pytest.fixture
def tuning(base: RunSpec) -> Tuning:
    return Tuning(base, "random", 4)


@pytest.fixture
def make_trial(tuning: Tuning, tmp_path: Path) -> MakeTrial:
    """Write the run of a trial: `accuracy` after each epoch, `seconds` of training and 1 of evaluation by device."""

    def make(
        number: int,
        *accuracy: float,
        state: RunState = RunState.DONE,
        seconds: dict[str, float] | None = None,
        values: Settings | None = None,
        early: bool = False,
    ) -> Trial:
        trial = tuning.trial(number, values or {"learning_rate": (number + 1) / 100}, tmp_path)
        (folder,), (spec,) = trial.folders, tuning.specs(trial.values)
        folder.write_spec(spec)
        folder.write_metrics(
            [{"epoch": epoch, "validation_accuracy": value} for epoch, value in enumerate(accuracy, 1)]
        )
        cost = {
            "seconds": {
                name: {"training": value, "evaluation": 1.0} for name, value in (seconds or {"cpu one": 10.0}).items()
            },
            "image_passes": {"training": 1000, "evaluation": 100},
        }
        finish(folder, spec, cost, accuracy[-1] if accuracy else 0.0, state)
        if early:
            stop_early(folder, len(accuracy))
        return trial

    return make


def cost_of_a_run(seconds: float = 10.0) -> dict[str, object]:
    """What a run has cost: seconds of training and 1 of evaluation, on one device."""
    return {
        "seconds": {"cpu one": {"training": seconds, "evaluation": 1.0}},
        "image_passes": {"training": 1000, "evaluation": 100},
    }


@pytest.fixture
def end_run() -> Callable[..., RunFolder]:
    """Write the folder of a run below an output folder, as it is when the run has ended in some state."""

    def end(spec: RunSpec, out: Path, accuracy: float = 0.5, state: RunState = RunState.DONE) -> RunFolder:
        folder = RunFolder(out / "runs" / spec.folder_name)
        folder.write_spec(spec)
        finish(folder, spec, cost_of_a_run(), accuracy, state)
        return folder

    return end


def finish(folder: RunFolder, spec: RunSpec, cost: dict[str, object], accuracy: float, state: RunState) -> None:
    """Leave a result where the run is done, and otherwise a checkpoint and why there is none."""
    if state is not RunState.DONE:
        write_torch(folder.checkpoint, cost)
        folder.write_status(state, reason="it diverged")
        return
    np.savez(folder.predictions)
    metrics = {"0": {"accuracy": {"mean": accuracy, "sd": None, "values": [accuracy]}}}
    write_json(folder.path / "result.json", {"identity": spec.identity, "metrics": metrics, **cost})
