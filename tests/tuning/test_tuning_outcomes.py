"""How trials went, which is the best, what all of them cost, and the suite that is written."""

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from augbench.bench.commands import executing
from augbench.bench.commands.options import LaunchOptions
from augbench.bench.common.errors import UserError
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import load_suite, parse_suite
from augbench.bench.experiment.tuning_cost import TuningCost
from augbench.bench.launchers.launcher import LaunchRequest
from augbench.bench.planning.estimates import cost_to_confirm
from augbench.bench.planning.plan import PlannedRun, make_plan
from augbench.bench.planning.profile import Profile
from augbench.bench.planning.recorded_tuning import record_tuning
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.tuning.driving import waiting
from augbench.bench.tuning.outcome import TrialState, is_stopped, outcome_of, ranked, settle, stop_early
from augbench.bench.tuning.results import (
    begin_record,
    best_of,
    check_not_another,
    cost_of,
    suite_text,
    write_record,
    write_suite,
)
from augbench.bench.tuning.tuning import Trial, Tuning

MakeTrial = Callable[..., Trial]


def test_a_finished_trial_has_the_accuracy_of_its_result(make_trial: MakeTrial) -> None:
    outcome = outcome_of(make_trial(1, 0.5, 0.7, 0.9))
    assert (outcome.state, outcome.accuracy, outcome.epochs) == (TrialState.DONE, 0.9, 3)
    assert outcome.spent.seconds == {"cpu one": {"training": 10.0, "evaluation": 1.0}}
    assert outcome.spent.passes == 1100


def test_several_runs_of_a_trial_are_averaged(tuning: Tuning, make_trial: MakeTrial) -> None:
    folders = [make_trial(number, 0.1, accuracy).folders[0] for number, accuracy in ((1, 0.8), (2, 0.9))]
    outcome = outcome_of(Trial(0, {}, tuple(folders)))
    assert outcome.accuracy == pytest.approx(0.85)
    assert outcome.spent.by_device == {"cpu one": 22.0}


def test_what_failed_was_stopped_or_is_under_way_has_no_result_but_a_cost(make_trial: MakeTrial) -> None:
    failed = outcome_of(make_trial(1, 0.3, state=RunState.FAILED))
    assert (failed.state, failed.accuracy, failed.reason) == (TrialState.FAILED, None, "it diverged")
    stopped = outcome_of(make_trial(2, 0.3, 0.4, state=RunState.CANCELLED, early=True))
    assert (stopped.state, stopped.accuracy, stopped.epochs) == (TrialState.STOPPED, 0.4, 2)
    killed = outcome_of(make_trial(3, 0.3, state=RunState.KILLED))
    assert (killed.state, killed.accuracy) == (TrialState.UNFINISHED, 0.3)
    assert [one.spent.by_device for one in (failed, stopped, killed)] == [{"cpu one": 11.0}] * 3


def test_a_run_that_has_not_begun_has_cost_nothing(tuning: Tuning, tmp_path: Path) -> None:
    trial = tuning.trial(1, {"learning_rate": 0.05}, tmp_path)
    trial.folders[0].write_spec(tuning.specs(trial.values)[0])
    outcome = outcome_of(trial)
    assert (outcome.state, outcome.accuracy, outcome.spent.by_device) == (TrialState.UNFINISHED, None, {})


def test_what_was_stopped_keeps_its_cost_and_no_other_run_loses_anything(make_trial: MakeTrial) -> None:
    done, stopped, killed = (
        make_trial(1, 0.9),
        make_trial(2, 0.3, state=RunState.CANCELLED, early=True),
        make_trial(3, 0.3, state=RunState.KILLED),
    )
    stop_early(done.folders[0], 1)
    assert not is_stopped(done.folders[0]), "what is done cannot be stopped any more"
    before = outcome_of(stopped)
    for trial in (done, stopped, killed):
        settle(trial.folders[0])
    assert not stopped.folders[0].checkpoint.exists()
    assert outcome_of(stopped) == before
    assert killed.folders[0].checkpoint.exists()


def test_the_highest_accuracy_of_a_finished_trial_is_best_and_the_earlier_of_equal_ones(make_trial: MakeTrial) -> None:
    outcomes = [
        outcome_of(trial)
        for trial in (
            make_trial(0, 0.8),
            make_trial(1, 0.99, state=RunState.FAILED),
            make_trial(2, 0.9),
            make_trial(3, 0.9),
            make_trial(4, 0.95, state=RunState.CANCELLED, early=True),
        )
    ]
    assert [one.trial.number for one in ranked(outcomes)] == [2, 3, 0, 4, 1]
    assert best_of(outcomes).trial.number == 2
    with pytest.raises(UserError, match=r"None of the 2 trials has a result.*failed: it diverged.*--retry-failed"):
        best_of([outcomes[1], outcomes[4]])


