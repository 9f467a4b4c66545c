"""The stages of a suite with `[tuning]`, told from the suite and made-up run folders alone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tuned_suite import SUITE, EndRun, end_trials, suite_with

from augbench.bench.commands.staged import stage_lines, tell_about_tuning, value_lines
from augbench.bench.common.errors import UserError
from augbench.bench.common.files import read_json, write_json
from augbench.bench.experiment.suite import Suite, parse_suite
from augbench.bench.planning.estimates import cost_to_confirm
from augbench.bench.planning.profile import Profile
from augbench.bench.planning.recorded_tuning import record_tuning
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.tuning.driving import waiting
from augbench.bench.tuning.outcome import Outcome, TrialState, stop_early
from augbench.bench.tuning.stage_record import tried_before, write_stages
from augbench.bench.tuning.stages import Stages, stages_of


@pytest.fixture
def suite() -> Suite:
    return suite_with()


def finals(stages: Stages) -> list[tuple[str, str, int]]:
    return [(run.spec.method.name, run.spec.dataset.name, run.spec.seed) for run in stages.final]


def test_a_suite_without_the_table_has_one_stage(tmp_path: Path) -> None:
    suite = suite_with(("[tuning]\ntrials = 3\n", ""))
    stages = stages_of(suite, tmp_path)
    assert (stages.searches, stages.waiting) == ((), ())
    assert tuple(run.spec for run in stages.plan.runs) == suite.specs()


def test_first_the_trials_are_placed_and_what_waits_for_none(suite: Suite, tmp_path: Path) -> None:
    stages = stages_of(suite, tmp_path)
    names = [(search.tuning.base.method.name, search.tuning.base.dataset.name) for search in stages.searches]
    assert names == [(m, d) for d in ("mnist5k", "rotmnist5k") for m in ("scale", "randaugment")]
    assert [len(search.trials) for search in stages.searches] == [3] * 4, "the same for all"
    assert {run.spec.budget for run in stages.plan.runs} == {suite.comparisons[0].budget}
    assert {run.spec.protocol.evaluated_on for run in stages.trials} == {"validation"}
    assert stages.plan.runs[:12] == stages.trials, "others wait for them"
    assert finals(stages) == [("none", data, seed) for seed in range(3) for data in ("mnist5k", "rotmnist5k")]
    assert len(stages.waiting) == 12
    assert stages.untuned == {"none": "nothing to tune"}
    first, second, third = stage_lines(suite, stages)
    assert "3 trials for each method and data set (random). 12 runs: 12 missing." in first
    assert "6 runs: 6 missing. 12 runs wait for their values." in second
    assert third == "Not tuned, with the values of the suite: none (nothing to tune)."


def test_when_the_trials_of_one_search_have_ended_its_final_runs_have_the_best_values(
    suite: Suite, tmp_path: Path, end_run: EndRun
) -> None:
    before = stages_of(suite, tmp_path)
    end_trials(before, tmp_path, end_run, [0.5, 0.9, 0.7])
    stages = stages_of(suite, tmp_path)
    search = stages.searches[0]
    assert (search.ended, [one.ended for one in stages.searches[1:]]) == (True, [False] * 3)
    assert search.best is not None and search.best.trial.number == 1
    best = search.tuning.random_values()[1]
    own = [run.spec for run in stages.final if run.spec.method.name == "scale"]
    assert [spec.seed for spec in own] == [0, 1, 2]
    assert all(best.items() <= spec.method.all_settings.items() for spec in own)
    assert own[0].method.settings["copies"] == 2, "what the suite says and nothing tunes"
    expected = search.tuning.base.model_copy(update={"method": own[0].method})
    assert {spec.identity for spec in own} == {expected.with_seed(seed).identity for seed in range(3)}
    assert len(stages.waiting) == 9
    assert len(stages.unsettled().runs) == len(stages.plan.runs) - 3, "of its trials nothing is left to do"
    assert list(value_lines(stages)) == [
        f"scale (copies=2) on mnist5k: learning_rate={best['learning_rate']}, regularisation={best['regularisation']} "
        "(trial 1 of 3, 90.00 % of the validation images, untuned 50.00 %; 0.0092 h on cpu one)."  # 33 s
    ]


def test_a_trial_that_failed_counts_as_worst_and_holds_up_nothing(
    suite: Suite, tmp_path: Path, end_run: EndRun
) -> None:
    end_trials(stages_of(suite, tmp_path), tmp_path, end_run, [0.2, None, 0.1])
    stages = stages_of(suite, tmp_path)
    best = stages.searches[0].best
    assert best is not None and best.trial.number == 0
    assert stages.costs[stages.searches[0].tuning.base.configuration].seconds == {"cpu one": 33.0}
    assert RunState.FAILED not in stages.unsettled().counts()
    again = stages_of(suite, tmp_path, retry_failed=True)
    assert again.unsettled().counts()[RunState.FAILED] == 1
    assert (again.searches[0].ended, len(stages.waiting), len(again.waiting)) == (False, 9, 12), "it may become best"


@pytest.mark.parametrize(("killed", "stopped", "ended"), [(2, 5, False), (3, 0, True)])
def test_a_trial_that_was_killed_too_often_counts_as_worst(
    suite: Suite, tmp_path: Path, end_run: EndRun, killed: int, stopped: int, ended: bool
) -> None:
    stages = stages_of(suite, tmp_path)
    end_trials(stages, tmp_path, end_run, [0.5, 0.9, 0.7])
    folder = stages.searches[0].trials[1].folders[0]
    (folder.path / "result.json").unlink()
    folder.write_status(RunState.KILLED)
    for attempt in range(1, killed + stopped + 1):
        orderly = {"released": "now"} if attempt > killed else {}
        write_json(folder.path / f"claim-{attempt}.json", {"owner": {}, **orderly})
    after = stages_of(suite, tmp_path)
    best = after.searches[0].best
    assert after.searches[0].ended == ended
    assert (best.trial.number if best else None) == (2 if ended else None)
    if ended:
        assert after.searches[0].outcomes[1].reason == "killed in 3 attempts"
        assert stages_of(suite, tmp_path, retry_failed=True).unsettled().counts()[RunState.FAILED] == 1


def test_what_is_left_of_a_search_does_not_count_the_trials_of_others(
    suite: Suite, tmp_path: Path, end_run: EndRun
) -> None:
    stages = stages_of(suite, tmp_path)
    end_trials(stages, tmp_path, end_run, [0.5, 0.9, None])
    assert [len(waiting(search.tuning, tmp_path)) for search in stages.searches] == [0, 3, 3, 3]
    assert len(waiting(stages.searches[0].tuning, tmp_path, retry_failed=True)) == 1
    assert len(waiting(replace(stages.searches[0].tuning, seed=1), tmp_path)) == 3


def test_searches_that_choose_the_same_values_share_the_cost_of_all_their_trials(
    tmp_path: Path, end_run: EndRun
) -> None:
    two = '{ name = "scale" }, { name = "scale", hyperparameters = { learning_rate = 0.05 } }'
    suite = suite_with(
        ('{ name = "scale", hyperparameters = { copies = 2 } }', two), (', { name = "randaugment" }', "")
    )
    stages = stages_of(suite, tmp_path)
    for which in (0, 1):  # they differ in their first trial and share the two others
        end_trials(stages, tmp_path, end_run, [0.5, 0.9, 0.7], which)
    stages = stages_of(suite, tmp_path)
    assert len({search.chosen.identity for search in stages.searches[:2] if search.chosen}) == 1
    (cost,) = stages.costs.values()
    assert (cost.trials, cost.seconds) == (4, {"cpu one": 44.0}), "four different runs of 11 s"


def test_trials_tell_what_other_trials_cost_and_final_runs_what_other_final_runs_do(
    suite: Suite, tmp_path: Path, end_run: EndRun
) -> None:
    def to_confirm() -> tuple[int, float, int]:
        stages = stages_of(suite, tmp_path)
        runs = stages.alike((*stages.unsettled().to_do(retry_failed=False), *stages.waiting))
        hours = cost_to_confirm(runs, tmp_path, Profile(), "cpu one", stages.for_estimates())
        return hours.runs, round(hours.known * 3600), hours.unknown

    stages = stages_of(suite, tmp_path)
    assert to_confirm() == (0, 0, 12 + 18)
    end_run(stages.searches[0].tuning.specs(stages.searches[0].trials[1].values)[0], tmp_path)
    assert to_confirm() == (2, 22, 9 + 18), "two trials of 11 s, whichever trial has ended"
    end_trials(stages, tmp_path, end_run, [0.5, 0.9, 0.7])
    assert to_confirm() == (0, 0, 9 + 18)
    first = next(run.spec for run in stages_of(suite, tmp_path).final if run.spec.method.name == "scale")
    end_run(first, tmp_path)
    assert to_confirm() == (2, 22, 9 + 15)


def test_seeds_are_counted_for_each_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two networks with two seeds each are no four seeds."""
    comparison = SUITE[SUITE.index("[[comparisons]]") :].replace('"tiny"', '"wrn-28-10"')
    suite = parse_suite(SUITE.replace("[0, 1, 2]", "[0, 1]") + comparison, "a test")
    tell_about_tuning(suite, stages_of(suite, tmp_path))
    assert "the suite has 2 seeds, and a test takes 3 at least" in capsys.readouterr().err


