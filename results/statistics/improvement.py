"""Probability of improvement: how often a run of one method beats a run of another one (Agarwal et al., 2021).

Agarwal et al., Deep reinforcement learning at the edge of the statistical precipice, NeurIPS 2021; their library is
rliable. The interval is another one than theirs: their bootstrap is too short with few runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from augbench.results.statistics.paired import DECIMALS

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Improvement:
    """Probability that a run of the first method is better than one of the second.

    Attributes:
        probability: Averaged over data sets, in [0, 1]; ½ says that neither is better.
        low: Lower end of its interval; None if some method has a single run, which shows nothing of the spread.
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
) -> Improvement:
    """Estimate the probability that a run of the first method is better than a run of the second.

    On a data set, this is the fraction of pairs of runs, one of each method, in which the first is better; ties count
    as half (the Mann-Whitney statistic U over the number of pairs). Data sets are averaged with equal weights. It says
    how often, not by how much: a difference of a single image counts as much as one of ten points.

    The interval is that of Clopper and Pearson (1934) for n independent trials, where n is the number of runs of the
    method with fewer of them, times the data sets. The fraction of pairs is the mean of such fractions over all ways to
    pair the runs up, so it varies no more than one of them, whatever the distributions of the two methods (Hoeffding,
    1963), and just as much where all runs of one method are alike. Nothing has to be estimated of these distributions,
    which three or five runs could not do. Five runs never exclude ½ at 95 %: five coins fall on one side in one of 16
    cases. The data sets and their test images are conditioned on, and the runs of a method are taken to be
    independent. Pairing by seed is not used, since the question is about fresh runs; where a seed is lucky for both
    methods, the interval is conservative.

    Args:
        first: By data set the values of the first method's runs; (n,).
        second: By data set those of the second one's; (m,).
        higher_is_better: Whether larger values are better, as for accuracies.
        confidence: Level of the interval, in (0, 1).

    Raises:
        ValueError: If the data sets differ, there is none, a method has no run on one of them, a value is not finite,
            or an argument is out of range.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"The confidence must lie between 0 and 1, got {confidence}.")
    if first.keys() != second.keys() or not first:
        raise ValueError(f"Both methods need the same data sets, got {list(first)} and {list(second)}.")
    sign = 1 if higher_is_better else -1
    wins = [_wins(sign * _values(first[name]), sign * _values(second[name])) for name in sorted(first)]
    probability = float(np.mean([matrix.mean() for matrix in wins]))
    fewest = min(min(matrix.shape) for matrix in wins)
    low, high = (None, None) if fewest == 1 else _share_interval(probability, fewest * len(wins), confidence)
    return Improvement(probability, low, high, confidence, len(wins))


def _share_interval(fraction: float, trials: int, confidence: float) -> tuple[float, float]:
    """Interval of Clopper and Pearson for a fraction of independent trials, not necessarily a whole number of them."""
    won, tail = fraction * trials, (1 - confidence) / 2
    low = betaincinv(won, trials - won + 1, tail) if fraction > 0 else 0.0
    high = betaincinv(won + 1, trials - won, 1 - tail) if fraction < 1 else 1.0
    return float(low), float(high)


def _values(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise ValueError(f"Expected finite values of at least one run, got {array}.")
    return array.round(DECIMALS)


def _wins(first: Floats, second: Floats) -> Floats:
    """1 for each pair in which the first is larger, ½ for a tie; (n, m)."""
    return np.asarray((np.sign(first[:, None] - second) + 1) / 2)
