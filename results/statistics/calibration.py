"""Measures of calibration beyond those that every run records, and how well confidence tells right from wrong.

Every function takes probabilities (N, C) whose rows sum to one and integer labels (N,).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import fft, optimize

from augbench.bench.training.metrics import (
    Floats,
    Integers,
    ReliabilityBins,
    brier_score,
    equal_width_bins,
    score,
)

CELLS = 4096  # of confidence; the narrowest kernel of `smooth_error` is as wide as one


class RiskCoverage(NamedTuple):
    """Area under the risk–coverage curve, and how much more that is than with the best order of these predictions."""

    area: float
    excess: float


class Split(NamedTuple):
    """A score as a sum: what better calibrated probabilities would save, and the rest."""

    calibration: float
    refinement: float


def class_wise_error(probabilities: Floats, labels: Integers, bins: int) -> float:
    """Calibration error of the probability of each class, mean over classes, in [0, 1] (Kull et al., 2019).

    For one class, images are grouped by its probability into bins of equal width, and the error is the mean over
    images of |share with this label − mean probability| of their bin.
    """
    return float(np.mean([found.calibration_error for found in _bins_by_class(probabilities, labels, bins)]))


def debiased_squared_error(probabilities: Floats, labels: Integers, bins: int) -> float:
    """Mean squared gap of the top label's bins without its bias upwards (Kumar et al., 2019, definition 5.2).

    The accuracy a of a bin of n images scatters, which raises the square of its gap by a (1 − a) / n on average;
    a (1 − a) / (n − 1) of the accuracies found is subtracted. Bins have equal width; those of one image count as 0,
    since they do not show how they scatter.

    Returns:
        Not the root: the square has no bias if all images of a bin have one confidence, else a small one downwards. So
        it is below 0 where gaps are smaller than chance alone makes them, and means over seeds are no more biased.
    """
    found = equal_width_bins(probabilities, labels, bins)
    several = found.count > 1
    count, accuracy, confidence = (part[several] for part in (found.count, found.accuracy, found.confidence))
    squares = (accuracy - confidence) ** 2 - accuracy * (1 - accuracy) / (count - 1)
    return float(np.sum(count * squares) / len(labels))


def smooth_error(probabilities: Floats, labels: Integers) -> float:
    """Smooth calibration error of the top label, in [0, 1] (Błasiok and Nakkiran, 2023).

    Right minus confidence, as a density over the confidences, is smoothed by a Gaussian kernel that is reflected at 0
    and 1, and its absolute value is integrated. The width of the kernel is the one that equals the result; so there
    are no bins to choose. Confidences are rounded to cells of 1/4096, and no kernel is narrower than one.
    """
    confidence = np.minimum(probabilities.max(axis=1).astype(np.float64), 1.0)
    right = probabilities.argmax(axis=1) == labels
    # A cosine transform, since cosines are what a reflected Gaussian kernel only scales.
    waves = fft.dct(_on_cells(confidence, (right - confidence) / len(labels)), norm="ortho")
    order = np.pi * np.arange(CELLS)

    def error(width: float) -> float:
        return float(np.abs(fft.idct(waves * np.exp(-((order * width) ** 2) / 2), norm="ortho")).sum())

    narrowest = 1 / CELLS
    if error(narrowest) <= narrowest:
        return error(narrowest)
    return error(float(optimize.brentq(lambda width: error(width) - width, narrowest, 2.0, xtol=1e-7)))


def _on_cells(places: Floats, weights: Floats) -> Floats:
    """Sum up weights by place in [0, 1], each shared between the two cells whose middles are nearest."""
    position = np.clip(places * CELLS - 0.5, 0, CELLS - 1)
    lower = np.minimum(position.astype(int), CELLS - 2)
    part = position - lower
    cells: Floats = np.zeros(CELLS)
    np.add.at(cells, lower, weights * (1 - part))
    np.add.at(cells, lower + 1, weights * part)
    return cells


def brier_split(probabilities: Floats, labels: Integers, bins: int) -> Split:
    """Split the Brier score (after Murphy, 1973).

    Calibration is the sum over classes of the mean over images of (share with this label − mean probability)² of their
    bin, as in `class_wise_error`. Refinement is the rest, and the Brier score that remains if each bin's probabilities
    of the class are shifted by its gap. With one probability to a bin it is Murphy's uncertainty minus resolution.
    """
    images = len(labels)
    calibration = sum(
        float(np.sum(found.count * np.nan_to_num(found.accuracy - found.confidence) ** 2)) / images
        for found in _bins_by_class(probabilities, labels, bins)
    )
    return Split(calibration, brier_score(probabilities, labels) - calibration)


def _bins_by_class(probabilities: Floats, labels: Integers, bins: int) -> Iterator[ReliabilityBins]:
    """Group images by the probability of each class in turn; `accuracy` is the share with this label."""
    for number in range(probabilities.shape[1]):
        # With a single column that is the top label of all images.
        yield equal_width_bins(probabilities[:, [number]], (labels != number).astype(np.int64), bins)


def risk_coverage(probabilities: Floats, labels: Integers) -> RiskCoverage:
    """Area under the risk–coverage curve, in [0, 1] (Geifman, Uziel and El-Yaniv, 2019).

    With coverage k/N only the k most confident predictions are kept; the risk is the share of wrong ones among them,
    and the area the mean risk over k = 1 to N. The order of equal confidences is chance, so their mean counts. The
    best order has all wrong predictions at the end.
    """
    wrong = probabilities.argmax(axis=1) != labels
    _, group, size = np.unique(-probabilities.max(axis=1), return_inverse=True, return_counts=True)
    share = np.bincount(group, weights=wrong) / size
    kept = np.arange(1, len(labels) + 1)
    area = float(np.mean(np.cumsum(share[np.sort(group)]) / kept))
    return RiskCoverage(area, area - float(np.mean(np.cumsum(np.sort(wrong)) / kept)))


def all_measures(probabilities: Floats, labels: Integers, bins: int) -> dict[str, float]:
    """Compute every measure of probabilities.

    Args:
        probabilities: (N, C).
        labels: (N,).
        bins: Bins of all measures that have some.

    Returns:
        Those of `score`, and `ece_class_wise`, `ece_squared_debiased`, `ece_smooth`, `brier_calibration`,
        `brier_refinement`, `aurc` and `aurc_excess`.

    Raises:
        ValueError: If the arrays are not probabilities and labels.
    """
    brier, curve = brier_split(probabilities, labels, bins), risk_coverage(probabilities, labels)
    return {
        **score(probabilities, labels, bins),
        "ece_class_wise": class_wise_error(probabilities, labels, bins),
        "ece_squared_debiased": debiased_squared_error(probabilities, labels, bins),
        "ece_smooth": smooth_error(probabilities, labels),
        "brier_calibration": brier.calibration,
        "brier_refinement": brier.refinement,
        "aurc": curve.area,
        "aurc_excess": curve.excess,
    }
