"""Measured steps: arithmetic with a clock of our own, and a real run to compare with."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.acceleration import Acceleration
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.planning import calibration
from augbench.bench.planning.calibration import (
    Measurement,
    add_measurement,
    doubled,
    measure,
    read_measurements,
    repeated,
)
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.cost import Cost
from augbench.bench.training.evaluation import predict, predict_with_draws
from augbench.bench.training.provenance import describe_device
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.trainer import Trainer
from augbench.bench.training.worker import execute, load_dataset

MakeSpec = Callable[..., RunSpec]
CPU = torch.device("cpu")


class FakeClock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.seconds

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


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


@pytest.mark.parametrize(("each", "times"), [(0.01, 20), (2.5, 3), (100.0, 2)])
def test_steps_are_repeated_for_some_seconds_and_at_least_twice(each: float, times: int) -> None:
    clock = FakeClock()
    assert repeated(lambda: clock.passes(each), clock) == [pytest.approx(each)] * times


@pytest.mark.usefixtures("few_digits")
def test_the_arithmetic(make_spec: MakeSpec, settings: ExecutionSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()

    def slow_step(self: Trainer, batch: torch.Tensor) -> None:
        clock.passes(0.001 * len(batch))

    def slowed(function: Callable[..., object], seconds: float) -> Callable[..., object]:
        def slow(network: object, images: torch.Tensor, *others: object) -> object:
            clock.passes(seconds * len(images))
            return function(network, images, *others)

        return slow

    monkeypatch.setattr(Trainer, "train_step", slow_step)
    monkeypatch.setattr(calibration, "predict", slowed(predict, 0.0001))
    monkeypatch.setattr(calibration, "predict_with_draws", slowed(predict_with_draws, 0.0002))
    monkeypatch.setattr(calibration, "accuracies", lambda _, split, *others, **side: clock.passes(0.0003 * len(split)))
    spec = make_spec("scale", epochs=5)
    data = load_dataset(spec.dataset, settings.data)
    measured = measure(spec, data, CPU, clock)
    assert measured.seconds["training"] == pytest.approx(0.001 * 400 * 5)
    # one pass without draws, 2 repeats of at most 2 draws, 3 angles; 100 images
    assert measured.seconds["evaluation"] == pytest.approx(100 * (0.0001 + 2 * 2 * 0.0002 + 3 * 0.0003))
    assert (measured.steps, measured.whole_batch, measured.search_unknown) == (20, True, False)
    assert (measured.kind, measured.device, measured.gpu) == (spec.configuration, describe_device(CPU), False)

    tuned = spec.model_copy(update={"protocol": spec.protocol.model_copy(update={"evaluated_on": "validation"})})
    measured = measure(tuned, data, CPU, clock)  # 80 of 400 images are held out and looked at after each epoch, too
    assert measured.seconds["training"] == pytest.approx(0.001 * 320 * 5)
    assert measured.seconds["evaluation"] == pytest.approx(80 * (6 * 0.0001 + 2 * 2 * 0.0002)), "and never turned"


@pytest.mark.usefixtures("few_digits")
def test_a_batch_that_takes_seconds_is_not_measured_whole(
    make_spec: MakeSpec, settings: ExecutionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    sizes: list[int] = []

    def slow_step(self: Trainer, batch: torch.Tensor) -> None:
        sizes.append(len(batch))
        clock.passes(0.3 * len(batch))

    monkeypatch.setattr(Trainer, "train_step", slow_step)
    spec = make_spec("none", epochs=2)
    measured = measure(spec, load_dataset(spec.dataset, settings.data), CPU, clock)
    assert sizes == [2, 4, 8, 8, 8, 8, 8]
    assert clock.seconds < 20
    assert measured.seconds["training"] == pytest.approx(0.3 * 400 * 2)
    assert (measured.steps, measured.whole_batch) == (3, False)


@pytest.mark.usefixtures("few_digits")
def test_compilation_is_measured_apart(
    make_spec: MakeSpec, settings: ExecutionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(Trainer, "compile", lambda self: clock.passes(90))
    monkeypatch.setattr(Trainer, "train_step", lambda self, batch: clock.passes(0.001 * len(batch)))
    spec = make_spec("none", epochs=2)
    budget = spec.budget.model_copy(update={"acceleration": Acceleration(compiled=True)})
    spec = spec.model_copy(update={"budget": budget})
    measured = measure(spec, load_dataset(spec.dataset, settings.data), CPU, clock)
    assert measured.seconds["compilation"] == 90
    assert measured.seconds["training"] == pytest.approx(0.001 * 400 * 2)


@pytest.mark.usefixtures("few_digits")
def test_a_search_is_unknown(make_spec: MakeSpec, settings: ExecutionSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "TIMED_STEPS", 2)
    monkeypatch.setattr(calibration, "LONG_STEP", 0.01)
    spec = make_spec("dada")
    measured = measure(spec, load_dataset(spec.dataset, settings.data), CPU)
    assert measured.search_unknown
    assert set(measured.seconds) == {"training", "evaluation"}


def a_measurement(kind: str = "a", device: str = "b", steps: int = 3) -> Measurement:
    return Measurement(
        kind=kind,
        device=device,
        gpu=False,
        what="a test",
        seconds={"training": 1.0},
        steps=steps,
        whole_batch=True,
        search_unknown=False,
        time="2026-01-01T00:00:00+00:00",
    )


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
    monkeypatch.setattr(Cost, "_now", lambda self: time.process_time())
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
