"""Difference of each method from a reference, paired by seed and image, with its uncertainty."""

from collections.abc import Mapping, Sequence

import pandas as pd

from augbench.bench.common.wording import few_names, listed
from augbench.results.model.cells import accuracy_digits
from augbench.results.model.differences import Difference, comparable, differences_of
from augbench.results.model.frame import Runs
from augbench.results.model.notes import MOST_NAMED, run_notes
from augbench.results.model.table import NOTHING, Cell, Column, Row, Table, number, signed, with_draws, with_ends
from augbench.results.statistics.moderated import LEAST_METHODS, LEAST_SEEDS, LEVEL
from augbench.results.tables.comparison import row_of

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
    "reference, else for all rows of the data set; rows with and without draws are corrected apart. Fewer than "
    f"{LEAST_SEEDS} seeds are not tested. Few seeds show only large differences, so a large p tells little.",
    "P(better): fraction of pairs of runs in which the method has the higher accuracy; ties count as half. In "
    "brackets: 95 % interval for fresh runs (Clopper and Pearson, with as many trials as the method with fewer runs "
    "has). Five runs or fewer never exclude 0.5.",
    f"Bold: significantly better or worse, p at most {LEVEL:g}, with all requested seeds. (k/N): both have only k of "
    "these N seeds.",
)


def has_differences(runs: Runs) -> bool:
    """Whether any comparison has a method to compare with another one."""
    return any(comparable(runs))


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
    for here, group in comparable(runs):
        reference = None if references is None else references.get(str(group["comparison"].iloc[0]))
        if references is not None and reference is None:
            continue
        of_group = differences_of(here, group, reference)
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
    for here, group in comparable(runs):
        comparison = str(group["comparison"].iloc[0])
        if reference := references.get(comparison):
            rows = [one for one in differences_of(here, group, reference) if one.draws == 0]
            sentences.append(f"{reference} on {comparison}: {_standing(rows)}.")
    return sentences


def _standing(rows: Sequence[Difference]) -> str:
    tested = [one for one in rows if one.p_adjusted is not None and one.seeds >= one.asked]
    by_verdict = {
        "better than": [one.label for one in tested if one.significant and (one.estimate or 0) < 0],
        "worse than": [one.label for one in tested if one.significant and (one.estimate or 0) > 0],
        "not told apart from": [one.label for one in tested if not one.significant],
        "not tested against": [f"{one.label} ({one.seeds} of {one.asked} seeds)" for one in rows if one not in tested],
    }
    return "; ".join(f"{verdict} {listed(labels)}" for verdict, labels in by_verdict.items() if labels)


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
