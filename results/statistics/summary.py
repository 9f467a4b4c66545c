"""Mean, standard deviation and number of values."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Summary:
    """Summary of some values.

    Attributes:
        mean: Their mean; NaN if one of them is NaN.
        sd: Their standard deviation with n − 1 in the divisor; None for a single value, NaN if one of them is NaN.
        n: How many there are.
    """

    mean: float
    sd: float | None
    n: int


def summarise(values: ArrayLike) -> Summary:
    """Summarise values, such as one for each seed.

    The standard deviation describes the spread of the values; it is no standard error of their mean and no interval.
    NaN is never skipped: a mean over what is left would be the mean of something else.

    Args:
        values: (n,), at least one.

    Raises:
        ValueError: If there is none, or not one dimension.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"Expected at least one value in one dimension, got the shape {array.shape}.")
    deviation = float(array.std(ddof=1)) if len(array) > 1 else None
    return Summary(float(array.mean()), deviation, len(array))
