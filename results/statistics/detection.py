"""How well a score tells images of the data set from others, which have lower scores if all goes well."""

import numpy as np
from scipy import stats

from augbench.bench.training.metrics import Floats

PERCENT_KEPT = 95
"""Of the images of the data set, at the threshold of `false_positive_rate`."""


def auroc(inside: Floats, outside: Floats) -> float:
    """Area under the ROC curve: how often an image of the data set has a higher score than another; ties count half.

    Args:
        inside: Scores of images of the data set, finite; (N,), N at least 1.
        outside: Scores of other images, finite; (M,), M at least 1.

    Returns:
        In [0, 1]; 0.5 where all scores are equal.
    """
    ranks = stats.rankdata(np.concatenate((inside, outside)))[: len(inside)]
    count = len(inside)
    return float((ranks.sum() - count * (count + 1) / 2) / (count * len(outside)))


def false_positive_rate(inside: Floats, outside: Floats) -> float:
    """Share of the other images that are kept by the highest threshold that keeps 95 % of the data set's (FPR95).

    Scores at the threshold are kept, so that it is 1 where all are equal. Nothing is interpolated.

    Args:
        inside: Scores of images of the data set, as in `auroc`.
        outside: Scores of other images.
    """
    kept = -(-PERCENT_KEPT * len(inside) // 100)
    threshold = np.sort(inside)[len(inside) - kept]
    return float(np.mean(outside >= threshold))
