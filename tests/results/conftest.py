"""Run folders made by hand, with numbers that can be checked in the head."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from augbench.bench.common.files import atomic_write, write_json
from augbench.bench.experiment.protocol import Budget, Protocol
from augbench.bench.experiment.spec import Component, RunSpec
from augbench.bench.runs import run_folder
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.worker import execute
from augbench.results.records import record

WriteRun = Callable[..., RunFolder]
MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]

PROBE_DEGREES = (-180.0, -90.0, 0.0, 90.0)


def write_run_folder(
    root: Path,
    method: str = "none",
    *,
    dataset: str = "mnist5k",
    options: Mapping[str, Any] = MappingProxyType({"size": 14}),
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    epochs: int = 2,
    budget: Mapping[str, Any] = MappingProxyType({}),
    protocol: Protocol | None = None,
    state: RunState = RunState.DONE,
    learned: Sequence[Mapping[str, float]] = (),
    code: Mapping[str, Any] = MappingProxyType({"commit": "0123456789abcdef", "dirty": False}),
    device: str = "cpu one",
    probabilities: Sequence[Sequence[float]] = ((0.9, 0.1), (0.2, 0.8), (0.6, 0.4), (0.7, 0.3)),
    labels: Sequence[int] = (0, 1, 1, 0),
    version: int = 1,
    dataset_version: int = 1,
    drawn: Mapping[int, Any] = MappingProxyType({}),
    status: Mapping[str, Any] = MappingProxyType({}),
    gpu: bool | None = None,
    environment: Mapping[str, Any] = MappingProxyType({}),
    predictor: str = "",
    predictor_settings: Mapping[str, Any] = MappingProxyType({}),
    **measured: Any,
) -> RunFolder:
    """Write one run folder below `root`, the folder given as --out.

    Names may be such as cannot be registered. Only what is done gets a result. `learned` are the learned numbers after
    each epoch, the last of them repeated to the end. Two devices joined by " + " make a run that went on elsewhere.
    `drawn` are the probabilities (repeats, images, classes) by number of test-time draws, `probabilities` those without
    any. `status` is what is recorded besides the state, such as cause and reason. There is an `environment.json` if
    `gpu` says whether the device is one, with the entries of `environment` besides. `measured` is for `_measured`.
    """
    checksum = "sha256:0123456789abcdef"
    usual = {} if "members" in predictor_settings else {"members": 4}
    chosen = Component(name=predictor, version=1, settings=dict(predictor_settings), defaults=usual)
    spec = RunSpec(
        protocol=protocol or Protocol(),
        method=Component(name=method, version=version, settings=dict(settings or {}), defaults={"copies": 1}),
        dataset=Component(name=dataset, version=dataset_version, settings=dict(options), checksum=checksum),
        network=Component(name="tiny", version=1),
        budget=Budget(epochs=epochs, **budget),
        predictor=chosen if predictor else None,
        seed=seed,
    )
    folder = RunFolder(root / "runs" / spec.folder_name)
    folder.write_spec(spec)
    rows = _epochs(learned, epochs)
    folder.write_metrics(rows)
    folder.write_status(state, **status)
    if gpu is not None:
        write_json(folder.path / "environment.json", {"attempts": [_attempt(device, gpu, code) | dict(environment)]})
    found = _measured(device, **measured)
    if state != RunState.DONE:
        return folder
    _write_predictions(folder, labels, {0: [probabilities], **drawn})
    result = {"identity": spec.identity, "learned": rows[-1]["learned"], "code": dict(code)}
    images = {"train_images": 4000, "test_images": len(labels)}
    write_json(folder.path / "result.json", result | images | found)
    return folder


def _measured(
    device: str,
    *,
    accuracy: Mapping[int, float] | float = 0.9,
    probe: Sequence[float] = (0.5, 0.4, 0.9, 0.4),
    probe_pixels: int | None = 28,
    training_seconds: float = 10.0,
    search_seconds: float = 0.0,
    search_passes: int = 0,
    training_passes: int = 8000,
    compilation_seconds: float = 0.0,
    plain_steps: float | None = None,
    plain_step_ms: Sequence[float] = (2.0, 2.0, 2.0),
    planted: tuple[str, Sequence[str]] | None = None,
    recovery: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Make the part of a result that was measured.

    `accuracy` is that of each number of test-time draws, or without any; `probe` is the accuracy at PROBE_DEGREES
    of images that had `probe_pixels` a side when they were turned, or None for a record of an earlier version.
    `plain_steps` is the cost of training in that unit, of a version that counts it; two milliseconds each by default.
    `planted` is the name of a law with the coordinates that it changes, `recovery` the distance in each coordinate.
    """
    seconds = {"search": search_seconds, "training": training_seconds, "evaluation": 1.0}
    seconds["compilation"] = compilation_seconds
    by_draws = accuracy if isinstance(accuracy, Mapping) else {0: accuracy}
    steps: dict[str, Any] = {}
    if plain_steps is not None:
        quartiles = [value / 1000 for value in plain_step_ms]
        steps["plain_steps"] = {**dict.fromkeys(seconds, 0.0), "training": plain_steps, "evaluation": 1e6}
        steps["plain_step_timings"] = [{"seconds": quartiles[1], "quartiles": quartiles}]
    law = {} if planted is None else {"planted": {"law": planted[0], "coordinates": list(planted[1])}}
    return {
        "metrics": {str(draws): _metrics(value) for draws, value in by_draws.items()},
        "rotation_probe": {"degrees": PROBE_DEGREES[: len(probe)], "accuracy": list(probe), "pixels": probe_pixels},
        "seconds": {name: dict(seconds) for name in device.split(" + ")},
        "image_passes": {"search": search_passes, "training": training_passes, "evaluation": 4, "compilation": 0},
        **steps,
        **law,
        **({} if recovery is None else {"recovery": dict(recovery)}),
    }


