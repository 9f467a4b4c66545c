"""Paired tests over seeds, Holm's correction for several of them, and which methods share the first place.

Two runs with the same seed start from the same network and see the images in the same order, so that methods are
compared seed by seed. What is tested here is conditional on the test images: another set of images could turn out
differently even if the same networks were to be trained again. Intervals that include it are in `bootstrap.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr

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
    # `scipy.stats.ttest_1samp`, digit for digit, in a thirtieth of the time: tables ask for thousands of these
    mean, count = values.mean(), len(values)
    variance = ((values - mean) ** 2).mean() * (count / (count - 1))
    return float(2 * stdtr(count - 1, -abs(mean / np.sqrt(variance / count))))


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
    wide = by_seed(values)
    array = wide.to_numpy()
    has_all = (~np.isnan(array)).sum(axis=0) >= asked
    left_out = tuple(wide.columns[~has_all])
    labels, ranked = tuple(wide.columns[has_all]), array[:, has_all] * (1 if higher_is_better else -1)
    if not labels:
        return Best(None, (), {}, left_out)
    means = np.nanmean(ranked, axis=0).round(DECIMALS)
    first = int(means.argmax())
    behind = (ranked[:, [first]] - ranked).round(DECIMALS)
    others = [index for index in range(len(labels)) if index != first]
    p_values = holm([_p_value_of_enough(behind[:, index]) for index in others])
    as_good = {
        first,
        *(i for i, p in zip(others, p_values, strict=True) if _is_as_good(means[first] - means[i], p, level)),
    }
    together = tuple(label for index, label in enumerate(labels) if index in as_good)
    return Best(labels[first], together, dict(zip((labels[i] for i in others), p_values, strict=True)), left_out)


def _p_value_of_enough(differences: NDArray[np.float64]) -> float | None:
    """Test differences, some of which may be NaN, if there are at least `LEAST_SEEDS`."""
    known = differences[~np.isnan(differences)]
    return paired_p_value(known) if len(known) >= LEAST_SEEDS else None


def _is_as_good(behind: float, p_value: float | None, level: float) -> bool:
    """Whether a method is not significantly worse or, where that cannot be tested, has the same mean."""
    return round(behind, DECIMALS) == 0 if p_value is None else p_value > level


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
