"""Measured steps: arithmetic with a clock of our own, and a real run to compare with."""

import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_clock import TICKING, FakeClock, ticking_network

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.acceleration import Acceleration
from augbench.bench.experiment.spec import RunSpec, network_component
from augbench.bench.planning import calibration
from augbench.bench.planning.calibration import (
    Measurement,
    add_measurement,
    doubled,
    measure,
    read_measurements,
)
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.cost import Cost
from augbench.bench.training.provenance import describe_device
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.trainer import Trainer
from augbench.bench.training.worker import execute, load_dataset

MakeSpec = Callable[..., RunSpec]
Measured = Callable[..., tuple[Measurement, FakeClock]]
CPU = torch.device("cpu")


def test_work_is_doubled_until_it_takes_long() -> None:
    clock, sizes = FakeClock(), list[int]()

    def work(images: int) -> None:
        sizes.append(images)
        clock.passes(images / 10)

    assert doubled(work, 100, long=1.0, now=clock) == (16, pytest.approx(1.6))
    assert sizes == [2, 4, 8, 16, 16]
    assert doubled(work, 7, long=1.0, now=clock) == (7, pytest.approx(0.7))
    assert doubled(work, 1, long=1.0, now=clock) == (1, pytest.approx(0.1))


def test_work_that_is_done_only_once_does_not_count() -> None:
    clock, sizes = FakeClock(), list[int]()

    def work(images: int) -> None:
        clock.passes(images / 10 + (0 if sizes else 5))
        sizes.append(images)

    assert doubled(work, 100, long=1.0, now=clock) == (16, pytest.approx(1.6))
    assert sizes == [2, 2, 4, 8, 16, 16]


@pytest.fixture
def measured(few_digits: None, make_spec: MakeSpec, settings: ExecutionSettings) -> Iterator[Measured]:
    """Measure a run whose network takes so many seconds for an image, in training and in evaluation."""
    clock, seconds = FakeClock(), [0.0, 0.0]

    def run(method: str, training: float, evaluation: float = 0.0, **changes: Any) -> tuple[Measurement, FakeClock]:
        seconds[:] = training, evaluation
        spec = make_spec(method, epochs=5).model_copy(update={"network": network_component(TICKING)})
        for part, values in changes.items():
            spec = spec.model_copy(update={part: getattr(spec, part).model_copy(update=values)})
        found = measure(spec, load_dataset(spec.dataset, settings.data), CPU, clock)
        assert (found.kind, found.device, found.gpu) == (spec.configuration, describe_device(CPU), False)
        return found, clock

    with ticking_network(clock, seconds):
        yield run


@pytest.mark.slow
def test_the_arithmetic(measured: Measured) -> None:
    found, _ = measured("scale", 0.001, 0.0001)  # 4 copies of each of 400 images
    assert found.seconds["training"] == pytest.approx(0.001 * 4 * 400 * 5)
    # one pass without draws, 2 repeats of at most 2 draws, 3 angles; 100 images
    assert found.seconds["evaluation"] == pytest.approx(100 * (1 + 2 * 2 + 3) * 0.0001)
    assert (found.steps, found.whole_batch, found.search_unknown) == (20, True, False)
    # 80 of 400 images are held out and looked at after each epoch, too, and never turned
    found, _ = measured("scale", 0.001, 0.0001, protocol={"evaluated_on": "validation"})
    assert found.seconds["training"] == pytest.approx(0.001 * 4 * 320 * 5)
    assert found.seconds["evaluation"] == pytest.approx(80 * (6 + 2 * 2) * 0.0001)
    # the clean images once more, and 16 corruptions in 5 severities
    found, _ = measured("none", 0.001, 0.0001, protocol={"shift": "corruptions"})
    assert found.seconds["evaluation"] == pytest.approx(100 * (1 + 3 + 1 + 16 * 5) * 0.0001)


def test_a_batch_that_takes_seconds_is_not_measured_whole(measured: Measured) -> None:
    found, clock = measured("none", 0.3)
    assert clock.seconds < 20
    assert found.seconds["training"] == pytest.approx(0.3 * 400 * 5)
    assert (found.steps, found.whole_batch) == (3, False)


def test_compilation_is_measured_apart(measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trainer, "compile", lambda self: time.sleep(0.001))
    found, _ = measured("none", 0.001, budget={"acceleration": Acceleration(compiled=True)})
    assert set(found.seconds) >= {"compilation", "training", "evaluation"}
    assert found.seconds["training"] == pytest.approx(0.001 * 400 * 5)


@pytest.mark.usefixtures("few_digits")
def test_a_search_is_unknown(make_spec: MakeSpec, settings: ExecutionSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "TIMED_STEPS", 2)
    monkeypatch.setattr(calibration, "LONG_STEP", 0.01)
    spec = make_spec("dada")
    measured = measure(spec, load_dataset(spec.dataset, settings.data), CPU)
    assert measured.search_unknown
    assert set(measured.seconds) == {"training", "evaluation"}


def a_measurement(kind: str = "a", device: str = "b", steps: int = 3) -> Measurement:
    facts: dict[str, Any] = {"what": "a test", "whole_batch": True, "search_unknown": False, "time": "2026-01-01"}
    return Measurement(kind=kind, device=device, gpu=False, seconds={"training": 1.0}, steps=steps, **facts)


def test_measurements_are_kept_by_kind_and_device(tmp_path: Path) -> None:
    assert read_measurements(tmp_path / "out") == []
    for one in (a_measurement(), a_measurement(device="c"), a_measurement(kind="d"), a_measurement(steps=7)):
        add_measurement(tmp_path / "out", one)
    kept = {(one.kind, one.device): one.steps for one in read_measurements(tmp_path / "out")}
    assert kept == {("a", "b"): 7, ("a", "c"): 3, ("d", "b"): 3}


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"measurements": 3}', '{"measurements": {"a": {"kind": "b"}}}', '{"measurements": []}']
)
def test_a_damaged_file_is_explained(content: str, tmp_path: Path) -> None:
    (tmp_path / "calibration.json").write_text(content)
    with pytest.raises(UserError, match=r"calibration\.json is damaged\. Delete it.*--calibrate"):
        read_measurements(tmp_path)


def test_a_file_that_cannot_be_read_is_not_to_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    (tmp_path / "calibration.json").write_text("{}")
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UserError, match=r"calibration\.json cannot be read \(Permission denied\)\. Have its owner"):
        read_measurements(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["none", "scale", "trivialaugment"])
def test_a_real_run_takes_about_as_long(
    method: str,
    make_spec: MakeSpec,
    make_folder: Callable[[RunSpec], RunFolder],
    settings: ExecutionSettings,
    stop: StopSignal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # seconds of this process and not of the clock on the wall, so that it does not matter what else goes on
    monkeypatch.setattr(Cost, "now", lambda self: time.process_time())
    spec = make_spec(method, epochs=2)
    measured = measure(spec, load_dataset(spec.dataset, settings.data), CPU, time.process_time)
    folder = make_folder(spec)
    assert execute(folder, settings, stop) is RunState.DONE
    result = folder.read_result()
    assert result is not None
    real = result["seconds"][describe_device(CPU)]
    for phase in ("training", "evaluation"):
        expected, taken = measured.seconds[phase], real[phase]
        # A real run also does what is done only once, which a run of seconds shows.
        assert 0.4 < expected / taken < 2.5 or abs(expected - taken) < 0.5, (phase, measured.seconds, real)
