"""Runs as trials of Ray Tune: what one trial does in its worker, and what the launching process sees of all of them.

Tune only places. A trial ends when its run has ended, in whatever state, and is placed again when its worker or node
dies. Tune keeps no checkpoints here, and its files say nothing about a run: the run's folder does.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from ray import tune
from ray.tune.experiment import Trial

from augbench.bench.common.errors import UserError, shortened
from augbench.bench.common.files import read_json
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder
from augbench.bench.training.provenance import other_code
from augbench.bench.training.scheduled import execute_when_free
from augbench.bench.training.stopping import StopCause, StopRequested, StopSignal

STOP_FILE = "stop"
CODE_FILE = "code.json"
NOT_STARTED, UNFIT = "not started", "unfit"
LOOK_SECONDS = 0.5  # between looks at the stop file


@dataclass(frozen=True)
class Task:
    """One run as a worker gets it.

    Attributes:
        folder: Absolute path of the run folder.
        device: `cuda` or `cpu`.
        cpus: Cores, and threads of the run; a share of a core has one thread.
        gpus: GPUs or the share of one.
        memory: Bytes of main memory; 0 where none are asked for.
        workers: Runs at the same time at most, as the run's surroundings record it.
        data: Absolute path of the folder of data sets.
        stop_file: Absolute path of the file whose presence asks the run to stop.
        code_file: Absolute path of the file that says with which code the run is to be executed; empty for any.
    """

    folder: str
    device: str
    cpus: float
    gpus: float
    memory: int
    workers: int
    data: str
    stop_file: str
    code_file: str = ""

    def bundle(self) -> dict[str, float]:
        """What Ray is to set aside."""
        wanted = {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory}
        return {name: float(amount) for name, amount in wanted.items() if amount}


class NodeLostError(Exception):
    """Ray has ended on the node of a worker, which has saved its run."""


class StopFile(StopSignal):
    """A request to stop that the launching process leaves as a file, or the end of Ray on this node.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(os.getppid())  # Ray's own process on this node
        self.path = path
        self._next_look = 0.0

    def check(self) -> None:
        """Raise StopRequested if it was asked to stop."""
        if self.cause is None and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_SECONDS
            if self.path.exists():
                self.request(StopCause.REQUESTED)
        super().check()


def run_trial(config: Mapping[str, Any]) -> dict[str, str]:
    """Execute the run of a trial: what Tune calls in a worker.

    Returns:
        Under `ended` and `problem` what `execute_task` returns.
    """
    task = Task(**config["run"])
    ended, problem = execute_task(task, StopFile(Path(task.stop_file)))
    return {"ended": ended, "problem": problem}


def execute_task(task: Task, stop: StopSignal) -> tuple[str, str]:
    """Execute a run in this worker.

    Returns:
        How it ended: the state of the run, `not started` or, where no other run could be executed either, `unfit`;
        and what is wrong if that could not be written into the run's folder.

    Raises:
        NodeLostError: If Ray has ended on this node, so that the run is to be placed again.
    """
    if task.device == "cuda" and not torch.cuda.is_available():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
        return UNFIT, (
            f"Ray gave {task.gpus:g} GPUs to {Path(task.folder).name} on {os.uname().nodename}, but PyTorch sees none "
            f"there (CUDA_VISIBLE_DEVICES: {visible or 'empty'}). Start that node of the cluster with the number of "
            "GPUs that it has and a PyTorch for its driver, or give --device cpu."
        )
    if task.code_file and (changes := other_code(read_json(Path(task.code_file)))):
        return UNFIT, changes
    settings = ExecutionSettings(task.device, task.workers, max(1, int(task.cpus)), Path(task.data))
    try:
        stop.check()
        ended = str(execute_when_free(RunFolder(Path(task.folder)), settings, stop))
    except StopRequested:
        ended = NOT_STARTED
    except UserError as error:
        return NOT_STARTED, str(error)
    if stop.cause is StopCause.LAUNCHER_GONE:
        raise NodeLostError(f"Ray has ended on {os.uname().nodename}.")
    return ended, ""


@dataclass
class Progress:
    """What the launching process sees of the trials; one thread writes and another reads it.

    Attributes:
        running: Folders of the runs that have a worker, by trial.
        ended: Folders of the runs whose trial has ended, in order.
        problems: Why runs could not be started.
        lost: Reasons, by the folder of a run whose worker died once too often.
        hopeless: Whether no other run could be started either.
        stopping: Whether all were asked to stop.
    """

    running: dict[str, str] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    hopeless: bool = False
    stopping: bool = False


class Observer(tune.Callback):
    """Records what becomes of the trials."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has got its worker."""
        self.progress.running[trial.trial_id] = trial.config["run"]["folder"]

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has lost its worker and waits for another."""
        self.progress.running.pop(trial.trial_id, None)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has ended by itself."""
        self.progress.running.pop(trial.trial_id, None)
        self.progress.ended.append(trial.config["run"]["folder"])
        result = trial.last_result or {}
        if result.get("problem"):
            self.progress.problems.append(result["problem"])
        self.progress.hopeless |= result.get("ended") == UNFIT

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has lost its worker once too often."""
        folder = trial.config["run"]["folder"]
        self.progress.running.pop(trial.trial_id, None)
        self.progress.lost[folder] = _last_words(trial)
        self.progress.ended.append(folder)


def _last_words(trial: Trial) -> str:
    """Say what Ray knows of the death of a trial's worker; as a text file, it is no verdict on the run."""
    lines = [line.strip() for line in str(trial.get_error() or "").splitlines() if line.strip()]
    times = f"{trial.run_metadata.num_failures} times, more often than failures in [ray] of the profile allows"
    return f"Its worker on the Ray cluster died {times}. Ray's last words: {shortened(lines[-1] if lines else 'none')}"


class UntilStopped(tune.Stopper):
    """Gives up the waiting trials when all were asked to stop and those that were running have saved their runs.

    A trial that starts later ends by itself, as it looks for the stop file before anything else.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.saving: set[str] | None = None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Leave single trials alone."""
        return False

    def stop_all(self) -> bool:
        """Whether nothing is left that has to be waited for."""
        if not self.progress.stopping:
            return False
        running = set(self.progress.running)
        self.saving = running if self.saving is None else self.saving & running
        return not self.saving


def place(tasks: Sequence[Task], folder: Path, failures: int, progress: Progress) -> None:
    """Have every run executed by a trial of its own; returns when all have ended. Other arguments: see `run_config`."""
    tuner = tune.Tuner(
        with_resources_of_its_run(run_trial),
        param_space={"run": tune.grid_search([asdict(task) for task in tasks])},
        tune_config=tune.TuneConfig(trial_dirname_creator=lambda trial: str(trial.trial_id)),
        run_config=run_config(folder, failures, progress),
    )
    tuner.fit()


def with_resources_of_its_run(trainable: Callable[[dict[str, Any]], Any]) -> Any:
    """Have each trial given what the run in its configuration needs."""
    return tune.with_resources(trainable, lambda config: tune.PlacementGroupFactory([Task(**config["run"]).bundle()]))


def run_config(folder: Path, failures: int, progress: Progress) -> tune.RunConfig:
    """Configure Tune: where its files go, how often a trial is placed again, and how all are stopped.

    Args:
        folder: Where Tune writes its files.
        failures: How often a trial whose worker or node has died is placed again.
        progress: Kept up to date.
    """
    return tune.RunConfig(
        name=folder.name,
        storage_path=str(folder.parent),
        failure_config=tune.FailureConfig(max_failures=failures),
        callbacks=[Observer(progress)],
        stop=UntilStopped(progress),
        verbose=0,
    )