def _write_predictions(folder: RunFolder, labels: Sequence[int], by_draws: Mapping[int, Any]) -> None:
    arrays = {f"draws_{draws}": np.array(repeats, dtype=np.float32) for draws, repeats in by_draws.items()}
    with atomic_write(folder.predictions) as file:
        np.savez_compressed(file, labels=np.array(labels), **arrays)


def _attempt(device: str, gpu: bool, code: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "attempt": 1,
        "host": "node1",
        "device": device,
        "device_uuid": "GPU-1" if gpu else None,
        "code": dict(code),
        "command": "augbench run suite.toml --out out",
        "python": "3.11.7",
        "packages": {"torch": "2.9.0", "numpy": "2.0.0", "mlxtend": None},
    }


def _epochs(learned: Sequence[Mapping[str, float]], epochs: int) -> list[dict[str, Any]]:
    numbers = [*learned, *[learned[-1] if learned else {}] * (epochs - len(learned))]
    return [
        {"epoch": index, "loss": 1 / index, "accuracy": 0.5, "learned": dict(row)}
        for index, row in enumerate(numbers, 1)
    ]


def _metrics(accuracy: float) -> dict[str, dict[str, Any]]:
    values = {"accuracy": accuracy, "nll": 0.25, "brier": 0.125, "ece": 0.0625, "ece_equal_mass": 0.05}
    return {name: {"mean": value, "sd": None, "values": [value]} for name, value in values.items()}


@pytest.fixture
def any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let records have any names, on whose being harmless no format may rely."""
    monkeypatch.setattr(run_folder, "NAME_PATTERN", re.compile(".*", re.DOTALL))


@pytest.fixture(scope="session", autouse=True)
def results_of_other_predictions() -> Iterator[None]:
    """Let runs made by hand have results that are not those of their few images; one test takes this back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "AGREEMENT", math.inf)
        yield


@pytest.fixture(scope="session")
def write_run_below() -> WriteRun:
    """Write runs below any folder, for fixtures that several tests share."""
    return write_run_folder


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Write runs below `tmp_path`, or below `root`."""

    def write(*arguments: Any, root: Path = tmp_path, **options: Any) -> RunFolder:
        return write_run_folder(root, *arguments, **options)

    return write


@pytest.fixture
def finished(
    few_digits: None, make_spec: MakeSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal
) -> Callable[..., RunFolder]:
    """Execute a short run of a method."""

    def finish(method: str, **hyperparameters: Any) -> RunFolder:
        folder = make_folder(make_spec(method, **hyperparameters))
        assert execute(folder, settings, stop) is RunState.DONE
        return folder

    return finish
