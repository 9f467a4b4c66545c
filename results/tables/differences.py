"""Difference of each method from a reference, paired by seed and image, with its uncertainty."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from augbench.bench.common.wording import few_names, listed
from augbench.results.model.cells import accuracy_digits, asked_seeds, by_comparison, is_single_epoch, scores_of
from augbench.results.model.frame import Runs
from augbench.results.model.notes import MOST_NAMED, run_notes
from augbench.results.model.table import NOTHING, Cell, Column, Row, Table, number, signed, with_ends
from augbench.results.statistics.bootstrap import Floats, Interval, Weights, mean_intervals
from augbench.results.statistics.improvement import Improvement, probability_of_improvement
from augbench.results.statistics.moderated import LEAST_METHODS, LEAST_SEEDS, LEVEL
from augbench.results.statistics.paired import PairTest, best_methods, by_seed, compare_family, paired_differences
from augbench.results.tables.comparison import row_of, with_draws

PREFERRED_REFERENCE = "none"

MISMATCH = 1e-6  # between the accuracy of predictions and the recorded one; both are shares of the same images

COLUMNS = (
    Column("Against", "reference", None, "", rank=4),
    Column("Difference (points)", "accuracy_difference", None, "share", rank=1),
    Column("p (Holm)", "p_value", None, "probability", rank=2),
    Column("P(better)", "probability_of_improvement", None, "probability", rank=3),
)
BY_DEFAULT = (
    "The reference is none without draws. Without none, it is the method with the best mean, which makes differences "
    "to it look larger than they are."
)
DEFINITIONS = (
    "Difference: mean accuracy minus that of the reference, over the seeds that both have, in percentage points. In "
    "brackets: 95 % interval by a bootstrap that resamples seeds and test images, widened for few seeds; it allows for "
    "other seeds and other test images.",
    "p: two-sided t-test over paired seeds; it allows for other seeds on these same test images. With "
    f"{LEAST_METHODS} methods or more it is moderated: all pairs together tell how much differences scatter. "
    "{REFERENCE} p has Holm's correction: for all pairs if it is moderated or the best mean chose the "
    f"reference, else for all rows of the data set. Fewer than {LEAST_SEEDS} seeds are not tested. Few seeds show only "
    "large differences, so a large p tells little.",
    "P(better): fraction of pairs of runs in which the method has the higher accuracy; ties count as half. In "
    "brackets: 95 % interval for fresh runs (Clopper and Pearson, with as many trials as the method with fewer runs "
    "has). Five runs or fewer never exclude 0.5.",
    f"Bold: significantly better or worse, p at most {LEVEL:g}, with all requested seeds. (k/N): both have only k of "
    "these N seeds.",
)


@dataclass(frozen=True)
class Difference:
    """One method, with so many test-time draws, against the reference of its comparison, which has none.

    Attributes:
        seeds: Seeds that both have with an accuracy.
        asked: Seeds for which runs exist.
        estimate: Mean difference of accuracy over these seeds, a fraction; None without a common seed.
        interval: The same with its interval over seeds and images; None if it could not be computed.
        p_value: Of the t-test over seeds; None if nothing can be tested.
        p_adjusted: The same with Holm's correction for all differences of the comparison or, if the numbers choose
            the reference or the test is moderated, for those of all pairs.
        improvement: Probability of improvement; None without a common seed.
        problems: Why something could not be computed.
    """

    comparison: str
    label: str
    draws: int
    reference: str
    seeds: int
    asked: int
    estimate: float | None
    interval: Interval | None
    p_value: float | None
    p_adjusted: float | None
    improvement: Improvement | None
    problems: tuple[str, ...]

    @property
    def significant(self) -> bool:
        """Whether the test shows a difference, with all requested seeds."""
        return self.p_adjusted is not None and self.p_adjusted <= LEVEL and self.seeds >= self.asked


def has_differences(runs: Runs) -> bool:
    """Whether any comparison has a method to compare with another one."""
    return any(_comparable(runs))


def differences_table(runs: Runs, references: Mapping[str, str] | None = None) -> Table:
    """Compare each method with a reference on each data set: difference, test and probability of improvement.

    Methods with test-time draws have a second row, for the largest number of draws.

    Args:
        runs: All runs.
        references: Label of the reference by comparison; others are left out. By default `none` or the best method.

    Raises:
        UserError: If no run is finished.
    """
    finished = runs.finished()
    rows: list[Row] = []
    found: list[Difference] = []
    for here, group in _comparable(runs):
        reference = None if references is None else references.get(str(group["comparison"].iloc[0]))
        if references is not None and reference is None:
            continue
        of_group = _differences(here, group, reference)
        found += of_group
        for difference in of_group:
            inside = group[group["label"] == difference.label]
            name = difference.label + with_draws(difference.draws)
            rows.append(row_of(inside, name, _cells(difference, accuracy_digits(group))))
    left_out = sorted(set(finished["comparison"]) - {difference.comparison for difference in found})
    notes = [*run_notes(runs, finished), *_not_computed(found)]
    if left_out and references is None:
        notes.append(
            f"Nothing is compared on {few_names(left_out, MOST_NAMED)}: a single method, one epoch of training, or no "
            "method with all seeds to compare with."
        )
    data = pd.DataFrame([_line(row, difference) for row, difference in zip(rows, found, strict=True)])
    chosen = sorted(set((references or {}).values()))
    title = f"Differences from {listed(chosen)}" if chosen else "Differences from a reference"
    how_chosen = "The reference was chosen beforehand." if chosen else BY_DEFAULT
    definitions = tuple(text.replace("{REFERENCE}", how_chosen) for text in DEFINITIONS)
    bold = "Bold: significantly better or worse."
    return Table("differences", title, tuple(notes), definitions, COLUMNS, tuple(rows), data=data, bold=bold)


def standings(runs: Runs, references: Mapping[str, str]) -> list[str]:
    """Say of each reference in a sentence which methods it is better or worse than, all without test-time draws."""
    sentences = []
    for here, group in _comparable(runs):
        comparison = str(group["comparison"].iloc[0])
        if reference := references.get(comparison):
            rows = [one for one in _differences(here, group, reference) if one.draws == 0]
            sentences.append(f"{reference} on {comparison}: {_standing(rows)}.")
    return sentences


def _standing(rows: Sequence[Difference]) -> str:
    tested = [one for one in rows if one.p_adjusted is not None and one.seeds >= one.asked]
    by_verdict = {
        "better than": [one.label for one in tested if one.significant and (one.estimate or 0) < 0],
        "worse than": [one.label for one in tested if one.significant and (one.estimate or 0) > 0],
        "not told apart from": [one.label for one in tested if not one.significant],
        "not tested against": [one.label for one in rows if one not in tested],
    }
    return "; ".join(f"{verdict} {listed(labels)}" for verdict, labels in by_verdict.items() if labels)


def _comparable(runs: Runs) -> Iterator[tuple[Runs, pd.DataFrame]]:
    """Finished runs of each comparison with several methods and more than one epoch."""
    for here, group in by_comparison(runs, runs.finished()):
        if group["label"].nunique() > 1 and not is_single_epoch(group):
            yield here, group


def _differences(runs: Runs, group: pd.DataFrame, given: str | None) -> list[Difference]:
    """Compare the methods of a comparison once, since a table and sentences are made of the same."""
    return runs.once(("differences", given), lambda: find_differences(runs, group, given))


def find_differences(runs: Runs, group: pd.DataFrame, given: str | None = None) -> list[Difference]:
    """Compare each method of a comparison with its reference.

    Args:
        runs: All runs.
        group: Finished runs of one comparison, of at least two methods.
        given: Label of the reference, chosen whatever the numbers are.

    Returns:
        A difference for each method without draws but the reference, and one for each method with test-time draws, for
        the largest number of them; none if no method can be the reference.
    """
    most = int(runs.scores.loc[runs.scores["folder"].isin(group["folder"]), "draws"].max())
    by_draws = {draws: scores_of(runs, group, "accuracy", draws) for draws in (0, most)}
    reference = given or _reference(group, by_draws[0])
    if reference is None:
        return []
    entries = [
        (str(label), draws)
        for label in dict.fromkeys(group["label"])
        for draws, accuracies in by_draws.items()
        if (accuracies["label"] == label).any() and (label, draws) != (reference, 0)
    ]
    named = pd.concat(frame.assign(label=frame["label"] + with_draws(draws)) for draws, frame in by_draws.items())
    intervals = _intervals(runs, group, reference, entries)
    wide = by_seed(named)
    is_plain = bool(group.loc[group["label"] == reference, "method"].iloc[0] == PREFERRED_REFERENCE)
    is_given = given is not None or is_plain
    names = [label + with_draws(draws) for label, draws in entries]
    tests = _tests(wide, reference, names, methods=group["label"].nunique(), is_given=is_given)
    return [
        _difference(wide, group, reference, entry, intervals.get(entry), test)
        for entry, test in zip(entries, tests, strict=True)
    ]


def _tests(wide: pd.DataFrame, reference: str, names: Sequence[str], *, methods: int, is_given: bool) -> list[PairTest]:
    """Test each row against the reference.

    All pairs are one family if the numbers have chosen the reference, and for moderated tests: if the reference
    scatters more than the others, these hold their level over all pairs, but not over those with the reference.
    """
    rows = [(reference, name) for name in names]
    alone = is_given and methods < LEAST_METHODS
    tests = compare_family(wide, rows if alone else list(combinations([reference, *names], 2)), methods)
    return [tests[pair] for pair in rows]


def _reference(group: pd.DataFrame, accuracies: pd.DataFrame) -> str | None:
    """Choose the reference: no augmentation, else the best of the methods that have all seeds."""
    plain = group.loc[group["method"] == PREFERRED_REFERENCE, "label"]
    if len(plain):
        return str(plain.iloc[0])
    return best_methods(accuracies, higher_is_better=True, asked=asked_seeds(group)).best


def _difference(
    wide: pd.DataFrame,
    group: pd.DataFrame,
    reference: str,
    entry: tuple[str, int],
    interval: Interval | None,
    test: PairTest,
) -> Difference:
    label, draws = entry
    name = label + with_draws(draws)
    over_seeds = paired_differences(wide, name, reference)
    estimate = float(over_seeds.mean()) if len(over_seeds) else None
    problems = list(_problems(over_seeds, test.p_value, reference, interval))
    if interval is not None and (estimate is None or abs(interval.estimate - estimate) > MISMATCH):
        interval, problems = None, [*problems, "no interval where predictions and recorded accuracies do not agree"]
    return Difference(
        comparison=str(group["comparison"].iloc[0]),
        label=label,
        draws=draws,
        reference=reference,
        seeds=len(over_seeds),
        asked=asked_seeds(group),
        estimate=estimate,
        interval=interval,
        p_value=test.p_value,
        p_adjusted=test.p_adjusted,
        improvement=None if over_seeds.empty else _improvement(wide.loc[over_seeds.index], name, reference),
        problems=tuple(problems),
    )


def _problems(
    over_seeds: "pd.Series[float]", p_value: float | None, reference: str, interval: Interval | None
) -> Iterator[str]:
    """Tell why there is no interval or no test."""
    if len(over_seeds) == 0:
        yield f"no seed in common with {reference}"
    elif len(over_seeds) == 1:
        yield f"a single seed in common with {reference}"
    elif len(over_seeds) < LEAST_SEEDS:
        yield f"no test of fewer than {LEAST_SEEDS} seeds in common with {reference}"
    elif p_value is None:
        yield f"no test where the difference to {reference} is the same with every seed"
    if interval is None and len(over_seeds) > 1:
        yield "no interval without the predictions for each test image"


def _improvement(common: pd.DataFrame, name: str, reference: str) -> Improvement:
    """Probability of improvement over the seeds that both have, which are the rows."""
    return probability_of_improvement({"": common[name]}, {"": common[reference]})


def _intervals(
    runs: Runs, group: pd.DataFrame, reference: str, others: Sequence[tuple[str, int]]
) -> Mapping[tuple[str, int], Interval]:
    """Intervals over seeds and images of the methods with predictions, all with the same weights."""
    comparison = str(group["comparison"].iloc[0])
    theirs = runs.correct(comparison, reference, 0)
    known: dict[tuple[str, int], Floats] = {}
    for label, draws in others:
        ours = runs.correct(comparison, label, draws)
        common = ours.index.intersection(theirs.index)
        if len(common) and ours.shape[1] == theirs.shape[1]:
            values = ours.loc[common].to_numpy() - theirs.loc[common].to_numpy()
            known |= {(label, draws): values} if np.isfinite(values).all() else {}
    found = mean_intervals(list(known.values()), weights=Weights(max(1, theirs.shape[1])))
    return dict(zip(known, found, strict=True))


def _cells(difference: Difference, digits: int) -> list[Cell]:
    against = Cell(difference.reference)
    if difference.estimate is None or difference.improvement is None:
        return [against, Cell(NOTHING), Cell(NOTHING), Cell(NOTHING)]
    interval, improvement, p_value = difference.interval, difference.improvement, difference.p_adjusted
    low, high = (interval.low, interval.high) if interval else (None, None)
    values = (difference.estimate, low, high)
    points = [None if value is None else signed(number(100 * value, digits)) for value in values]
    values = (improvement.probability, improvement.low, improvement.high)
    chances = [None if value is None else f"{value:.2f}" for value in values]
    seeds = difference.seeds
    cell = Cell(with_ends(points), difference.estimate, None, seeds, best=difference.significant).of(difference.asked)
    tested = Cell(NOTHING) if p_value is None else Cell(_p_text(p_value), p_value, None, seeds)
    return [against, cell, tested, Cell(with_ends(chances), improvement.probability, None, seeds)]


def _p_text(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _not_computed(found: Sequence[Difference]) -> list[str]:
    """List what the table lacks and why, the methods with the same reason together."""
    by_problem: dict[str, list[str]] = {}
    for difference in found:
        for problem in difference.problems:
            name = f"{difference.label}{with_draws(difference.draws)} on {difference.comparison}"
            by_problem.setdefault(problem, []).append(name)
    return [f"Not computed, {problem}: {few_names(names, MOST_NAMED)}." for problem, names in by_problem.items()]


def _line(row: Row, difference: Difference) -> dict[str, object]:
    """A line of the CSV file: shares and probabilities, unrounded."""
    interval, improvement = difference.interval, difference.improvement
    return {
        "dataset": row.dataset,
        "network": row.network,
        "budget": row.budget,
        "protocol": row.protocol,
        "method": difference.label,
        "device": row.device,
        "draws": difference.draws,
        "reference": difference.reference,
        "seeds": difference.seeds,
        "asked": difference.asked,
        "difference": difference.estimate,
        "difference_low": interval and interval.low,
        "difference_high": interval and interval.high,
        "p_value": difference.p_value,
        "p_holm": difference.p_adjusted,
        "probability_of_improvement": improvement and improvement.probability,
        "probability_low": improvement and improvement.low,
        "probability_high": improvement and improvement.high,
    }
