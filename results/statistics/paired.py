"""Paired tests over seeds, Holm's correction for several of them, and which methods share the first place.

Two runs with the same seed start from the same network and see the images in the same order, so that methods are
compared seed by seed. What is tested here is conditional on the test images: another set of images could turn out
differently even if the same networks were to be trained again. Intervals that include it are in `bootstrap.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

DECIMALS = 12
"""Values are compared rounded to so many decimals, everywhere here: 0.9 − 0.8 and 0.7 − 0.6 are one number, not two."""

LEAST_SEEDS = 3
"""Seeds below which `best_methods` tests nothing: with two, hardly any test rejects, and all would share the place."""

CONSTANT = 1e-9
"""Differences whose spread is less than this share of the largest of them are taken for one number."""


@dataclass(frozen=True)
class Best:
    """Which methods share the first place.

    Attributes:
        best: Label with the best mean, the first of those that tie; None where no method has every seed.
        together: `best`, and the labels that are not significantly worse than it, in the order of the values.
        p_values: Of every other label in the ranking, Holm-adjusted, for its differences to `best`; None where nothing
            could be tested.
        left_out: Labels that are not in the ranking, since they lack a seed or a number.
    """

    best: str | None
    together: tuple[str, ...]
    p_values: dict[str, float | None]
    left_out: tuple[str, ...] = ()


def paired_p_value(differences: ArrayLike) -> float | None:
    """Test whether the mean of paired differences is zero: two-sided paired t-test over seeds (Student, 1908).

    Nothing is resampled; the test images and everything that seeds do not decide are conditioned on. Null hypothesis:
    over all seeds that there could be, the mean difference is zero on these test images. The test takes seeds to be
    drawn independently and their differences to be roughly normal, which so few as three cannot show.

    Args:
        differences: One for each seed that both methods have; (S,).

    Returns:
        The p-value, in [0, 1]. 1 where all differences are zero. None where there are fewer than two, and where all
        are the same but not zero: the formula would divide by no spread at all and call a difference certain that may
        just have been rounded to the same multiple of 1/images.

    Raises:
        ValueError: If a difference is not finite.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(f"Expected finite differences of shape (S,), got {values}.")
    if len(values) < 2:
        return None
    largest = np.abs(values).max()
    if largest == 0:
        return 1.0
    if np.ptp(values) <= CONSTANT * largest:
        return None
    return float(stats.ttest_1samp(values, 0.0).pvalue)


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjust the p-values of a family of tests so that all of them together err with at most the stated level.

    Holm (1979): the smallest of m p-values times m, the next times m − 1 and so on, none below the one before it and
    none above 1. It holds however the tests depend on one another.

    Args:
        p_values: The family, each in [0, 1]; None for what could not be tested, which does not count as a member.

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
        highest = max(highest, min(1.0, (len(tested) - rank) * p_value))
        adjusted[index] = highest
    return tuple(adjusted)


def paired_differences(values: pd.DataFrame, first: str, second: str) -> "pd.Series[float]":
    """Subtract the second method's values from the first one's, seed by seed.

    Args:
        values: Columns `label`, `seed` and `value`, one row for each label and seed.
        first: A label.
        second: A label.

    Returns:
        The differences, indexed by the seeds for which both have a number, in rising order.

    Raises:
        ValueError: If a label has a seed twice.
    """
    return _differences(_by_seed(values), first, second)


def best_methods(values: pd.DataFrame, *, higher_is_better: bool, asked: int, level: float = 0.05) -> Best:
    """Find the method with the best mean and those that are not significantly worse.

    Every other method is compared with the best one by `paired_p_value` over their common seeds, and all these p-values
    are adjusted as one family by `holm`. Null hypothesis of each: equal means over all possible seeds, on these test
    images. The best one is chosen by the same numbers that are then tested, which makes a few more differences look
    significant than the level says; not being significantly worse is, in turn, no proof of being as good, least of
    all with few seeds.

    Args:
        values: Columns `label`, `seed` and `value`, one row for each label and seed. NaN is a missing number.
        higher_is_better: Whether the largest mean is the best, as for accuracies, or the smallest, as for errors.
        asked: Number of seeds that a label must have to be ranked.
        level: Significance level.

    Returns:
        The best and whoever is together with it. Where fewer than `LEAST_SEEDS` are common, or all differences are
        the same, nothing is tested: then a label is together with the best only if their means are equal.

    Raises:
        ValueError: If a label has a seed twice, or `asked` is less than 1.
    """
    if asked < 1:
        raise ValueError(f"At least one seed must be asked for, got {asked}.")
    wide = _by_seed(values)
    complete = wide.columns[wide.notna().sum() >= asked]
    left_out = tuple(str(label) for label in wide.columns if label not in complete)
    if complete.empty:
        return Best(None, (), {}, left_out)
    ranked = wide[complete] if higher_is_better else -wide[complete]
    best = str(ranked.mean().round(DECIMALS).idxmax())
    others = [str(label) for label in complete if label != best]
    differences = [_differences(ranked, best, label) for label in others]
    tested = [paired_p_value(values) if len(values) >= LEAST_SEEDS else None for values in differences]
    p_values = dict(zip(others, holm(tested), strict=True))
    as_good = {label for label in others if _is_as_good(ranked, best, label, p_values[label], level)}
    return Best(best, tuple(label for label in complete if label in {best, *as_good}), p_values, left_out)


def _is_as_good(ranked: pd.DataFrame, best: str, label: str, p_value: float | None, level: float) -> bool:
    """Whether a method is not significantly worse or, where that cannot be tested, has the same mean."""
    if p_value is not None:
        return p_value > level
    return round(float(ranked[best].mean() - ranked[label].mean()), DECIMALS) == 0


def _by_seed(values: pd.DataFrame) -> pd.DataFrame:
    """Turn into a row for each seed, rising, and a column for each label, in the order of the values."""
    if values.duplicated(["label", "seed"]).any():
        raise ValueError("A method has several values for one seed; counted twice they would look like two seeds.")
    labels = list(dict.fromkeys(values["label"]))
    return values.pivot(index="seed", columns="label", values="value").astype(float).sort_index()[labels]


def _differences(wide: pd.DataFrame, first: str, second: str) -> "pd.Series[float]":
    return (wide[first] - wide[second]).dropna().round(DECIMALS)
