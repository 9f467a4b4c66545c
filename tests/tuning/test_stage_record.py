"""What is kept of the stages of a suite: it tells that the suite has changed, and in which stage it is."""

from pathlib import Path

import pytest
from tuned_suite import SUITE, EndRun, end_trials, suite_with

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import write_json
from augbench.bench.contract.search_space import Range, ranges_of
from augbench.bench.experiment.budgets import LevelName
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import Suite, parse_suite
from augbench.bench.runs.recorded_stages import progress_lines, read_stages, waiting_in
from augbench.bench.tuning import tuning
from augbench.bench.tuning.stage_record import check_unchanged, kept_suite, record_path, write_stages
from augbench.bench.tuning.stages import stages_of


@pytest.fixture
def suite() -> Suite:
    return suite_with()


CHANGES = [
    ("epochs = 3", "epochs = 4", "scale (copies=2) on mnist5k: budget.epochs was 3, is 4 now"),
    ("copies = 2", "copies = 3", "scale (copies=3) on mnist5k: method.settings.copies was 2, is 3 now"),
    ("size = 14", "size = 28", "dataset.settings.size was 14, is 28 now"),
    ("trials = 3", "trials = 2", "3 trials were asked for, and are 2 now"),
    ("trials = 3", "trials = 3\nseed = 1", "seed of [tuning] was 0, is 1 now"),
    ("trials = 3", "trials = 3\nrepeats = 2", "repeats of [tuning] was 1, is 2 now"),
    ("trials = 3", 'trials = 3\nsearch = "asha"', "search of [tuning] was 'random', is 'asha' now"),
    ("trials = 3", "methods = { scale = { skip = true } }", "on mnist5k was tuned, and is not any more"),
    ("[tuning]\ntrials = 3\n", "", "randaugment on mnist5k was tuned, and is not any more"),
]


@pytest.mark.parametrize(("old", "new", "words"), CHANGES, ids=lambda text: text[:20])
def test_a_suite_that_changed_between_its_stages_is_noticed(
    suite: Suite, tmp_path: Path, old: str, new: str, words: str
) -> None:
    write_stages(suite, stages_of(suite, tmp_path), tmp_path)
    changed = suite_with((old, new))
    stages = stages_of(changed, tmp_path)
    with pytest.raises(UserError) as error:
        check_unchanged(changed, stages, tmp_path)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    record_path(changed, tmp_path).unlink()  # as the message says
    check_unchanged(changed, stages, tmp_path)