def test_without_a_single_result_there_are_no_values(suite: Suite, tmp_path: Path, end_run: EndRun) -> None:
    end_trials(stages_of(suite, tmp_path), tmp_path, end_run, [None, None, None])
    stages = stages_of(suite, tmp_path)
    assert stages.without_values == (stages.searches[0],)
    assert ("scale", "mnist5k", 0) not in finals(stages)
    assert len(stages.waiting) == 9, "nothing waits for it any more"


@pytest.mark.parametrize("state", [RunState.CANCELLED, RunState.KILLED, RunState.TIMED_OUT, RunState.RUNNING])
def test_a_trial_that_can_still_get_a_result_is_waited_for(
    suite: Suite, tmp_path: Path, end_run: EndRun, state: RunState
) -> None:
    stages = stages_of(suite, tmp_path)
    end_trials(stages, tmp_path, end_run, [0.5, 0.9, 0.7])
    (spec,) = stages.searches[0].tuning.specs(stages.searches[0].trials[2].values)
    folder = RunFolder(tmp_path / "runs" / spec.folder_name)
    (folder.path / "result.json").unlink()
    folder.write_status(state)
    assert not stages_of(suite, tmp_path).searches[0].ended


def test_several_runs_of_a_trial_all_have_to_end(tmp_path: Path, end_run: EndRun) -> None:
    suite = suite_with(("trials = 3", "trials = 2\nrepeats = 2\nseed = 7"))
    stages = stages_of(suite, tmp_path)
    search = stages.searches[0]
    assert [spec.seed for spec in search.tuning.specs(search.trials[0].values)] == [7, 8]
    accuracies = iter((0.5, 0.7, 0.9, 0.1))
    specs = [spec for trial in search.trials for spec in search.tuning.specs(trial.values)]
    for spec in specs[:-1]:
        end_run(spec, tmp_path, next(accuracies))
    assert not stages_of(suite, tmp_path).searches[0].ended
    end_run(specs[-1], tmp_path, next(accuracies))
    best = stages_of(suite, tmp_path).searches[0].best
    assert best is not None
    assert (best.trial.number, best.accuracy) == (0, pytest.approx(0.6)), "the mean counts"


