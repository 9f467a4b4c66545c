"""The resolution of a comparison: which difference of two methods its tests find, and how many seeds others take.

The test is that of `paired.py`: a two-sided paired t-test over seeds, moderated from five methods on, with Holm's
correction for all pairs. A pair counts as found if it passes Holm's first step, so if the smallest p-value times the
number of pairs is at most the level. Pairs that are found after others need less, so this is the cautious number.

Given the variance that a test divides by, the mean difference is normal, and independent of it. So the power is the
mean of a normal probability over the distribution of the variances. For a t-test that is not moderated, that is the
noncentral t distribution, which scipy 1.17 has as NaN for some of these numbers. For a moderated one it holds where the
pairs share what `expected_common_spread` says. `python -m benchmarks.significance` compares it with simulated tests.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtri, ndtr, polygamma, stdtrit

from augbench.results.statistics.moderated import (
    LEAST_SEEDS,
    LEVEL,
    Floats,
    common_spread,
    expected_common_spread,
    moderate,
    moments,
)

POWER = 0.8
"""Probability with which a difference shall be found."""

MOST_SEEDS = 1000
"""Beyond so many seeds, it does not matter how many."""

QUANTILES = 500  # of the variance over seeds
HALVINGS = 50


@dataclass(frozen=True)
class Spread:
    """How much the difference of two methods varies with the seed.

    Attributes:
        deviation: Its standard deviation for an average pair of methods, in the unit of the values.
        unevenness: Variance of the logarithms of the pairs' true variances; 0 if all pairs vary equally.
    """

    deviation: float
    unevenness: float = 0.0


def spread_of(values: ArrayLike) -> Spread | None:
    """Estimate how much differences vary with the seed from the values of finished runs.

    The deviation is the root mean square of those of all pairs, each weighted by its degrees of freedom; pairs that
    never differ, a method and its copy, say nothing and are left out. How unequal they are is what `common_spread` sees
    beyond chance (Smyth, 2004, section 6.2); with too few methods or seeds for it, they count as equal.

    Args:
        values: A row for each seed and a column for each method, NaN where a run is missing; (S, K).

    Returns:
        The spread; None if no pair has two seeds, or all differences are the same with every seed.

    Raises:
        ValueError: If there are not two dimensions.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"Expected values of shape (S, K), got {array.shape}.")
    first, second = np.triu_indices(array.shape[1], 1)
    means, variances, degrees = moments((array[:, first] - array[:, second]).T)
    known = np.where((variances > 0) | (means != 0), np.maximum(degrees, 0.0), 0.0)
    if not (variances * known).any():
        return None
    common = common_spread(array, caution=0)
    uneven = 0.0 if common is None or math.isinf(common.degrees) else float(polygamma(1, common.degrees / 2))
    return Spread(math.sqrt(float((variances * known).sum() / known.sum())), uneven)


def power_of(
    difference: float,
    spread: Spread,
    seeds: int,
    methods: int,
    *,
    tests: int | None = None,
    level: float = LEVEL,
) -> float:
    """Return the probability that a difference of two methods is found.

    Args:
        difference: True mean difference of the pair, in the unit of the spread; its sign does not matter.
        spread: That of an average pair, which this pair has, too.
        seeds: Seeds of every method.
        methods: Number of methods, which say together how much runs vary.
        tests: Tests that Holm's first step corrects for; those of all pairs by default, 1 for a pair named before.
        level: Significance level.

    Raises:
        ValueError: If there are fewer than `LEAST_SEEDS` seeds or two methods, no spread, or a number is not finite.
    """
    _check(spread, methods, seeds)
    if not math.isfinite(difference):
        raise ValueError(f"The difference must be finite, got {difference}.")
    thresholds = _thresholds(seeds, methods, tests or math.comb(methods, 2), spread.unevenness, level)
    return _share_above(abs(difference) * math.sqrt(seeds) / spread.deviation, thresholds)