def test_every_trial_counts_once_and_devices_are_kept_apart(tuning: Tuning, make_trial: MakeTrial) -> None:
    trials = [
        make_trial(0, 0.8, seconds={"cpu one": 10.0}),
        make_trial(1, 0.9, seconds={"cpu one": 20.0, "gpu two": 5.0}),
        make_trial(2, 0.1, seconds={"cpu one": 2.0}, state=RunState.FAILED),
    ]
    again = replace(trials[1], number=3)  # chosen again, and so the same run
    outcomes = [outcome_of(trial) for trial in (*trials, again)]
    assert cost_of(tuning, outcomes, outcomes[1]) == TuningCost(
        trials=4,
        search="random",
        seconds={"cpu one": 10.0 + 1 + 20 + 1 + 2 + 1, "gpu two": 6.0},
        image_passes=3 * 1100,
        values={"learning_rate": 0.02},
    )


def written(tuning: Tuning, make_trial: MakeTrial, out: Path) -> tuple[dict[str, Any], str]:
    outcomes = [outcome_of(make_trial(0, 0.8)), outcome_of(make_trial(1, 0.3, 0.4, state=RunState.FAILED))]
    outcomes.append(outcome_of(make_trial(2, 0.9, values={"learning_rate": 0.0123, "regularisation": 0.05})))
    record = json.loads(write_record(tuning, outcomes, out).read_text())
    best = best_of(outcomes)
    return record, write_suite(tuning, best, cost_of(tuning, outcomes, best), out, [5, 6]).read_text()


def test_all_trials_are_written_down_also_those_that_failed(
    tuning: Tuning, make_trial: MakeTrial, tmp_path: Path
) -> None:
    record, _ = written(tuning, make_trial, tmp_path)
    assert (record["trials"], record["best"]) == (4, 2)
    assert [one["state"] for one in record["outcomes"]] == ["done", "failed", "done"]
    assert [one["validation_accuracy"] for one in record["outcomes"]] == [0.8, None, 0.9]
    assert record["outcomes"][1]["reason"] == "it diverged"
    assert record["outcomes"][2]["values"] == {"learning_rate": 0.0123, "regularisation": 0.05}
    assert record["seconds"] == {"cpu one": {"training": 30.0, "evaluation": 3.0}}
    assert all((tmp_path / "runs" / name).is_dir() for one in record["outcomes"] for name in one["runs"])


def test_the_best_values_are_a_suite_that_runs_on_the_test_images(
    tuning: Tuning, base: RunSpec, make_trial: MakeTrial, tmp_path: Path
) -> None:
    _, text = written(tuning, make_trial, tmp_path)
    assert "90.00 % of the validation images" in text
    assert "4 trials" not in text.split("name =")[0], "it is the number of trials that were made that counts"
    suite = load_suite(str(tmp_path / "best.toml"))
    first, second = suite.specs()
    assert (first.seed, second.seed) == (5, 6)
    assert first.method.settings == {"copies": 2, "learning_rate": 0.0123, "regularisation": 0.05}
    expected = base.model_copy(update={"method": first.method, "seed": 5})
    assert first.identity == expected.identity
    assert first.protocol.evaluated_on == "test"
    assert set(suite.tunings()) == {first.configuration}
    assert suite.tunings()[first.configuration].trials == 3
    assert tomllib.loads(text)["comparisons"][0]["methods"][0]["tuning"]["seconds"] == {"cpu one": 33.0}


def test_what_a_tuning_cost_is_no_part_of_an_identity(tuning: Tuning, make_trial: MakeTrial, tmp_path: Path) -> None:
    _, text = written(tuning, make_trial, tmp_path)
    suite = tomllib.loads(text)
    cost = suite["comparisons"][0]["methods"][0]["tuning"]
    other = text.replace(str(cost["image_passes"]), "1")
    assert other != text
    assert parse_suite(other, "a test").specs() == parse_suite(text, "a test").specs()


def test_awkward_names_and_values_survive_in_the_suite(tuning: Tuning, make_trial: MakeTrial) -> None:
    best = outcome_of(make_trial(0, 0.8, values={"learning_rate": 0.0003}))
    cost = TuningCost(trials=1, search="asha", seconds={'NVIDIA "H200" ×8, \\new': 1e-7}, image_passes=0)
    assert parse_suite(suite_text(tuning, best, cost, [0]), "a test").tunings().popitem()[1] == cost


