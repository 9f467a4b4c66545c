"""Mean of ratios of means, paired by seed, with its interval."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from augbench.results.statistics.bootstrap import Interval, Weights, mean_interval


def ratio_interval(numerators: ArrayLike, denominators: ArrayLike, weights: Weights | None = None) -> Interval:
    """Average, over columns, the ratio of two methods' means over seeds, with a 95 % interval over seeds.

    The interval is `mean_interval` of `ratio_values`, so what makes a seed lucky for both methods cancels.

    Args:
        numerators: (S, C), such as the error of each seed on each corruption.
        denominators: The same of the other method, with the same seeds in the same order; (S, C).
        weights: Draws of one image that several intervals share.

    Raises:
        ValueError: If the shapes differ, or a mean of the denominators is not above 0.
    """
    return mean_interval(ratio_values(numerators, denominators)[:, None], weights=weights)


def ratio_values(numerators: ArrayLike, denominators: ArrayLike) -> NDArray[np.float64]:
    """Find a value for each seed whose mean is the mean ratio, and whose spread is its error to first order.

    With the means a and b of a column over seeds, these are a/b + (aₛ − a/b·bₛ)/b: what replaces a ratio of means by a
    mean (Cochran, 1977, Sampling techniques, section 6.3). The arguments and errors are those of `ratio_interval`.

    Returns:
        (S,), the mean over the columns.
    """
    ours, theirs = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    if ours.shape != theirs.shape or ours.ndim != 2 or not ours.size:
        raise ValueError(f"Both methods need values of the same seeds and columns, got {ours.shape}, {theirs.shape}.")
    below = theirs.mean(axis=0)
    if not (below > 0).all():
        raise ValueError("A ratio needs a mean above 0 below the line.")
    ratios = ours.mean(axis=0) / below
    values: NDArray[np.float64] = (ratios + (ours - ratios * theirs) / below).mean(axis=1)
    return values
