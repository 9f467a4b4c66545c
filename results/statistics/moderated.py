"""Tests of pairs of methods that share what all pairs tell of the spread over seeds.

With three seeds the spread of one pair is hardly known, and a t-test must allow for that. But all pairs of a comparison
have similar spreads, so each one's is best judged together with the others': the moderated t-test (Smyth, 2004, Linear
models and empirical Bayes methods for assessing differential expression, section 6). Two things make it cautious, so
that unequal spreads do not raise the number of false findings: what the pairs seem to have in common counts for less
the fewer methods there are, and no pair's own spread is ever made smaller. `python -m benchmarks.significance` compares
it with other tests; docs/statistics.md has the outcome.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma, stdtr

Floats = NDArray[np.float64]

LEVEL = 0.05
"""Significance level of all tests of a family together."""

LEAST_SEEDS = 3
"""Fewest seeds for a test. One difference has no spread, and the spread of two is known only to its order of magnitude:
two differences that happen to be close would pass for a certain one."""

LEAST_METHODS = 5
"""Fewest methods whose spreads are judged together: fewer do not show how unequal spreads are."""

CAUTION = 0.5
"""By how many of its standard errors the variance between the pairs' spreads is raised."""

CONSTANT = 1e-9
"""Differences whose spread is below this fraction of the largest of them count as constant."""


@dataclass(frozen=True)
class CommonSpread:
    """What the pairs of a comparison have in common.

    Attributes:
        variance: The typical variance s₀² of a difference over seeds.
        degrees: The degrees of freedom d₀ that it is worth; infinite if all pairs seem to have the same variance.
        most: No test has more degrees of freedom than all runs together.
    """

    variance: float
    degrees: float
    most: float


def common_spread(values: Floats, methods: int | None = None, caution: float = CAUTION) -> CommonSpread | None:
    """Fit the distribution of the variances of all pairs by the moments of their logarithms (Smyth, 2004, section 6.2).

    Args:
        values: A row for each seed and a column for each method, NaN where a run is missing; (S, K).
        methods: Number of methods that were trained; K by default. Columns may be evaluations of the same networks.
        caution: By how many of its standard errors the variance between the pairs' spreads is raised.

    Returns:
        What they have in common; None with fewer than `LEAST_METHODS` that are no copies of one another, or fewer than
        two pairs that vary.
    """
    distinct = _distinct(values)
    contrasts = min(distinct, methods or distinct) - 1
    first, second = np.triu_indices(values.shape[1], 1)
    _, variances, degrees = moments((values[:, first] - values[:, second]).T)
    used = (degrees >= LEAST_SEEDS - 1) & (variances > 0)
    if contrasts + 1 < LEAST_METHODS or used.sum() < 2:
        return None
    half = degrees[used] / 2
    logarithms = np.log(variances[used]) - digamma(half) + np.log(half)
    between = logarithms.var(ddof=1) * _raise(contrasts, caution)
    excess, most = float(between - polygamma(1, half).mean()), float(degrees[used].mean() * contrasts)
    if excess <= 0:
        return CommonSpread(float(variances[used].mean()), math.inf, most)
    prior = 2 * inverse_trigamma(excess)
    return CommonSpread(float(np.exp(logarithms.mean() + digamma(prior / 2) - np.log(prior / 2))), prior, most)


def _raise(contrasts: int, caution: float) -> float:
    """By which factor the variance between logarithms is raised: one standard error is √(2 / (contrasts − 1)) of it."""
    return 1 + caution * math.sqrt(2 / (contrasts - 1))


def expected_common_spread(seeds: int, methods: int, unevenness: float) -> CommonSpread | None:
    """Say what `common_spread` finds where the variances between logarithms are what they are expected to be.

    Args:
        seeds: Seeds of every method, at least `LEAST_SEEDS`.
        methods: Number of methods.
        unevenness: Variance of the logarithms of the true variances of the pairs, at least 0.

    Returns:
        It, with a variance of 1; None with fewer than `LEAST_METHODS`.
    """
    if methods < LEAST_METHODS:
        return None
    contrasts, of_chance = methods - 1, float(polygamma(1, (seeds - 1) / 2))
    excess = (unevenness + of_chance) * _raise(contrasts, CAUTION) - of_chance
    return CommonSpread(1.0, 2 * inverse_trigamma(excess), (seeds - 1) * contrasts)


