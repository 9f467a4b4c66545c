"""Executing runs: repeatable, resumable bit for bit, and honest about how they ended."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from short_runs import Runs, result_of

from augbench.bench.augmentation.transform_distribution import COORDINATES
from augbench.bench.common.errors import UserError
from augbench.bench.common.files import write_torch
from augbench.bench.contract.method import Method
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import RunSpec, dataset_component
from augbench.bench.runs.claim import BusyError
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training import cost, execution
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.trainer import Trainer
from augbench.results.records.contents import Planted
from augbench.results.records.record import RecordReader
from augbench.results.records.stored import read_stored

METHODS = [entry.name for entry in methods() if not entry.target.searches]  # searches are tested with their methods
# the conformance checks resume every method, too
RESUMED = [pytest.param(n, marks=[pytest.mark.slow] * (n not in ("none", "scale", "augerino"))) for n in METHODS]

Outcome = Callable[[RunFolder], dict[str, Any]]


@pytest.mark.parametrize("method", RESUMED)
def test_interrupted_run_equals_an_uninterrupted_one_bit_for_bit(method: str, runs: Runs, outcome: Outcome) -> None:
    whole = runs.done(method, epochs=3)
    # in the middle of the first epoch, at the end of it, at the start of the second, …
    parts = runs.in_parts(runs.spec(method, epochs=3), 3, 5, 2, 6)
    assert outcome(parts) == outcome(whole)
    assert result_of(parts)["attempts"] == 5


@pytest.mark.slow
@pytest.mark.parametrize("method", ["none", "scale"])
def test_the_seed_decides_the_result(method: str, runs: Runs, outcome: Outcome) -> None:
    first, again, other = (outcome(runs.done(method, seed=seed)) for seed in (0, 0, 1))
    assert first == again
    assert first["weights"] != other["weights"]
    assert first["predictions"] != other["predictions"]


def test_methods_start_from_the_same_network(runs: Runs) -> None:
    data = runs.data()
    states = [runs.trainer(name, data).network.state_dict() for name in METHODS]
    for state in states[1:]:
        assert all(torch.equal(state[name], states[0][name]) for name in states[0])


def test_a_finished_run_is_not_touched_again_unless_its_result_was_deleted(runs: Runs, outcome: Outcome) -> None:
    folder = runs.done()
    before = {path.name: path.stat().st_mtime_ns for path in folder.path.iterdir()}
    assert runs.execute(folder) is RunState.DONE
    assert {path.name: path.stat().st_mtime_ns for path in folder.path.iterdir()} == before
    first = outcome(folder)
    (folder.path / "result.json").unlink()
    assert folder.state() is RunState.PLANNED
    assert runs.execute(folder) is RunState.DONE
    assert outcome(folder) == first


def test_a_finished_run_leaves_result_model_and_trajectory(runs: Runs) -> None:
    folder = runs.folder("scale", epochs=2)
    (folder.path / ".checkpoint.pt.abc.tmp").write_bytes(b"half")  # left by a kill in the middle of a write
    assert runs.execute(folder) is RunState.DONE
    assert not list(folder.path.glob(".*"))
    result = result_of(folder)
    assert set(result["metrics"]) == {"0", "1", "2"}
    assert len(result["metrics"]["2"]["accuracy"]["values"]) == 2
    evaluated = 100 * (1 + 2 * 2 + 3)
    assert result["image_passes"] == {"search": 0, "training": 3200, "evaluation": evaluated, "compilation": 0}
    assert [row["epoch"] for row in folder.read_metrics()] == [1, 2]
    assert not folder.checkpoint.exists()
    assert "epoch 2" in folder.log.read_text()
    (environment,) = json.loads((folder.path / "environment.json").read_text())["attempts"]
    assert {"attempt", "code", "command", "packages", "device", "host", "threads", "workers"} <= set(environment)


def test_a_run_belongs_to_one_process_at_a_time(runs: Runs) -> None:
    folder = runs.folder()
    with folder.claim(), pytest.raises(BusyError):
        runs.execute(folder)
    folder.write_status(RunState.RUNNING)
    assert folder.state() is RunState.KILLED  # its owner is gone
    with folder.claim():
        assert folder.state() is RunState.RUNNING
    assert runs.execute(folder) is RunState.DONE


def test_a_kill_between_any_two_writes_leaves_a_run_that_can_go_on(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    class Killed(BaseException):
        pass

    whole, parts = runs.done("scale", epochs=2), runs.folder("scale", epochs=2)
    replace, calls = Path.replace, 0

    def killed_at(number: int) -> Callable[[Path, Path], Path]:
        def replace_or_die(self: Path, target: Path) -> Path:
            nonlocal calls
            calls += 1
            if calls == number:
                raise Killed
            return replace(self, target)

        return replace_or_die

    for number in range(1, 100):
        calls = 0
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", killed_at(number))
            try:
                state = runs.execute(parts)
            except Killed:
                continue
        if calls < number:
            break
    assert state is RunState.DONE
    assert number > 5
    assert outcome(parts) == outcome(whole)


@pytest.mark.parametrize(
    ("fraction", "evaluated_on", "steps"),
    [
        (1e9, "test", [7, 14, 21]),
        (0.0, "test", [21]),  # what is over is saved, however long that takes
        (0.0, "validation", [5, 10, 15]),  # a tuning looks at every epoch, and keeps images from the training
    ],
)
def test_saving_takes_a_small_share_of_the_time(
    fraction: float, evaluated_on: str, steps: list[int], runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []

    def save(path: Path, state: dict[str, Any]) -> None:
        if path.name == "checkpoint.pt":
            saved.append(state["step"])
        write_torch(path, state)

    monkeypatch.setattr(execution, "SHARE_OF_SAVING", fraction)
    monkeypatch.setattr(execution, "LEAST_SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr(execution, "write_torch", save)
    spec = runs.spec(epochs=3)
    protocol = spec.protocol.model_copy(update={"evaluated_on": evaluated_on})
    folder = runs.done(spec.model_copy(update={"protocol": protocol}))
    assert saved == steps
    assert [row["epoch"] for row in folder.read_metrics()] == [1, 2, 3]


def test_an_epoch_is_saved_when_fifty_times_as_long_as_saving_took_has_passed(
    runs: Runs, stop: StopSignal, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []
    folder, trainer, now = runs.folder(epochs=9), runs.trainer(epochs=9), 0.0
    monkeypatch.setattr(execution.time, "monotonic", lambda: now)

    def save(path: Path, state: dict[str, Any]) -> None:
        nonlocal now
        now += 2
        saved.append(state["step"])

    monkeypatch.setattr(execution, "write_torch", save)
    monkeypatch.setattr(execution, "read_torch", lambda path: {})
    with folder.claim() as ownership:
        attempt = execution.Execution(folder, ownership, stop, last_save=now)
        for trainer.step in range(1, 9):
            now += 40  # seconds of an epoch; saving takes 2
            attempt.after_phase(trainer)
    assert saved == [1, 4, 7]  # the first, and those with 120 > 100 seconds since the last


class Recorder:
    """Remembers at which steps a run asked, and how many epochs were closed then."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.saved: list[tuple[int, int]] = []

    def during_search(self, trainer: Trainer) -> None:
        """Do nothing."""

    def after_step(self, trainer: Trainer) -> None:
        """Remember."""
        self.asked.append((trainer.step, len(trainer.rows)))

    def after_phase(self, trainer: Trainer) -> None:
        """Remember."""
        self.saved.append((trainer.step, len(trainer.rows)))


