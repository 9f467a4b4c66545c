"""Paired tests over seeds, Holm's correction for multiple tests, and the methods that no other is shown to beat.

Two runs with the same seed start from the same network and see the images in the same order, so methods are compared
seed by seed. The tests are conditional on the test images: other images could give another outcome with the same
networks. The intervals in `bootstrap.py` include this uncertainty.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from augbench.results.statistics.moderated import LEVEL, common_spread, t_tests

DECIMALS = 12
"""Values are rounded to so many decimals before they are compared: 0.9 − 0.8 and 0.7 − 0.6 are one number, not two."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class PairTest:
    """A test of the differences of two methods.

    Attributes:
        difference: Mean of the first method's values minus the second one's, over common seeds; NaN without any.
        p_value: Of the test over seeds; None if it cannot be tested.
        p_adjusted: The same, corrected by `holm` for all pairs of the family.
    """

    difference: float
    p_value: float | None
    p_adjusted: float | None


@dataclass(frozen=True)
class Best:
    """Which methods may be the best.

    Attributes:
        best: Label with the best mean, the first of those that tie; None where no method has every seed.
        together: Labels that no other one is shown to beat, in the order of the values; empty if nothing is tested.
        p_values: Of each pair of ranked labels, corrected for all pairs; None where a pair cannot be tested.
        left_out: Labels that are not in the ranking, since they lack a seed or a number.
    """

    best: str | None
    together: tuple[str, ...]
    p_values: dict[Pair, float | None]
    left_out: tuple[str, ...] = ()


def paired_p_values(differences: ArrayLike) -> tuple[float | None, ...]:
    """Test for each pair alone whether its mean difference is zero: two-sided paired t-test over seeds (Student, 1908).

    Args:
        differences: A row for each pair and a column for each seed, NaN where one of the two lacks it; (P, S).

    Returns:
        The p-value of each row, in [0, 1]; 1 if all differences are zero. None with fewer than `LEAST_SEEDS`, and if
        all are the same but not zero.

    Raises:
        ValueError: If a difference is infinite, or there are not two dimensions.
    """
    return t_tests(np.asarray(differences, dtype=np.float64))


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjust the p-values of a family of tests, so that the level bounds the chance of any false rejection.

    Holm (1979): the smallest of m p-values times m, the next times m − 1 and so on, none below the one before it and
    none above 1. It holds however the tests depend on one another.

    Args:
        p_values: The family, each in [0, 1]. None is a test that could not be made. It counts in m all the same:
            whether a test can be made may depend on the numbers, and the family must not.

    Returns:
        Adjusted p-values, in the same order; None stays None.

    Raises:
        ValueError: If a p-value is not in [0, 1].
    """
    tested = [(p_value, index) for index, p_value in enumerate(p_values) if p_value is not None]
    if not all(0 <= p_value <= 1 for p_value, _ in tested):  # also of NaN
        raise ValueError(f"p-values must lie between 0 and 1, got {list(p_values)}.")
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p_value, index) in enumerate(sorted(tested)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_value))
        adjusted[index] = highest
    return tuple(adjusted)


def paired_differences(wide: pd.DataFrame, first: str, second: str) -> "pd.Series[float]":
    """Subtract the second method's values from the first one's, seed by seed.

    Args:
        wide: A row for each seed and a column for each label, as `by_seed` makes it.
        first: A label.
        second: A label.

    Returns:
        The differences, indexed by the seeds for which both have a number, in rising order.
    """
    return (wide[first] - wide[second]).dropna().round(DECIMALS)


def compare_family(wide: pd.DataFrame, pairs: Sequence[Pair], methods: int | None = None) -> dict[Pair, PairTest]:
    """Test the differences of pairs of methods over their common seeds, all of them as one family.

    The tests share what all pairs of columns tell of the spread, see `moderated.py`.

    Args:
        wide: A row for each seed and a column for each label, as `by_seed` makes it.
        pairs: The family. Where the numbers decide what is looked at, it has to be all pairs.
        methods: Number of methods that were trained, if some labels are evaluations of the same networks.

    Returns:
        The test of each pair.
    """
    columns = {str(label): index for index, label in enumerate(wide.columns)}
    first, second = ([columns[pair[side]] for pair in pairs] for side in (0, 1))
    array = wide.to_numpy()
    differences = (array[:, first] - array[:, second]).round(DECIMALS).T
    tested = t_tests(differences, common_spread(array, methods))
    known = ~np.isnan(differences)
    means = np.where(known, differences, 0.0).sum(axis=1) / np.where(known.any(axis=1), known.sum(axis=1), np.nan)
    tests = zip(means.tolist(), tested, holm(tested), strict=True)
    return {pair: PairTest(*test) for pair, test in zip(pairs, tests, strict=True)}


def best_methods(values: pd.DataFrame, *, higher_is_better: bool, asked: int, level: float = LEVEL) -> Best:
    """Find the methods that may be the best: those that no other one is shown to beat.

    All pairs of methods are tested as one family: any two equal methods are told apart with at most the probability
    `level`, although the numbers decide which method looks best. The best mean is always among those returned. Being
    among them is no proof of being as good, least of all with few seeds and many methods. A pair that cannot be tested
    excludes nobody.

    Args:
        values: Columns `label`, `seed` and `value`, one row for each label and seed. NaN is a missing number.
        higher_is_better: Whether the largest mean is the best, as for accuracies, or the smallest, as for errors.
        asked: Number of seeds that a label must have to be ranked.
        level: Significance level.

    Raises:
        ValueError: If a label has a seed twice, or `asked` is less than 1.
    """
    if asked < 1:
        raise ValueError(f"At least one seed must be asked for, got {asked}.")
    wide = by_seed(values)
    has_all = (~np.isnan(wide.to_numpy())).sum(axis=0) >= asked
    left_out, ranked = tuple(wide.columns[~has_all]), wide[wide.columns[has_all]]
    labels, sign = tuple(ranked.columns), 1 if higher_is_better else -1
    if not labels:
        return Best(None, (), {}, left_out)
    means = (sign * np.nanmean(ranked.to_numpy(), axis=0)).round(DECIMALS)
    tests = compare_family(ranked, list(combinations(labels, 2)))
    p_values = {pair: test.p_adjusted for pair, test in tests.items()}
    beaten = {
        second if sign * tests[first, second].difference > 0 else first
        for (first, second), p_value in p_values.items()
        if p_value is not None and p_value <= level
    }
    is_tested = any(p_value is not None for p_value in p_values.values())
    together = tuple(label for label in labels if label not in beaten) if is_tested else ()
    return Best(labels[int(means.argmax())], together, p_values, left_out)


def by_seed(values: pd.DataFrame) -> pd.DataFrame:
    """Put the values that belong to one seed into one row.

    Args:
        values: Columns `label`, `seed` and `value`, one row for each label and seed.

    Returns:
        A row for each seed, rising, and a column for each label, in the order of the values; NaN where there is none.

    Raises:
        ValueError: If a label has a seed twice.
    """
    if values.duplicated(["label", "seed"]).any():
        raise ValueError("A method has several values for one seed; counted twice they would look like two seeds.")
    # What `pivot` does, in a tenth of the time: tables ask for thousands of these.
    rows, seeds = pd.factorize(values["seed"], sort=True)
    columns, labels = pd.factorize(values["label"])
    wide = np.full((len(seeds), len(labels)), np.nan)
    wide[rows, columns] = values["value"]
    return pd.DataFrame(wide, index=seeds, columns=[str(label) for label in labels])
