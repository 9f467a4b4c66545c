"""Metrics of predicted probabilities: accuracy, negative log-likelihood, Brier score and calibration error.

Every function takes probabilities (N, C) whose rows sum to one and integer labels (N,), both NumPy arrays.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]

SMALLEST = float(np.finfo(np.float32).tiny)
"""What probabilities are floored at before their logarithm: the smallest normal float32, 2⁻¹²⁶."""

# Probabilities arrive as float32 sums of up to a few hundred terms.
ROW_SUM_TOLERANCE = 1e-4


CLEAN = "clean"
"""What the test images themselves are called among corrupted ones."""

CORRUPTED_SCORES = ("accuracy", "nll", "ece")
"""Which metrics of `score` are kept of corrupted images."""


@dataclass(frozen=True)
class ReliabilityBins:
    """Test images grouped by their top-label confidence.

    Attributes:
        count: Images in each bin; (B,).
        confidence: Mean top-label confidence in each bin, NaN where it is empty; (B,).
        accuracy: Share of right top labels in each bin, NaN where it is empty; (B,).
    """

    count: Integers
    confidence: Floats
    accuracy: Floats

    @property
    def calibration_error(self) -> float:
        """Mean over images of |accuracy − confidence| of their bin."""
        gaps = np.nan_to_num(np.abs(self.accuracy - self.confidence))
        return float(np.sum(self.count * gaps) / np.sum(self.count))


def check_probabilities(probabilities: Floats, labels: Integers) -> None:
    """Raise ValueError unless rows are probability vectors and each has a label in range."""
    if probabilities.ndim != 2 or labels.shape != probabilities.shape[:1] or not len(labels):
        raise ValueError(f"Expected probabilities (N, C) and labels (N,), got {probabilities.shape}, {labels.shape}.")
    if not (np.all(probabilities >= 0) and np.all(probabilities <= 1 + ROW_SUM_TOLERANCE)):
        raise ValueError("Probabilities must lie between 0 and 1; were logits passed?")
    if np.abs(probabilities.sum(axis=1) - 1).max() > ROW_SUM_TOLERANCE:
        raise ValueError("The probabilities of each image must sum to 1; were logits passed?")
    if labels.min() < 0 or labels.max() >= probabilities.shape[1]:
        raise ValueError(f"Labels must lie between 0 and {probabilities.shape[1] - 1}.")


def accuracy(probabilities: Floats, labels: Integers) -> float:
    """Share of images whose most probable class is the label, in [0, 1]."""
    return float(np.mean(probabilities.argmax(axis=1) == labels))


def negative_log_likelihood(probabilities: Floats, labels: Integers) -> float:
    """Mean of −ln p(label), in nats; p is floored at `SMALLEST`."""
    likelihood = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    return float(-np.mean(np.log(np.maximum(likelihood, SMALLEST))))


def brier_score(probabilities: Floats, labels: Integers) -> float:
    """Mean squared distance between the probability vector and the one-hot label, in [0, 2] (Brier, 1950)."""
    one_hot = np.eye(probabilities.shape[1])[labels]
    return float(np.mean(np.sum((probabilities - one_hot) ** 2, axis=1)))


def equal_width_bins(probabilities: Floats, labels: Integers, bins: int) -> ReliabilityBins:
    """Group by confidence into `bins` equal intervals (0, 1/B], …, (1 − 1/B, 1]; confidence 0 is in the first.

    Edges and confidences are compared as float64; a float32 confidence may lie just beside the edge it stands for.
    """
    confidence = probabilities.max(axis=1).astype(np.float64)
    edges = np.arange(bins + 1) / bins
    index = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    return _group(probabilities, labels, index, bins)


def equal_mass_bins(probabilities: Floats, labels: Integers, bins: int) -> ReliabilityBins:
    """Group by confidence into `bins` groups of as equal a size as can be without parting equal confidences.

    Images in the order of their confidence are cut into `bins` runs. Those of equal confidence go together into the
    bin in which their middle lies, so that the order in which images come decides nothing; other bins may stay empty.
    """
    _, position, count = np.unique(probabilities.max(axis=1), return_inverse=True, return_counts=True)
    twice_the_middle = 2 * np.cumsum(count) - count - 1
    index = twice_the_middle * bins // (2 * len(position))
    return _group(probabilities, labels, index[position], bins)


def _group(probabilities: Floats, labels: Integers, index: Integers, bins: int) -> ReliabilityBins:
    confidence = probabilities.max(axis=1).astype(np.float64)
    right = (probabilities.argmax(axis=1) == labels).astype(np.float64)
    count = np.bincount(index, minlength=bins)
    divisor = np.where(count > 0, count, np.nan)
    return ReliabilityBins(
        count=count,
        confidence=np.bincount(index, weights=confidence, minlength=bins) / divisor,
        accuracy=np.bincount(index, weights=right, minlength=bins) / divisor,
    )


def score(probabilities: Floats, labels: Integers, bins: int) -> dict[str, float]:
    """Compute every metric.

    Args:
        probabilities: (N, C).
        labels: (N,).
        bins: Bins of both calibration errors.

    Returns:
        `accuracy`, `nll`, `brier`, `ece` (top label, equal-width bins; Guo et al., 2017) and `ece_equal_mass`.

    Raises:
        ValueError: If the arrays are not probabilities and labels.
    """
    check_probabilities(probabilities, labels)
    return {
        "accuracy": accuracy(probabilities, labels),
        "nll": negative_log_likelihood(probabilities, labels),
        "brier": brier_score(probabilities, labels),
        "ece": equal_width_bins(probabilities, labels, bins).calibration_error,
        "ece_equal_mass": equal_mass_bins(probabilities, labels, bins).calibration_error,
    }
