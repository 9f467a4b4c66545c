"""What `augbench plan` says of the differences that a suite can show: where its numbers are from, and its words."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from augbench.bench.commands.resolution import (
    ASSUMED,
    ASSUMPTION,
    GAPS,
    OTHERS,
    OWN,
    Resolution,
    resolution_lines,
    resolutions,
)
from augbench.bench.common.files import write_json
from augbench.bench.experiment.suite import Suite, parse_suite
from augbench.bench.planning.estimates import Hours, groups_of
from augbench.bench.planning.plan import Plan, make_plan
from augbench.bench.planning.profile import Profile
from augbench.bench.runs.run_folder import RunFolder
from augbench.results.model.frame import load_runs
from augbench.results.statistics.paired import by_seed
from augbench.results.statistics.resolution import seeds_needed, smallest_difference, spread_of

CommandLine = Callable[..., tuple[int, str, str]]
MEASURED = Path(__file__).parents[2] / "results" / "measured" / "digits.parquet"

ACCURACIES = {"none": (0.90, 0.91, 0.92), "fixed": (0.91, 0.91, 0.93), "trivialaugment": (0.95, 0.93, 0.94)}
SPREAD = spread_of(100 * np.array(list(ACCURACIES.values())).T)


def suite_of(
    methods: Sequence[str] = tuple(ACCURACIES),
    *,
    seeds: int = 3,
    epochs: int = 2,
    size: int = 14,
    protocol: str = "",
) -> Suite:
    named = ", ".join(f'{{ name = "{method}" }}' for method in methods)
    return parse_suite(
        f"""
        name = "mine"
        title = "Mine"
        seeds = {list(range(seeds))}
        {protocol}
        [[comparisons]]
        datasets = [{{ name = "mnist5k", options = {{ size = {size} }} }}]
        methods = [{named}]
        network = "tiny"
        [comparisons.budget]
        epochs = {epochs}
        """,
        "a test",
    )


def finish(suite: Suite, out: Path, accuracies: Mapping[str, Sequence[float]]) -> None:
    """Write runs as if they were finished with these accuracies, by method and seed, after an hour on a processor."""
    for spec in suite.specs():
        folder = RunFolder(out / "runs" / spec.folder_name)
        folder.write_spec(spec)
        metrics = {"0": {"accuracy": {"mean": accuracies[spec.method.name][spec.seed]}}}
        content = {"identity": spec.identity, "seconds": {"cpu": {"training": 3600.0}}, "metrics": metrics}
        write_json(folder.path / "result.json", content)
        np.savez(folder.predictions)


def found(suite: Suite, out: Path) -> list[Resolution]:
    planned = make_plan(suite, out)
    return resolutions(planned, groups_of(planned, out, Profile(), "cpu"), out)


def lines(suite: Suite, out: Path) -> list[str]:
    planned = make_plan(suite, out)
    groups = groups_of(planned, out, Profile(), "cpu")
    return resolution_lines(resolutions(planned, groups, out), groups)


def test_finished_runs_of_the_comparison_tell_the_spread(tmp_path: Path) -> None:
    """In the plan and outside it: other seeds and other learners."""
    finish(suite_of(), tmp_path, ACCURACIES)
    for suite in (suite_of(), suite_of(("none", "scale", "fixed"), seeds=4)):
        (one,) = found(suite, tmp_path)
        assert (one.source, one.count, one.spread, one.learners) == (OWN, 9, SPREAD, 3)
        assert SPREAD is not None
        seeds = len(suite.seeds)
        assert (one.seeds, one.smallest) == (seeds, smallest_difference(SPREAD, seeds, 3))
        assert one.needed == {gap: seeds_needed(gap, SPREAD, 3) for gap in GAPS}


def test_else_runs_on_the_same_images_tell_it_and_else_it_is_assumed(tmp_path: Path) -> None:
    finish(suite_of(epochs=5), tmp_path, ACCURACIES)
    (one,) = found(suite_of(("none", "scale")), tmp_path)
    assert (one.source, one.count, one.spread) == (OTHERS, 9, SPREAD)
    (other,) = found(suite_of(size=28), tmp_path)
    assert (other.source, other.count, other.spread) == (ASSUMPTION, 0, ASSUMED)


def test_the_largest_of_the_other_comparisons_counts_and_no_single_epoch(tmp_path: Path) -> None:
    finish(suite_of(epochs=1), tmp_path, {method: (0.1, 0.5, 0.9) for method in ACCURACIES})
    finish(suite_of(("none", "fixed"), epochs=7), tmp_path, {"none": (0.1, 0.5, 0.9), "fixed": (0.9, 0.5, 0.1)})
    finish(suite_of(epochs=5), tmp_path, ACCURACIES)
    (one,) = found(suite_of(), tmp_path)
    assert (one.source, one.count, one.spread) == (OTHERS, 9, SPREAD)


def test_equal_differences_tell_nothing_nor_do_damaged_results(tmp_path: Path) -> None:
    finish(suite_of(), tmp_path, {method: (0.5, 0.6, 0.7) for method in ACCURACIES})
    (one,) = found(suite_of(), tmp_path)
    assert one.source == ASSUMPTION
    finish(suite_of(epochs=5), tmp_path, ACCURACIES)
    for number, spec in enumerate(suite_of(epochs=5).specs()):
        folder = RunFolder(tmp_path / "runs" / spec.folder_name)
        contents = ({"identity": "another"}, {"identity": spec.identity, "metrics": {"0": "?"}})
        write_json(folder.path / "result.json", contents[number % 2])
    (one,) = found(suite_of(), tmp_path)
    assert one.source == ASSUMPTION


@pytest.mark.parametrize(("learners", "seeds"), [(("none", "fixed"), 3), (tuple(ACCURACIES), 2)])
def test_too_few_finished_runs_tell_nothing(learners: tuple[str, ...], seeds: int, tmp_path: Path) -> None:
    finish(suite_of(learners, seeds=seeds), tmp_path, ACCURACIES)
    (one,) = found(suite_of(), tmp_path)
    assert (one.source, one.count, one.spread) == (ASSUMPTION, 0, ASSUMED)


def test_what_is_not_tested_is_said_or_left_out(tmp_path: Path) -> None:
    assert (
        "3 learners with 2 seeds: none, since a test takes 3. Seeds for 1.0 points: "
        in lines(suite_of(seeds=2), tmp_path)[1]
    )
    assert "3 learners with 1 seed: none, since a test takes 3. " in lines(suite_of(seeds=1), tmp_path)[1]
    assert lines(suite_of(("none",)), tmp_path)[1:] == [
        "mnist5k (size=14): none, since fewer than two learners have every seed."
    ]
    assert lines(suite_of(epochs=1), tmp_path) == []
    assert lines(suite_of(protocol='[protocol]\nevaluated_on = "validation"'), tmp_path) == []


def test_a_learner_without_all_seeds_is_not_tested(tmp_path: Path) -> None:
    three, five = suite_of(("none", "fixed")), suite_of(("scale", "dada", "trivialaugment"), seeds=5)
    planned = Plan(tuple(run for suite in (three, five) for run in make_plan(suite, tmp_path).runs))
    (one,) = resolutions(planned, groups_of(planned, tmp_path, Profile(), "cpu"), tmp_path)
    assert (one.learners, one.seeds) == (3, 5)


def test_learners_with_one_copy_count_under_every_reading_of_a_budget(tmp_path: Path) -> None:
    suite = suite_of(("none", "fixed", "scale"))
    (own,) = suite.comparisons
    equal = own.budget.model_copy(update={"equal": "passes"}) if own.budget else None
    copies = own.model_copy(update={"budget": equal, "methods": own.methods[2:]})
    several = found(suite.model_copy(update={"comparisons": (own, copies)}), tmp_path)
    assert [one.learners for one in several] == [3, 3], "none and fixed have one copy of each image"


def test_the_words(tmp_path: Path) -> None:
    """Differences have the variances 1/3, 3 and 7/3: the spread is the root of 17/9, the smallest 5.67 times that."""
    finish(suite_of(), tmp_path, ACCURACIES)
    said = lines(suite_of(), tmp_path)
    assert said == [
        "Differences of accuracy that tests find with 80 % power, corrected for all pairs of learners:",
        "mnist5k (size=14): 3 learners with 3 seeds: 7.8 points or more. Seeds (hours of all runs) for 1.0 points: 23 "
        "(69), 0.3: 223 (669), 0.1: over 1,000. Spread: 1.4 points, from 9 finished runs.",
        "Spread: standard deviation over seeds of the difference of two learners. Twice the spread, twice the "
        "difference.",
    ]
    assumed = lines(suite_of(("none", "scale")), tmp_path / "empty")
    assert assumed[1].endswith(". Spread: 0.50 points, assumed.")
    assert "Where it is assumed, all learners are taken to vary alike" in assumed[2]


def test_costs_that_are_partly_unknown_are_at_least(tmp_path: Path) -> None:
    finish(suite_of(("none",)), tmp_path, ACCURACIES)
    (one,) = found(suite_of(("none", "fixed")), tmp_path)
    seeds = one.needed[1.0]
    assert seeds is not None and one.cost[1.0] == Hours({"cpu": float(seeds)}, seeds, seeds)
    assert f"1.0 points: {seeds} (≥ {seeds:.2g})" in lines(suite_of(("none", "fixed")), tmp_path)[1]


def test_comparisons_of_which_the_same_holds_share_a_sentence(augbench: CommandLine, tmp_path: Path) -> None:
    code, text, _ = augbench("plan", "paper-rotmnist", "--out", tmp_path)
    assert code == 0
    assert "\nmnist, rotmnist: 3 learners with 5 seeds: 1.1 points or more. " in text


def test_scripts_get_the_numbers(augbench: CommandLine, tmp_path: Path) -> None:
    _, text, _ = augbench("plan", "paper-rotmnist", "--out", tmp_path, "--json")
    first, _ = json.loads(text)["resolution"]
    smallest = smallest_difference(ASSUMED, 5, 3)
    assert first == {
        "comparison": "mnist",
        "learners": 3,
        "seeds": 5,
        "power": 0.8,
        "spread": {"deviation": 0.5, "unevenness": 0.0, "source": "assumed", "runs": 0},
        "smallest_difference": pytest.approx(smallest),
        "seeds_needed": [
            {
                "difference": gap,
                "seeds": seeds_needed(gap, ASSUMED, 3),
                "cost": {"device_hours": {}, "runs": 0, "unknown_runs": 3 * (seeds_needed(gap, ASSUMED, 3) or 0)},
            }
            for gap in GAPS
        ],
    }


@pytest.mark.slow
def test_the_assumption_lies_among_what_was_measured() -> None:
    scores = load_runs(MEASURED).scores
    plain = scores[(scores["metric"] == "accuracy") & (scores["draws"] == 0)]
    spreads = [spread_of(100 * by_seed(group).to_numpy()) for _, group in plain.groupby("comparison")]
    measured = sorted(one.deviation for one in spreads if one)
    assert measured == [pytest.approx(0.39, abs=0.01), pytest.approx(0.73, abs=0.01)]
    assert measured[0] < ASSUMED.deviation < measured[1]