def test_more_trials_later_add_to_those_there(suite: Suite, tmp_path: Path, end_run: EndRun) -> None:
    end_trials(stages_of(suite, tmp_path), tmp_path, end_run, [0.5, 0.9, 0.7])
    more = stages_of(suite_with(("trials = 3", "trials = 4")), tmp_path)
    assert [run.state for run in more.searches[0].runs] == [RunState.DONE] * 3 + [RunState.PLANNED]
    assert ("scale", "mnist5k", 0) not in finals(more)
    (spec,) = more.searches[0].tuning.specs(more.searches[0].trials[3].values)
    end_run(spec, tmp_path, 0.95)
    after = stages_of(suite_with(("trials = 3", "trials = 4")), tmp_path)
    assert after.searches[0].best is not None and after.searches[0].best.trial.number == 3
    assert next(iter(after.costs.values())).trials == 4


def test_the_cost_stands_beside_every_final_run_once_the_values_are_known(
    suite: Suite, tmp_path: Path, end_run: EndRun
) -> None:
    end_trials(stages_of(suite, tmp_path), tmp_path, end_run, [0.5, 0.9, 0.7])
    own = [run.spec for run in stages_of(suite, tmp_path).final if run.spec.method.name == "scale"]
    for spec in own:
        end_run(spec, tmp_path)
    stages = stages_of(suite, tmp_path)
    record_tuning(stages.costs, stages.plan)
    kept = [read_json(tmp_path / "runs" / spec.folder_name / "tuning.json") for spec in own]
    values = stages.searches[0].tuning.random_values()[1]
    cost = {"trials": 3, "search": "random", "seconds": {"cpu one": 33.0}, "image_passes": 3300, "values": values}
    assert kept == [cost] * 3
    assert len(list(tmp_path.glob("runs/*/tuning.json"))) == 3, "none beside a trial"


