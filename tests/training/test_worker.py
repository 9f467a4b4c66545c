"""Executing runs: repeatable, resumable bit for bit, and honest about how they ended."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from augbench.bench.augmentation.transform_distribution import COORDINATES
from augbench.bench.common.errors import UserError
from augbench.bench.common.files import write_torch
from augbench.bench.contract.method import Method
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import RunSpec, dataset_component
from augbench.bench.runs.claim import BusyError
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training import cost, execution
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.trainer import Trainer, new_trainer
from augbench.bench.training.worker import execute, load_dataset
from augbench.results.records.contents import Planted
from augbench.results.records.record import RecordReader
from augbench.results.records.stored import read_stored

pytestmark = pytest.mark.usefixtures("few_digits")

METHODS = [entry.name for entry in methods() if not entry.target.searches]  # searches are tested with their methods

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]
Outcome = Callable[[RunFolder], dict[str, Any]]


@pytest.mark.parametrize("method", METHODS)
def test_interrupted_run_equals_an_uninterrupted_one_bit_for_bit(
    method: str,
    make_spec: MakeSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    stop_after: Callable[[int], StopSignal],
    outcome: Outcome,
) -> None:
    spec = make_spec(method, epochs=3)
    whole, parts = make_folder(spec), make_folder(spec)
    assert execute(whole, settings, stop) is RunState.DONE

    for steps in (3, 5, 2, 6):  # in the middle of the first epoch, at the end of it, at the start of the second, …
        assert execute(parts, settings, stop_after(steps)) is RunState.CANCELLED
        torch.manual_seed(1)  # another process would not have this one's global generator
    assert execute(parts, settings, stop) is RunState.DONE

    assert outcome(parts) == outcome(whole)
    assert (parts.read_result() or {})["attempts"] == 5


@pytest.mark.parametrize("method", ["none", "scale"])
def test_the_seed_decides_the_result(
    method: str,
    make_spec: MakeSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    outcome: Outcome,
) -> None:
    first, again, other = (make_folder(make_spec(method, seed=seed)) for seed in (0, 0, 1))
    for folder in (first, again, other):
        execute(folder, settings, stop)
    assert outcome(first) == outcome(again)
    assert outcome(first)["weights"] != outcome(other)["weights"]
    assert outcome(first)["predictions"] != outcome(other)["predictions"]


def test_methods_start_from_the_same_network(make_spec: MakeSpec, settings: ExecutionSettings) -> None:
    data = load_dataset(make_spec().dataset, settings.data)
    states = [new_trainer(make_spec(name), data, torch.device("cpu")).network.state_dict() for name in METHODS]
    for state in states[1:]:
        assert all(torch.equal(state[name], states[0][name]) for name in states[0])


def test_a_finished_run_is_not_touched_again(
    make_spec: MakeSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal
) -> None:
    folder = make_folder(make_spec())
    execute(folder, settings, stop)
    before = {path.name: path.stat().st_mtime_ns for path in folder.path.iterdir()}
    assert execute(folder, settings, stop) is RunState.DONE
    assert {path.name: path.stat().st_mtime_ns for path in folder.path.iterdir()} == before


def test_a_finished_run_leaves_result_model_and_trajectory(
    make_spec: MakeSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal
) -> None:
    folder = make_folder(make_spec("scale", epochs=2))
    execute(folder, settings, stop)
    result = folder.read_result()
    assert result is not None
    assert set(result["metrics"]) == {"0", "1", "2"}
    assert len(result["metrics"]["2"]["accuracy"]["values"]) == 2
    assert result["image_passes"] == {
        "search": 0,
        "training": 2 * 4 * 400,
        "evaluation": 100 * (1 + 2 * 2 + 3),
        "compilation": 0,
    }
    assert [row["epoch"] for row in folder.read_metrics()] == [1, 2]
    assert not folder.checkpoint.exists()
    assert "epoch 2" in folder.log.read_text()
    (environment,) = json.loads((folder.path / "environment.json").read_text())["attempts"]
    assert {"attempt", "code", "command", "packages", "device", "host", "threads", "workers"} <= set(environment)


def test_a_run_belongs_to_one_process_at_a_time(
    make_spec: MakeSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal
) -> None:
    folder = make_folder(make_spec())
    with folder.claim(), pytest.raises(BusyError):
        execute(folder, settings, stop)
    assert execute(folder, settings, stop) is RunState.DONE


def test_a_run_whose_owner_is_gone_counts_as_killed(make_spec: MakeSpec, make_folder: MakeFolder) -> None:
    folder = make_folder(make_spec())
    folder.write_status(RunState.RUNNING)
    assert folder.state() is RunState.KILLED
    with folder.claim():
        assert folder.state() is RunState.RUNNING


def test_a_kill_between_any_two_writes_leaves_a_run_that_can_go_on(
    make_spec: MakeSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    monkeypatch: pytest.MonkeyPatch,
    outcome: Outcome,
) -> None:
    class Killed(BaseException):
        pass

    whole, parts = make_folder(make_spec("scale", epochs=2)), make_folder(make_spec("scale", epochs=2))
    execute(whole, settings, stop)
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
                state = execute(parts, settings, stop)
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
    make_spec: MakeSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    monkeypatch: pytest.MonkeyPatch,
    fraction: float,
    evaluated_on: str,
    steps: list[int],
) -> None:
    saved: list[int] = []

    def save(path: Path, state: dict[str, Any]) -> None:
        if path.name == "checkpoint.pt":
            saved.append(state["step"])
        write_torch(path, state)

    monkeypatch.setattr(execution, "SHARE_OF_SAVING", fraction)
    monkeypatch.setattr(execution, "LEAST_SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr(execution, "write_torch", save)
    spec = make_spec(epochs=3)
    protocol = spec.protocol.model_copy(update={"evaluated_on": evaluated_on})
    folder = make_folder(spec.model_copy(update={"protocol": protocol}))
    assert execute(folder, settings, stop) is RunState.DONE
    assert saved == steps
    assert [row["epoch"] for row in folder.read_metrics()] == [1, 2, 3]


def test_an_epoch_is_saved_when_fifty_times_as_long_as_saving_took_has_passed(
    make_spec: MakeSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saved: list[int] = []
    spec, now = make_spec(epochs=9), 0.0
    trainer = new_trainer(spec, load_dataset(spec.dataset, settings.data), torch.device("cpu"))
    monkeypatch.setattr(execution.time, "monotonic", lambda: now)

    def save(path: Path, state: dict[str, Any]) -> None:
        nonlocal now
        now += 2
        saved.append(state["step"])

    monkeypatch.setattr(execution, "write_torch", save)
    monkeypatch.setattr(execution, "read_torch", lambda path: {})
    folder = make_folder(spec)
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


def test_trainer_asks_to_stop_only_in_states_that_can_be_saved(
    make_spec: MakeSpec, settings: ExecutionSettings
) -> None:
    spec, recorder = make_spec(epochs=2), Recorder()
    trainer = new_trainer(spec, load_dataset(spec.dataset, settings.data), torch.device("cpu"))
    trainer.train(recorder)
    assert recorder.asked == [(step, step // 7) for step in range(1, 15)]
    assert recorder.saved == [(7, 1), (14, 2)]


def test_a_stop_after_the_very_last_step_loses_nothing(
    make_spec: MakeSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    stop_after: Callable[[int], StopSignal],
    outcome: Outcome,
) -> None:
    whole, parts = make_folder(make_spec()), make_folder(make_spec())
    execute(whole, settings, stop)
    assert execute(parts, settings, stop_after(7)) is RunState.CANCELLED
    assert execute(parts, settings, stop) is RunState.DONE
    assert outcome(parts) == outcome(whole)
    assert len(parts.read_metrics()) == 1


def test_a_run_whose_result_was_deleted_is_made_again(
    make_spec: MakeSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal, outcome: Outcome
) -> None:
    folder = make_folder(make_spec())
    execute(folder, settings, stop)
    first = outcome(folder)
    (folder.path / "result.json").unlink()
    assert folder.state() is RunState.PLANNED
    assert execute(folder, settings, stop) is RunState.DONE
    assert outcome(folder) == first


def test_seconds_of_different_devices_are_kept_apart(
    make_spec: MakeSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    stop_after: Callable[[int], StopSignal],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = make_folder(make_spec())
    monkeypatch.setattr(cost, "describe_device", lambda device: "first device")
    execute(folder, settings, stop_after(3))
    monkeypatch.setattr(cost, "describe_device", lambda device: "second device")
    execute(folder, settings, stop)
    result = folder.read_result()
    assert result is not None
    assert set(result["seconds"]) == {"first device", "second device"}
    assert all(seconds["training"] > 0 for seconds in result["seconds"].values())
    assert result["seconds"]["first device"]["evaluation"] == 0
    attempts = json.loads((folder.path / "environment.json").read_text())["attempts"]
    assert [attempt["attempt"] for attempt in attempts] == [1, 2]


def test_what_a_kill_in_the_middle_of_a_write_has_left_is_cleared_away(
    make_spec: MakeSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal
) -> None:
    folder = make_folder(make_spec())
    (folder.path / ".checkpoint.pt.abc.tmp").write_bytes(b"half")
    execute(folder, settings, stop)
    assert not list(folder.path.glob(".*"))


def planted(spec: RunSpec, **options: Any) -> RunSpec:
    return spec.model_copy(update={"dataset": dataset_component("planted", {"shrink": 2, **options}, "a test")})


@pytest.mark.parametrize("method", ["none", "fixed", "trivialaugment", "augerino", "scale"])
def test_what_was_planted_is_compared_with_what_was_learned(
    method: str,
    make_spec: MakeSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    outcome: Outcome,
) -> None:
    first, again = (make_folder(planted(make_spec(method), rotation=90.0, flip=0.5)) for _ in range(2))
    for folder in (first, again):
        assert execute(folder, settings, stop) is RunState.DONE
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


def test_learners_without_maps_of_the_plane_are_not_compared(
    make_spec: MakeSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(methods().get("none"), "sample_transforms", Method.sample_transforms)
    folder = make_folder(planted(make_spec(), flip=0.5))
    assert execute(folder, settings, stop) is RunState.DONE
    result = folder.read_result()
    assert result is not None
    assert result["planted"] == {"law": "flip", "coordinates": ["flip"]}
    assert "recovery" not in result


def test_nothing_is_compared_where_nothing_was_planted(
    make_spec: MakeSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal
) -> None:
    folder = make_folder(make_spec())
    execute(folder, settings, stop)
    result = folder.read_result()
    assert result is not None
    assert not {"planted", "recovery"} & set(result)
    record = RecordReader().read(read_stored(folder)).result
    assert record is not None
    assert record.planted is None
    assert record.recovery == {}


def test_a_log_that_cannot_be_written_is_a_clear_error(
    make_spec: MakeSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal
) -> None:
    folder = make_folder(make_spec())
    folder.log.mkdir()
    with pytest.raises(UserError, match=r"log\.txt cannot be written: Is a directory"):
        execute(folder, settings, stop)
