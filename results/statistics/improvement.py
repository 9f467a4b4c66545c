"""Probability of improvement: how often a run of one method beats a run of another one (Agarwal et al., 2021).

Agarwal et al., Deep reinforcement learning at the edge of the statistical precipice, NeurIPS 2021; their library is
rliable.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from augbench.results.statistics.paired import DECIMALS

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Improvement:
    """Probability that a run of the first method is better than one of the second.

    Attributes:
        probability: Averaged over data sets, in [0, 1]; ½ says that neither is better.
        low: Lower end of its bootstrap interval. None where there is a single run somewhere, and where all resamples
            are alike, as when every run of one method beats every run of the other: with few runs that is no
            certainty, and the bootstrap knows nothing else.
        high: Upper end, or None.
        confidence: Level of the interval, in (0, 1).
        datasets: Number of data sets.
    """

    probability: float
    low: float | None
    high: float | None
    confidence: float
    datasets: int


def probability_of_improvement(
    first: Mapping[str, ArrayLike],
    second: Mapping[str, ArrayLike],
    *,
    higher_is_better: bool = True,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Improvement:
    """Estimate the probability that a run of the first method is better than a run of the second.

    On a data set: the share of pairs of runs, one of each method, in which the first is better, ties counted as half
    (the Mann-Whitney statistic U over the number of pairs). Over data sets: the mean of these, each with the same
    weight. Resampled, for the interval, are the runs of each method within each data set, independently of the other
    method's ("stratified" by data set); conditioned on are the data sets and their test images. That runs are paired by
    seed is not used, since the question is about fresh runs. It says how often, not by how much: a difference of a
    single image counts as much as one of ten points.

    Args:
        first: By data set the values of the first method's runs; (n,).
        second: By data set those of the second one's; (m,).
        higher_is_better: Whether larger values are better, as for accuracies.
        confidence: Level of the interval, in (0, 1).
        resamples: Number of resamples.
        seed: Decides the draws of the bootstrap.

    Raises:
        ValueError: If the data sets differ, there is none, a method has no run on one of them, a value is not finite,
            or an argument is out of range.
    """
    if not 0 < confidence < 1 or resamples < 1:
        raise ValueError(f"Confidence {confidence} must lie between 0 and 1, resamples {resamples} be at least 1.")
    if first.keys() != second.keys() or not first:
        raise ValueError(f"Both methods need the same data sets, got {list(first)} and {list(second)}.")
    sign = 1 if higher_is_better else -1
    wins = [_wins(sign * _values(first[name]), sign * _values(second[name])) for name in sorted(first)]
    probability = float(np.mean([matrix.mean() for matrix in wins]))
    if any(1 in matrix.shape for matrix in wins):
        return Improvement(probability, None, None, confidence, len(wins))
    means = _resampled(wins, resamples, seed)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    if np.ptp(means) == 0:
        return Improvement(probability, None, None, confidence, len(wins))
    return Improvement(probability, float(low), float(high), confidence, len(wins))


def _values(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise ValueError(f"Expected finite values of at least one run, got {array}.")
    return array.round(DECIMALS)


def _wins(first: Floats, second: Floats) -> Floats:
    """1 for each pair in which the first is larger, ½ for a tie; (n, m)."""
    return np.asarray((np.sign(first[:, None] - second) + 1) / 2)


def _resampled(wins: list[Floats], resamples: int, seed: int) -> Floats:
    """Mean over data sets in each resample; (B,)."""
    total = np.zeros(resamples)
    for position, matrix in enumerate(wins):
        generator = np.random.default_rng([seed, position])
        rows, columns = (
            generator.multinomial(count, np.full(count, 1 / count), size=resamples) / count for count in matrix.shape
        )
        total += np.einsum("bn,nm,bm->b", rows, matrix, columns, optimize=True)
    return total / len(wins)