def test_exceptions_of_single_methods(tmp_path: Path) -> None:
    more = "trials = 3\n[tuning.methods]\nscale = { trials = 5 }\nrandaugment = { skip = true }"
    suite = suite_with(("trials = 3", more))
    stages = stages_of(suite, tmp_path)
    assert [len(search.trials) for search in stages.searches] == [5, 5]
    assert stages.untuned == {"none": "nothing to tune", "randaugment": "skipped by the suite"}
    assert ("randaugment", "mnist5k", 0) in finals(stages)


def test_a_method_with_fewer_values_than_trials_tries_them_all(tmp_path: Path) -> None:
    """The strengths of `randaugment` are 31 and its numbers of operations 3 or so, which many trials exceed."""
    suite = suite_with(("trials = 3", "trials = 500"))
    stages = stages_of(suite, tmp_path)
    numbers = {search.tuning.base.method.name: search.tuning.trials for search in stages.searches}
    assert numbers["scale"] == 500 > numbers["randaugment"]
    assert f"randaugment {numbers['randaugment']} (it has no more values)" in next(iter(stage_lines(suite, stages)))


def test_what_was_tuned_before_is_not_tuned_again(tmp_path: Path) -> None:
    cost = "tuning = { trials = 9, search = 'asha', seconds = {}, image_passes = 0 }"
    suite = suite_with(('{ name = "randaugment" }', f'{{ name = "randaugment", {cost} }}'))
    stages = stages_of(suite, tmp_path)
    assert {search.tuning.base.method.name for search in stages.searches} == {"scale"}
    assert stages.untuned["randaugment"] == "tuned before"


def test_estimates_are_of_all_runs_with_the_values_of_the_suite(suite: Suite, tmp_path: Path, end_run: EndRun) -> None:
    def kinds(stages: Stages) -> dict[str, int]:
        counts: dict[str, int] = {}
        for run in stages.for_estimates().runs:
            counts[run.spec.configuration] = counts.get(run.spec.configuration, 0) + 1
        return counts

    before = kinds(stages_of(suite, tmp_path))
    assert sorted(before.values()) == [3] * 10, "3 trials of four searches, and 3 seeds of six final configurations"
    end_trials(stages_of(suite, tmp_path), tmp_path, end_run, [0.5, 0.9, 0.7])
    assert kinds(stages_of(suite, tmp_path)) == before