def smallest_difference(
    spread: Spread, seeds: int, methods: int, *, tests: int | None = None, power: float = POWER, level: float = LEVEL
) -> float:
    """Return the difference of two methods that is found with a probability of `power`.

    Args:
        spread: How much differences vary with the seed.
        seeds: Seeds of every method.
        methods: Number of methods.
        tests: As for `power_of`.
        power: Probability with which it is found, above `level` and below 1.
        level: Significance level.

    Returns:
        It, above 0, in the unit of the spread.

    Raises:
        ValueError: If there are fewer than `LEAST_SEEDS` seeds or two methods, no spread, or the power is out of range.
    """
    _check(spread, methods, seeds)
    if not 0 < level < power < 1:
        raise ValueError(f"The power must lie between the level and 1, got {power} and the level {level}.")
    return spread.deviation * _factor(seeds, methods, tests or math.comb(methods, 2), spread.unevenness, power, level)


def seeds_needed(difference: float, spread: Spread, methods: int) -> int | None:
    """Return how many seeds find a difference with a probability of `POWER`, with the correction for all pairs.

    Args:
        difference: True mean difference of the pair, in the unit of the spread, above 0.
        spread: How much differences vary with the seed.
        methods: Number of methods.

    Returns:
        The fewest seeds, at least `LEAST_SEEDS`; None if `MOST_SEEDS` are too few.

    Raises:
        ValueError: If the difference is not above 0, there are fewer than two methods, or no spread.
    """
    _check(spread, methods)
    if not 0 < difference < math.inf:
        raise ValueError(f"The difference must be above 0 and finite, got {difference}.")
    if power_of(difference, spread, MOST_SEEDS, methods) < POWER:
        return None
    few, enough = LEAST_SEEDS - 1, MOST_SEEDS  # too few, and enough
    while enough - few > 1:
        middle = (few + enough) // 2
        found = power_of(difference, spread, middle, methods) >= POWER
        few, enough = (few, middle) if found else (middle, enough)
    return enough


def _check(spread: Spread, methods: int, seeds: int = LEAST_SEEDS) -> None:
    if seeds < LEAST_SEEDS:
        raise ValueError(f"A test needs at least {LEAST_SEEDS} seeds, got {seeds}.")
    if methods < 2:
        raise ValueError(f"A comparison needs at least two methods, got {methods}.")
    if not (0 < spread.deviation < math.inf and 0 <= spread.unevenness < math.inf):
        raise ValueError(f"Differences must vary with the seed, by a finite number, got {spread}.")


@lru_cache(maxsize=4096)
def _factor(seeds: int, methods: int, tests: int, unevenness: float, power: float, level: float) -> float:
    """Return the smallest difference in standard deviations of differences, by halving an interval around it."""
    thresholds = _thresholds(seeds, methods, tests, unevenness, level)
    low, high = 0.0, float(thresholds.max()) + 40  # 40 standard errors above what is always enough
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _share_above(middle, thresholds) >= power else (middle, high)
    return high / math.sqrt(seeds)


def _share_above(standard_errors: float, thresholds: Floats) -> float:
    """Probability that a normal number around `standard_errors` is farther from 0 than the thresholds, their mean."""
    return float((ndtr(standard_errors - thresholds) + ndtr(-standard_errors - thresholds)).mean())


@lru_cache(maxsize=4096)
def _thresholds(seeds: int, methods: int, tests: int, unevenness: float, level: float) -> Floats:
    """How large a mean has to be, in true standard errors, at evenly spaced quantiles of the variance over seeds."""
    degrees = np.full(QUANTILES, seeds - 1.0)
    variances = chdtri(degrees, (np.arange(QUANTILES) + 0.5) / QUANTILES) / degrees
    if common := expected_common_spread(seeds, methods, unevenness):
        variances, degrees = moderate(variances, degrees, common)
    thresholds: Floats = stdtrit(degrees[0], 1 - level / 2 / tests) * np.sqrt(variances)
    return thresholds