def test_ranges_that_a_plug_in_has_changed_are_noticed(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another range means other values for every trial, so that those of before would count for nothing."""
    write_stages(suite, stages_of(suite, tmp_path), tmp_path)

    def halved(hyperparameters: type) -> dict[str, Range]:
        ranges = ranges_of(hyperparameters)
        known = ranges.get("learning_rate")
        return ranges | ({"learning_rate": known.model_copy(update={"high": known.high / 2})} if known else {})

    monkeypatch.setattr(tuning, "ranges_of", halved)
    with pytest.raises(UserError, match=r"scale \(copies=2\) on mnist5k: the range of learning_rate was .*, is .* now"):
        check_unchanged(suite, stages_of(suite, tmp_path), tmp_path)


def test_where_nothing_is_tuned_any_more_nothing_waits_and_no_file_is_lost(suite: Suite, tmp_path: Path) -> None:
    write_stages(suite, stages_of(suite, tmp_path), tmp_path)
    methods = ', { name = "scale", hyperparameters = { copies = 2 } }, { name = "randaugment" }'
    plain = suite_with(("[tuning]\ntrials = 3\n", ""), (methods, ""))
    stages = stages_of(plain, tmp_path)
    check_unchanged(plain, stages, tmp_path)
    write_stages(plain, stages, tmp_path)
    assert waiting_in(read_stages(tmp_path)) == 0
    assert kept_suite(plain, tmp_path).exists(), "perhaps it is the very file that the command was given"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seeds = [0, 1, 2]", "seeds = [0, 1, 2, 3]"),
        ("trials = 3", "trials = 9"),
        ('{ name = "none" }', '{ name = "none" }, { name = "augerino" }'),
        (', { name = "randaugment" }', ""),
        ('title = "Small"', 'title = "Other"'),
    ],
)
def test_what_only_adds_to_a_suite_or_leaves_out_is_fine(suite: Suite, tmp_path: Path, old: str, new: str) -> None:
    write_stages(suite, stages_of(suite, tmp_path), tmp_path)
    changed = suite_with((old, new))
    check_unchanged(changed, stages_of(changed, tmp_path), tmp_path)


def test_the_record_says_in_which_stage_a_suite_is(suite: Suite, tmp_path: Path, end_run: EndRun) -> None:
    def lines() -> list[str]:
        stages = stages_of(suite, tmp_path)
        write_stages(suite, stages, tmp_path)
        states = {run.folder.path.name: run.state for run in stages.plan.runs}
        return list(progress_lines(read_stages(tmp_path), states))

    stages = stages_of(suite, tmp_path)
    for which in range(3):
        end_trials(stages, tmp_path, end_run, [0.5, None, 0.7], which)
    assert lines() == [
        "small: stage 1 of 2, trials: 9 of 12 runs ended, 3 of them failed. 3 runs of the comparison wait for their "
        "values."
    ]
    end_trials(stages, tmp_path, end_run, [0.5, None, 0.7], 3)
    assert lines() == ["small: stage 2 of 2, the comparison: 0 of 18 done."]
    assert waiting_in(read_stages(tmp_path)) == 0
    assert (tmp_path / "tuning" / "small.toml").read_text() == SUITE
    write_json(tmp_path / "tuning" / "other.json", {"searches": 1})
    (tmp_path / "tuning" / "damaged.json").write_text("{")
    assert len(read_stages(tmp_path)) == 1


def test_suites_of_different_names_never_share_a_record(tmp_path: Path) -> None:
    names = ("a b", "a-b", "A b", "ä b", "../a")
    paths = {record_path(suite_with(('"small"', f'"{name}"')), tmp_path) for name in names}
    assert len(paths) == len(names)
    assert {path.parent for path in paths} == {tmp_path / "tuning"}


def test_a_level_applies_to_trials_and_final_runs(tmp_path: Path) -> None:
    text = SUITE.replace("budget = { epochs = 3 }", 'level = "paper"').replace('"tiny"', '"wrn-28-10"')
    text = text.replace("mnist5k", "cifar10").replace("rotcifar10", "cifar100").replace(", options = { size = 14 }", "")
    suite = parse_suite(text, "a test")
    smoke = suite.at_level(LevelName.SMOKE)
    stages = stages_of(smoke, tmp_path)
    runs: list[RunSpec] = [run.spec for run in (*stages.trials, *stages.final, *stages.waiting)]
    assert {(spec.network.name, spec.budget.epochs) for spec in runs} == {("tiny", 1)}
    write_stages(smoke, stages, tmp_path)
    for level in (None, LevelName.PAPER, LevelName.SMOKE):
        check_unchanged(suite.at_level(level), stages_of(suite.at_level(level), tmp_path), tmp_path)
    assert next(iter(progress_lines(read_stages(tmp_path), {}))).startswith("small with --budget smoke: stage 1 of 2")
    assert kept_suite(suite.at_level(LevelName.PAPER), tmp_path) == kept_suite(suite, tmp_path), "its own level"
    fewer = parse_suite(text.replace("trials = 3", "trials = 2"), "a test").at_level(LevelName.SMOKE)
    with pytest.raises(UserError, match="What the suite 'small' with --budget smoke tunes has changed"):
        check_unchanged(fewer, stages_of(fewer, tmp_path), tmp_path)