def _distinct(values: Floats) -> int:
    """Count the columns that differ by more than a constant: copies of one another tell nothing twice."""
    known = ~np.isnan(values)
    means = np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, values - means, math.inf).round(12) + 0.0  # -0 is 0
    return len({column.tobytes() for column in centred.T})


def t_tests(differences: Floats, common: CommonSpread | None = None) -> tuple[float | None, ...]:
    """Test for each pair whether its mean difference is zero: two-sided t-test over seeds, moderated if asked.

    Null hypothesis: over all seeds that there could be, the mean difference on these test images is zero. The test
    assumes that seeds are independent and that their differences are roughly normal, which three seeds cannot show.

    Args:
        differences: A row for each pair and a column for each seed, NaN where one of the two lacks it; (P, S).
        common: What the pairs have in common; without it each row is tested alone (Student, 1908).

    Returns:
        The p-value of each row, in [0, 1]; 1 if all differences are zero. None with fewer than `LEAST_SEEDS`, and, of a
        row alone, if all are the same but not zero: without any spread the formula would call a difference certain that
        may just have been rounded to the same multiple of 1/images.

    Raises:
        ValueError: If a difference is infinite, or there are not two dimensions.
    """
    rows = np.asarray(differences, dtype=np.float64)
    if rows.ndim != 2 or np.isinf(rows).any():
        raise ValueError(f"Expected finite differences of shape (P, S), got {rows}.")
    means, variances, degrees = moments(rows)
    spread, freedom = (variances, degrees) if common is None else moderate(variances, degrees, common)
    tested = np.where((degrees >= LEAST_SEEDS - 1) & ((spread > 0) | (means == 0)), 1.0, np.nan)
    varies = (tested == 1) & (spread > 0)
    error = np.sqrt(spread[varies] / (degrees[varies] + 1))
    tested[varies] = 2 * stdtr(freedom[varies], -np.abs(means[varies] / error))
    return tuple(None if np.isnan(p_value) else p_value for p_value in tested.tolist())


def moderate(variances: Floats, degrees: Floats, common: CommonSpread) -> tuple[Floats, Floats]:
    """Draw small variances towards the common one, and add the degrees of freedom that it is worth; (P,) each."""
    share = 1.0 if math.isinf(common.degrees) else common.degrees / (common.degrees + degrees)
    drawn = share * common.variance + (1 - share) * variances
    return np.maximum(variances, drawn), np.maximum(degrees, np.minimum(degrees + common.degrees, common.most))


def moments(rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, variance and degrees of freedom of each row, of the entries that are known; (P,) each.

    A variance is 0 where all entries are the same but for rounding.
    """
    known = ~np.isnan(rows)
    count, filled = known.sum(axis=1), np.where(known, rows, 0.0)
    means = filled.sum(axis=1) / np.maximum(count, 1)
    deviations = np.where(known, rows - means[:, None], 0.0)
    variances = (deviations**2).sum(axis=1) / np.maximum(count - 1, 1)
    largest = np.abs(filled).max(axis=1, initial=0.0)
    constant = np.abs(deviations).max(axis=1, initial=0.0) <= CONSTANT * largest
    return means, np.where(constant, 0.0, variances), (count - 1).astype(np.float64)


def inverse_trigamma(value: float) -> float:
    """Return x with ψ′(x) = value, both above 0, by Newton's method on 1/ψ′ (Smyth, 2004, appendix)."""
    if value < 1e-7:
        return 1 / value  # ψ′(x) ≈ 1/x
    if value > 1e7:
        return 1 / math.sqrt(value)  # ψ′(x) ≈ 1/x²
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-12:
            break
    return x
