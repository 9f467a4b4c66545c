"""Cells of measured numbers: the average over seeds, n of N, and which may be best in their comparison."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from augbench.results.model.frame import Runs
from augbench.results.model.table import Cell, mean_cell
from augbench.results.statistics.groups import letters
from augbench.results.statistics.moderated import LEVEL
from augbench.results.statistics.paired import Best, best_methods

LOWER_IS_BETTER = ("nll", "brier", "ece", "ece_equal_mass")
SCORE_DIGITS = 3  # of all metrics but the accuracy


def accuracy_digits(group: pd.DataFrame) -> int:
    """Digits of a percentage that the test images can tell apart: 1 for 1,000 of them, 2 for 10,000."""
    return max(1, math.ceil(math.log10(group["test_images"].iloc[0])) - 2)


def asked_seeds(group: pd.DataFrame) -> int:
    """Number of seeds for which runs of a comparison exist, finished or not."""
    return int(group["asked"].max())


def is_single_epoch(group: pd.DataFrame) -> bool:
    """Whether networks were trained for a single epoch, as at the level `smoke`, so that no result means anything."""
    return bool((group["epochs"] == 1).all())


def by_comparison(runs: Runs, chosen: pd.DataFrame) -> Sequence[tuple[Runs, pd.DataFrame]]:
    """Split some runs by comparison, which makes look-ups fast.

    Args:
        runs: All runs.
        chosen: Rows of `runs.runs`.

    Returns:
        For each comparison, the runs with only its rows and scores, and these rows. All tables of the same runs share
        them, with what `Runs.once` has memoised.
    """
    return runs.once(("by comparison", *chosen["folder"]), lambda: list(_parts(runs, chosen)))


def _parts(runs: Runs, chosen: pd.DataFrame) -> Iterator[tuple[Runs, pd.DataFrame]]:
    scores = runs.scores[runs.scores["folder"].isin(chosen["folder"])]
    parts = dict(list(scores.groupby("comparison")))
    for name, group in chosen.groupby("comparison", sort=False):
        yield replace(runs, runs=group, scores=parts.get(name, scores.iloc[:0])), group


def scores_of(runs: Runs, group: pd.DataFrame, metric: str, draws: int, column: str = "value") -> pd.DataFrame:
    """Look up one metric of some runs.

    Args:
        runs: All runs.
        group: Rows of `runs.runs`.
        metric: Such as "accuracy".
        draws: Number of test-time draws.
        column: "value" or "sd_repeats".

    Returns:
        Columns `label`, `seed` and `value`, a row for each run that has it.
    """
    scores = runs.scores
    chosen = scores[(scores["metric"] == metric) & (scores["draws"] == draws) & scores["folder"].isin(group["folder"])]
    return chosen[["label", "seed", column]].rename(columns={column: "value"})


def score_cells(
    runs: Runs, group: pd.DataFrame, metric: str, draws: int, *, mark: bool = True, finer: int = 0
) -> Mapping[str, Cell]:
    """Average one metric over the seeds of each method of a comparison, and mark those that no other is shown to beat.

    Args:
        runs: All runs.
        group: Finished runs of one comparison.
        metric: Such as "accuracy".
        draws: Number of test-time draws.
        mark: Whether to mark any; results of a single epoch never are.
        finer: Decimals more than usual.

    Returns:
        A cell for each method that has the metric, by its label.
    """
    key = ("score cells", metric, draws, mark, finer, *group["folder"])
    return runs.once(key, lambda: _score_cells(runs, group, metric, draws, mark=mark, finer=finer))


def _score_cells(
    runs: Runs, group: pd.DataFrame, metric: str, draws: int, *, mark: bool, finer: int
) -> dict[str, Cell]:
    values = scores_of(runs, group, metric, draws)
    factor, digits = (100, accuracy_digits(group)) if metric == "accuracy" else (1, SCORE_DIGITS)
    asked = asked_seeds(group)
    cells = {
        str(label): mean_cell(of_label["value"], factor, digits + finer).of(asked)
        for label, of_label in values.groupby("label", sort=False)
    }
    if not mark or is_single_epoch(group) or values.empty:
        return cells
    best = _best(runs, group, metric, draws)
    return {label: replace(cell, best=label in best.together) for label, cell in cells.items()}


def _best(runs: Runs, group: pd.DataFrame, metric: str, draws: int) -> Best:
    """Test all pairs of methods in one metric, once for all that is made of it."""

    def make() -> Best:
        values = scores_of(runs, group, metric, draws)
        is_higher_better = metric not in LOWER_IS_BETTER
        return best_methods(values, higher_is_better=is_higher_better, asked=asked_seeds(group), level=LEVEL)

    return runs.once(("best methods", metric, draws, *group["folder"]), make)


def group_letters(runs: Runs, group: pd.DataFrame) -> Mapping[str, str]:
    """Letters of the methods of a comparison: two that share none differ significantly in accuracy without draws.

    Args:
        runs: All runs.
        group: Finished runs of one comparison.

    Returns:
        The letters by label, from the best mean to the worst; only of methods with all seeds, none where no pair can
        be tested or networks were trained for a single epoch.
    """
    return runs.once(("group letters", *group["folder"]), lambda: _group_letters(runs, group))


def _group_letters(runs: Runs, group: pd.DataFrame) -> Mapping[str, str]:
    values = scores_of(runs, group, "accuracy", 0)
    if is_single_epoch(group) or values.empty:
        return {}
    best = _best(runs, group, "accuracy", 0)
    if not best.together:
        return {}
    means = values.groupby("label", sort=False)["value"].mean().drop(list(best.left_out))
    return letters([str(label) for label in means.sort_values(ascending=False, kind="stable").index], best.p_values)
