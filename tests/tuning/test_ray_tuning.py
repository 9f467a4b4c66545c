"""The parts of a tuning that Ray Tune calls, without a cluster: what is chosen, what is stopped, what is reported."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from augbench.bench.contract.search_space import Range
from augbench.bench.launchers.ray_jobs.cluster import require_ray
from augbench.bench.planning.profile import RaySettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopRequested
from augbench.bench.tuning.outcome import is_stopped
from augbench.bench.tuning.tuning import Trial, Tuning

MakeTrial = Callable[..., Trial]


@pytest.fixture
def parts(ray_is_there: None) -> ModuleType:
    """The module, with Ray imported as the launcher imports it."""
    require_ray(RaySettings())
    from augbench.bench.tuning import ray_tuning

    return ray_tuning


def task_of(folder: RunFolder, stop_file: Path) -> Any:
    from augbench.bench.launchers.ray_jobs.trials import Task

    return Task(str(folder.path), "cpu", 1, 0.0, 0, 1, "data", str(stop_file))


def propose(parts: ModuleType, tuning: Tuning, out: Path, *, backwards: bool = False) -> list[Any]:
    """Have all trials chosen, ended in groups of four, each with as much accuracy as its regularisation."""
    from augbench.bench.launchers.ray_jobs.trials import Progress

    begun: list[Trial] = []

    def begin(trial: Trial) -> list[Any]:
        begun.append(trial)
        return [task_of(folder, out / "stop") for folder in trial.folders]

    proposals = parts.Proposals(tuning, out, begin, Progress())
    waiting: dict[str, Trial] = {}
    while True:
        name = f"trial {len(begun)}"
        suggested = proposals.suggest(name)
        if isinstance(suggested, dict):
            waiting[name] = begun[-1]
            continue
        for ended in reversed(waiting) if backwards else waiting:
            proposals.on_trial_complete(ended, {"validation_accuracy": waiting[ended].values["regularisation"]})
        if suggested == parts.Searcher.FINISHED:
            break
        assert len(waiting) == 4
        waiting = {}
    return [trial.values for trial in begun]


@pytest.mark.parametrize("search", ["random", "asha"])
def test_random_values_are_those_of_the_tuning(search: Any, parts: ModuleType, tuning: Tuning, tmp_path: Path) -> None:
    assert propose(parts, replace(tuning, search=search), tmp_path) == tuning.random_values()


def proposals_of(parts: ModuleType, tuning: Tuning, out: Path, *, stopping: bool = False) -> Any:
    """Make what proposes trials, whose folders are made when they begin."""
    from augbench.bench.launchers.ray_jobs.trials import Progress

    def begin(trial: Trial) -> list[Any]:
        trial.folders[0].write_spec(tuning.specs(trial.values)[0])
        return [task_of(trial.folders[0], out / "stop")]

    return parts.Proposals(tuning, out, begin, Progress(stopping=stopping))


@pytest.mark.parametrize(("search", "early"), [("random", [False, False]), ("asha", [False, True])])
def test_only_asha_may_stop_trials_early_and_never_the_first(
    search: Any, early: list[bool], parts: ModuleType, tuning: Tuning, tmp_path: Path
) -> None:
    proposals = proposals_of(parts, replace(tuning, search=search), tmp_path)
    assert [proposals.suggest(name)["early"] for name in ("first", "second")] == early


def test_nothing_is_begun_once_all_were_asked_to_stop_or_a_trial_was_cancelled(
    parts: ModuleType, tuning: Tuning, tmp_path: Path
) -> None:
    assert proposals_of(parts, tuning, tmp_path, stopping=True).suggest("trial") == parts.Searcher.FINISHED
    proposals = proposals_of(parts, tuning, tmp_path)
    assert all(isinstance(proposals.suggest(name), dict) for name in ("first", "second"))
    proposals.begun[0].folders[0].cancel_request.touch()
    assert proposals.suggest("third") == parts.Searcher.FINISHED


@pytest.mark.parametrize(
    ("tried", "value", "expected"),
    [
        (Range(low=0.1, high=1), 0.5, 0.5),
        (Range(low=0.1, high=1), 5.0, 1.0),
        (Range(low=1, high=4, whole=True), 9, 4),
        (Range(low=0.1, high=1), None, 0.1),
        (Range(choices=("a", "b")), "b", "b"),
        (Range(choices=("a", "b")), "z", "a"),
    ],
)
def test_values_out_of_a_range_are_told_to_optuna_as_the_nearest_in_it(
    parts: ModuleType, tried: Range, value: Any, expected: Any
) -> None:
    assert parts.nearest(tried, value) == expected


def decide(parts: ModuleType, scheduler: Any, trial: Trial, epoch: int, accuracy: float, **more: Any) -> bool:
    """Report an epoch of a trial; whether the trial is to stop."""
    ray_trial = SimpleNamespace(trial_id=str(trial.number), config={"run": {"folder": str(trial.folders[0].path)}})
    if trial.number not in scheduler.added:
        scheduler.added.add(trial.number)
        scheduler.on_trial_add(None, ray_trial)
    result = {"epoch": epoch, "validation_accuracy": accuracy, **more}
    assert scheduler.on_trial_result(None, ray_trial, result) == "CONTINUE", "Tune itself stops nothing"
    return is_stopped(trial.folders[0])


def test_a_trial_that_is_not_among_the_best_third_finds_that_in_its_folder(
    parts: ModuleType, make_trial: MakeTrial
) -> None:
    scheduler = parts.StopsByFile(epochs=9)
    scheduler.set_search_properties("validation_accuracy", "max")
    scheduler.added = set()
    first, good, bad, done = (make_trial(number, 0.5, state=RunState.RUNNING) for number in range(4))
    assert not decide(parts, scheduler, first, 1, 0.5)  # nothing to compare with
    assert not decide(parts, scheduler, good, 1, 0.6)
    assert decide(parts, scheduler, bad, 1, 0.4)
    assert json.loads((bad.folders[0].path / "stopped.json").read_text()) == {"epoch": 1}
    assert not decide(parts, scheduler, good, 2, 0.1)  # decisions are made after 1, 3 and 9 epochs
    assert not decide(parts, scheduler, done, 9, 0.1, ended="done")


def test_each_epoch_but_the_last_is_reported_once(parts: ModuleType, make_trial: MakeTrial, tmp_path: Path) -> None:
    folder = make_trial(1, 0.2, 0.4, 0.9, state=RunState.RUNNING).folders[0]
    folder.write_status(RunState.RUNNING, epochs=3)
    reported: list[tuple[int, float]] = []
    stop = parts.EpochReports(task_of(folder, tmp_path / "stop"), lambda *row: reported.append(row))
    stop.check()
    stop.check()
    assert reported == [(1, 0.2), (2, 0.4)]
    folder.write_metrics(folder.read_metrics()[:1])
    stop.check()
    assert len(reported) == 2


def test_a_decision_stops_the_run_at_once_and_a_stop_file_too(
    parts: ModuleType, make_trial: MakeTrial, tmp_path: Path
) -> None:
    trial = make_trial(1, 0.2, 0.4, state=RunState.RUNNING)
    folder, task = trial.folders[0], task_of(trial.folders[0], tmp_path / "stop")
    folder.write_status(RunState.RUNNING, epochs=3)

    def decided(epoch: int, accuracy: float) -> None:
        (folder.path / "stopped.json").write_text("{}")

    with pytest.raises(StopRequested):
        parts.EpochReports(task, decided).check()
    (folder.path / "stopped.json").unlink()
    (tmp_path / "stop").touch()
    with pytest.raises(StopRequested):
        parts.EpochReports(task, lambda *row: None).check()


def test_what_optuna_chooses_depends_on_results_and_not_on_which_trial_ends_first(
    parts: ModuleType, tuning: Tuning, tmp_path: Path
) -> None:
    search = replace(tuning, search="optuna", trials=30)
    values = propose(parts, search, tmp_path)
    assert len(values) == 30
    assert values[0] == tuning.initial
    assert all(tuning.ranges[name].contains(value) for one in values for name, value in one.items())
    assert propose(parts, search, tmp_path, backwards=True) == values
    assert propose(parts, replace(search, seed=1), tmp_path) != values
    late = sorted(one["regularisation"] for one in values[-10:])
    assert late[5] > 0.03, "the best values are the largest ones, up to 0.1"