def test_the_cost_is_written_into_the_folders_of_runs_also_of_those_that_were_done_before(
    tuning: Tuning, make_trial: MakeTrial, tmp_path: Path
) -> None:
    written(tuning, make_trial, tmp_path)
    suite, out = load_suite(str(tmp_path / "best.toml")), tmp_path / "tuned"
    first, second = suite.specs()
    folder = RunFolder(out / "runs" / first.folder_name)
    folder.write_spec(first)
    record_tuning(suite.tunings(), make_plan(suite, out))
    kept = json.loads((folder.path / "tuning.json").read_text())
    values = {"learning_rate": 0.0123, "regularisation": 0.05}
    cost = {"trials": 3, "search": "random", "seconds": {"cpu one": 33.0}, "image_passes": 3300}
    assert kept == {**cost, "values": values}
    assert not (out / "runs" / second.folder_name).exists()
    folder.write_status(RunState.FAILED)
    folder.set_failure_aside()  # as `augbench retry` does, which knows of no suite
    assert json.loads((folder.path / "tuning.json").read_text()) == kept
    assert folder.state() is RunState.PLANNED


def test_the_cost_is_written_also_where_the_launch_was_broken_off(
    tuning: Tuning, make_trial: MakeTrial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tuning, make_trial, tmp_path)
    suite, out = load_suite(str(tmp_path / "best.toml")), tmp_path / "tuned"

    def broken_off(runs: Sequence[PlannedRun], request: LaunchRequest, **_: object) -> None:
        runs[0].folder.write_spec(runs[0].spec)
        raise typer.Exit(130)

    monkeypatch.setattr(executing, "place", broken_off)
    with pytest.raises(typer.Exit):
        executing.execute(suite, LaunchOptions().request(out), retry_failed=False)
    assert len(list((out / "runs").glob("*/tuning.json"))) == 1


def test_a_folder_holds_one_tuning_whose_cost_is_never_forgotten(
    tuning: Tuning, make_trial: MakeTrial, tmp_path: Path
) -> None:
    check_not_another(tuning, tmp_path)
    written(tuning, make_trial, tmp_path)
    check_not_another(tuning, tmp_path)
    check_not_another(replace(tuning, trials=9), tmp_path)
    with pytest.raises(UserError, match="holds a tuning of 4 trials, and their cost counts"):
        check_not_another(replace(tuning, trials=3), tmp_path)
    with pytest.raises(UserError, match="holds another tuning: seed was 0, is 1 now"):
        check_not_another(replace(tuning, seed=1), tmp_path)
    with pytest.raises(UserError, match="search was 'random', is 'asha' now"):
        check_not_another(replace(tuning, search="asha"), tmp_path)
    (tmp_path / "tuning.json").write_text("{")
    with pytest.raises(UserError, match=r"tuning\.json is damaged"):
        check_not_another(tuning, tmp_path)


def test_what_is_tuned_is_said_before_the_first_trial(tuning: Tuning, make_trial: MakeTrial, tmp_path: Path) -> None:
    out = tmp_path / "new"
    begin_record(tuning, out)  # and then Ctrl-C
    with pytest.raises(UserError, match="search was 'random', is 'asha' now"):
        check_not_another(replace(tuning, search="asha"), out)
    outcome = outcome_of(make_trial(0, 0.5))
    write_record(tuning, [outcome], out)
    begin_record(replace(tuning, trials=9), out)
    kept = json.loads((out / "tuning.json").read_text())
    assert (kept["trials"], len(kept["outcomes"])) == (9, 1)
    with pytest.raises(UserError, match="holds a tuning of 9 trials"):
        check_not_another(tuning, out)


def test_what_is_left_costs_what_the_first_run_has_cost(tuning: Tuning, make_trial: MakeTrial, tmp_path: Path) -> None:
    assert cost_to_confirm(waiting(tuning, tmp_path), tmp_path, Profile(), "cpu one").unknown == 4
    make_trial(0, 0.5, values=tuning.initial, seconds={"cpu one": 3599.0})
    left = waiting(tuning, tmp_path)
    assert cost_to_confirm(left, tmp_path, Profile(), "cpu one").by_device == {"cpu one": 3.0}


def test_of_a_trial_that_failed_or_was_stopped_no_other_run_is_left(
    tuning: Tuning, make_trial: MakeTrial, tmp_path: Path
) -> None:
    twice = replace(tuning, repeats=2)
    assert len(waiting(twice, tmp_path)) == 8
    make_trial(0, 0.5)
    make_trial(1, 0.5, state=RunState.FAILED)
    make_trial(2, 0.5, state=RunState.CANCELLED, early=True)
    make_trial(3, 0.5, state=RunState.KILLED)
    assert len(waiting(twice, tmp_path)) == 3  # one of the first, both of the last
    assert len(waiting(twice, tmp_path, retry_failed=True)) == 5