def test_trainer_asks_to_stop_only_in_states_that_can_be_saved(runs: Runs) -> None:
    recorder = Recorder()
    runs.trainer(epochs=2).train(recorder)
    assert recorder.asked == [(step, step // 7) for step in range(1, 15)]
    assert recorder.saved == [(7, 1), (14, 2)]


def test_a_stop_after_the_very_last_step_loses_nothing(runs: Runs, outcome: Outcome) -> None:
    whole, parts = runs.done(), runs.in_parts(runs.spec(), 7)
    assert outcome(parts) == outcome(whole)
    assert len(parts.read_metrics()) == 1


def test_seconds_of_different_devices_are_kept_apart(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = runs.folder()
    for name, questions in (("first device", 3), ("second device", None)):
        monkeypatch.setattr(cost, "describe_device", lambda device, name=name: name)
        runs.execute(folder, questions)
    result = result_of(folder)
    assert set(result["seconds"]) == {"first device", "second device"}
    assert all(seconds["training"] > 0 for seconds in result["seconds"].values())
    assert result["seconds"]["first device"]["evaluation"] == 0
    attempts = json.loads((folder.path / "environment.json").read_text())["attempts"]
    assert [attempt["attempt"] for attempt in attempts] == [1, 2]


def planted(spec: RunSpec, **options: Any) -> RunSpec:
    return spec.model_copy(update={"dataset": dataset_component("planted", {"shrink": 2, **options}, "a test")})


@pytest.mark.parametrize("method", ["none", "fixed", "trivialaugment", "augerino", "scale"])
def test_what_was_planted_is_compared_with_what_was_learned(method: str, runs: Runs, outcome: Outcome) -> None:
    first, again = (runs.done(planted(runs.spec(method), rotation=90.0, flip=0.5)) for _ in range(2))
    result = RecordReader().read(read_stored(first)).result
    assert result is not None
    assert result.planted == Planted(law="rotation ±90° + flip", coordinates=("turn", "flip"))
    assert tuple(result.recovery) == COORDINATES
    missed = {"none": 0.5, "fixed": 0.0, "trivialaugment": 0.4375, "augerino": 0.5}  # TrivialAugment mirrors 1 in 16
    if method in missed:
        assert result.recovery["flip"] == pytest.approx(missed[method], abs=0.005)
    if method == "none":
        assert result.recovery["turn"] == pytest.approx(0.25, abs=1e-4)
    assert outcome(first) == outcome(again)


def test_learners_without_maps_of_the_plane_are_not_compared(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods().get("none"), "sample_transforms", Method.sample_transforms)
    result = result_of(runs.done(planted(runs.spec(), flip=0.5)))
    assert result["planted"] == {"law": "flip", "coordinates": ["flip"]}
    assert "recovery" not in result


def test_nothing_is_compared_where_nothing_was_planted(runs: Runs) -> None:
    folder = runs.done()
    assert not {"planted", "recovery"} & set(result_of(folder))
    record = RecordReader().read(read_stored(folder)).result
    assert record is not None
    assert (record.planted, record.recovery) == (None, {})


def test_a_log_that_cannot_be_written_is_a_clear_error(runs: Runs) -> None:
    folder = runs.folder()
    folder.log.mkdir()
    with pytest.raises(UserError, match=r"log\.txt cannot be written: Is a directory"):
        runs.execute(folder)