def test_trials_that_were_stopped_early_have_ended(tmp_path: Path, end_run: EndRun) -> None:
    suite = suite_with(("trials = 3", 'trials = 3\nsearch = "asha"'))
    stages = stages_of(suite, tmp_path)
    end_trials(stages, tmp_path, end_run, [0.5, 0.9, 0.7])
    folder = stages.searches[0].trials[2].folders[0]
    (folder.path / "result.json").unlink()
    folder.write_status(RunState.CANCELLED)
    stop_early(folder, 1)
    search = stages_of(suite, tmp_path).searches[0]
    assert [one.state for one in search.outcomes] == [TrialState.DONE, TrialState.DONE, TrialState.STOPPED]


def test_what_optuna_has_tried_is_known_from_the_record(tmp_path: Path, end_run: EndRun) -> None:
    suite = suite_with(("trials = 3", 'trials = 2\nsearch = "optuna"'))
    stages = stages_of(suite, tmp_path)
    search = stages.searches[0]
    assert [trial.values for trial in search.trials] == [search.tuning.initial]
    assert len(stages.for_estimates().runs) == 4 * 2 + 6 * 3, "the trials that are not known yet cost something, too"
    other = {**search.tuning.initial, "learning_rate": 0.0123}
    trials = [
        search.tuning.trial(number, values, tmp_path) for number, values in enumerate((search.tuning.initial, other))
    ]
    outcomes = []
    for trial, accuracy in zip(trials, (0.4, 0.6), strict=True):
        end_run(search.tuning.specs(trial.values)[0], tmp_path, accuracy)
        outcomes.append(Outcome(trial, TrialState.DONE, accuracy))
    write_stages(suite, stages.with_outcomes(search, outcomes), tmp_path)
    after = stages_of(suite, tmp_path, tried_before(suite, tmp_path))
    assert after.searches[0].best is not None and after.searches[0].best.trial.values == other
    assert not after.searches[1].ended
    unfinished = [replace(outcomes[0]), replace(outcomes[1], state=TrialState.UNFINISHED)]
    assert stages.with_outcomes(search, unfinished) is stages


MISTAKES = [
    ("trials = 3", "trials = 1", "greater than or equal to 2"),
    ("trials = 3", "trails = 3", "no key 'tuning.trails'. Did you mean 'trials'"),
    ("trials = 3", 'search = "grid"', "'random', 'optuna' or 'asha'"),
    ("trials = 3", "repeats = 0", "greater than or equal to 1"),
    ("trials = 3", "methods = { scale = {} }", "needs either `trials` or `skip = true`"),
    ("trials = 3", "methods = { scale = { trials = 4, skip = true } }", "needs either `trials` or `skip = true`"),
    ("[tuning]", '[protocol]\nevaluated_on = "validation"\n[tuning]', '`evaluated_on` must stay "test"'),
]


@pytest.mark.parametrize(("old", "new", "words"), MISTAKES, ids=lambda text: text[:20])
def test_mistakes_in_the_table_are_explained(old: str, new: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        suite_with((old, new))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_suite_with_nothing_to_tune_says_so(tmp_path: Path) -> None:
    methods = '{ name = "scale", hyperparameters = { copies = 2 } }, { name = "randaugment" }'
    with pytest.raises(UserError, match=r"none of its methods \(none, fixed\) has anything left to tune.*scale"):
        stages_of(suite_with((methods, '{ name = "fixed" }')), tmp_path)


@pytest.mark.parametrize(
    ("method", "message"),
    [("scael", "no method 'scael'. Did you mean 'scale'"), ("none", "nothing to tune")],
)
def test_exceptions_for_what_cannot_be_tuned_are_explained(method: str, message: str, tmp_path: Path) -> None:
    suite = suite_with(("trials = 3", f"methods = {{ {method} = {{ trials = 4 }} }}"))
    with pytest.raises(UserError) as error:
        stages_of(suite, tmp_path)
    assert message in str(error.value)


def test_identities_do_not_know_of_the_table(suite: Suite) -> None:
    plain = suite_with(("[tuning]\ntrials = 3\n", ""))
    identities: Callable[[Suite], list[str]] = lambda one: [spec.identity for spec in one.specs()]  # noqa: E731
    assert identities(suite) == identities(plain)
