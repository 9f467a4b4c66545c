"""Measures of calibration against hand-worked tables, slow loops over their definitions, and other libraries."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import relplot
import torch
from numpy.typing import NDArray
from scipy import stats
from torchmetrics.functional.classification import binary_calibration_error

from augbench.bench.training.metrics import brier_score
from augbench.results.statistics.calibration import (
    all_measures,
    brier_split,
    class_wise_error,
    debiased_squared_error,
    risk_coverage,
    smooth_error,
)

Array = NDArray[Any]


def overconfident(seed: int, images: int = 2000, classes: int = 5, sharper: float = 2.0) -> tuple[Array, Array]:
    """Labels drawn from some probabilities, and these probabilities made more confident; calibrated for 1."""
    source = np.random.default_rng(seed)
    logits = source.normal(size=(images, classes)) * source.uniform(0.2, 3, size=(images, 1))
    true, said = (np.exp(factor * logits) for factor in (1.0, sharper))
    true, said = true / true.sum(axis=1, keepdims=True), said / said.sum(axis=1, keepdims=True)
    return said, np.array([source.choice(classes, p=row) for row in true])


# Two classes: three images of (0.8, 0.2), of which one is of class 1, and one of (0.4, 0.6), of class 0
PROBABILITIES = np.array([[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.4, 0.6]])
LABELS = np.array([0, 0, 1, 0])
GAP = 0.8 - 2 / 3


# Class-wise error


def test_class_wise_error_by_hand() -> None:
    # of each class: three images with the gap 0.8 − 2/3, one with the gap 0.6
    assert class_wise_error(PROBABILITIES, LABELS, bins=5) == pytest.approx((3 * GAP + 0.6) / 4)


@pytest.mark.parametrize("seed", range(3))
def test_class_wise_error_is_the_mean_of_torchmetrics_binary_ones(seed: int) -> None:
    said, labels = overconfident(seed)
    theirs = [
        float(
            binary_calibration_error(
                torch.from_numpy(said[:, k].copy()), torch.from_numpy(labels == k).int(), n_bins=15
            )
        )
        for k in range(said.shape[1])
    ]
    assert class_wise_error(said, labels, 15) == pytest.approx(np.mean(theirs), abs=1e-6)


# Debiased squared error


def test_debiased_squared_error_by_hand() -> None:
    # bin of three: the accuracy 2/3 has the variance 2/9, of its mean 1/9; the bin of a single image counts as 0
    assert debiased_squared_error(PROBABILITIES, LABELS, bins=5) == pytest.approx(3 / 4 * (GAP**2 - 1 / 9))


def test_debiased_squared_error_is_right_on_average() -> None:
    source = np.random.default_rng(0)
    confidence = np.repeat([0.55, 0.75, 0.95], 20)
    said = np.stack([confidence, 1 - confidence], axis=1)
    right = source.random((4000, 60)) < np.repeat([0.5, 0.75, 0.8], 20)
    truth = (0.05**2 + 0 + 0.15**2) / 3
    debiased = np.array([debiased_squared_error(said, 1 - one.astype(int), 10) for one in right])
    plain = [np.mean((one.reshape(3, 20).mean(axis=1) - confidence[::20]) ** 2) for one in right]
    assert abs(debiased.mean() - truth) < 4 * debiased.std() / np.sqrt(4000)
    assert np.mean(plain) - truth > 10 * abs(debiased.mean() - truth)


# Smooth error


@pytest.mark.parametrize("sharper", [0.5, 1.0, 3.0])
def test_smooth_error_is_the_integral_with_a_kernel_as_wide_as_itself(sharper: float) -> None:
    said, labels = overconfident(1, images=400, sharper=sharper)
    error = smooth_error(said, labels)
    confidence, right = said.max(axis=1), said.argmax(axis=1) == labels
    middles = (np.arange(4000) + 0.5) / 4000
    density = np.zeros(4000)
    for place, residual in zip(confidence, right - confidence, strict=True):
        for image in (place, -place, 2 - place, 2 + place, place - 2, 4 - place):  # as mirrors at 0 and 1 show it
            density += residual * stats.norm.pdf(middles, image, error) / len(labels)
    assert np.abs(density).mean() == pytest.approx(error, rel=2e-3)


@pytest.mark.parametrize("sharper", [0.5, 1.0, 1.5])  # their kernel ends at 0.5, so it cannot be wide
def test_smooth_error_agrees_with_relplot(sharper: float) -> None:
    said, labels = overconfident(2, sharper=sharper)
    theirs = relplot.smECE(said.max(axis=1), (said.argmax(axis=1) == labels).astype(float))
    assert smooth_error(said, labels) == pytest.approx(theirs, abs=1.5e-3)  # they search for the width in 1/1024


# Splits of the Brier score


def test_brier_split_by_hand() -> None:
    split = brier_split(PROBABILITIES, LABELS, bins=5)
    assert split.calibration == pytest.approx(2 * (3 * GAP**2 + 0.36) / 4)
    # one probability to a bin: what is left is the variance of the labels within bins
    assert split.refinement == pytest.approx(2 * (3 * (2 / 3) * (1 / 3)) / 4)


def test_refinement_is_the_brier_score_after_shifting_each_bin() -> None:
    said, labels = overconfident(3)
    shifted = 0.0
    for k in range(said.shape[1]):
        values, truth = said[:, k].copy(), labels == k
        bin_of = np.ceil(values * 15).astype(int)
        for number in np.unique(bin_of):
            values[bin_of == number] += truth[bin_of == number].mean() - values[bin_of == number].mean()
        shifted += float(np.mean((values - truth) ** 2))
    split = brier_split(said, labels, bins=15)
    assert split.refinement == pytest.approx(shifted)
    assert sum(split) == pytest.approx(brier_score(said, labels))


# Risk and coverage


def test_risk_coverage_by_hand() -> None:
    confidence, right = np.array([0.9, 0.7, 0.8, 0.6]), np.array([True, True, False, False])
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    found = risk_coverage(probabilities, np.where(right, 0, 1))
    # in order right, wrong, right, wrong: 0, 1/2, 1/3, 1/2; at best 0, 0, 1/3, 1/2
    assert found.area == pytest.approx((1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert found.excess == pytest.approx((1 / 2) / 4)


def test_equal_confidences_count_by_the_mean_over_their_orders() -> None:
    confidence, right = np.array([0.8, 0.9, 0.8, 0.8, 0.6]), np.array([1, 0, 0, 1, 0])
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    areas = []
    for tied in permutations([0, 2, 3]):
        wrong = 1 - right[[1, *tied, 4]]
        areas.append(np.mean([wrong[:kept].mean() for kept in range(1, 6)]))
    assert risk_coverage(probabilities, 1 - right).area == pytest.approx(np.mean(areas))


# Limits


MEASURES: dict[str, Callable[[Array, Array], float]] = {
    "class-wise": lambda said, labels: class_wise_error(said, labels, 15),
    "debiased": lambda said, labels: debiased_squared_error(said, labels, 15),
    "smooth": smooth_error,
    "calibration": lambda said, labels: brier_split(said, labels, 15).calibration,
    "aurc": lambda said, labels: risk_coverage(said, labels).area,
}


@pytest.mark.parametrize("name", MEASURES)
def test_sure_and_right_predictions_have_no_error(name: str) -> None:
    labels = np.array([0, 1, 2, 1])
    assert MEASURES[name](np.eye(3, dtype=np.float32)[labels], labels) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", ["class-wise", "smooth", "calibration"])
def test_as_often_right_as_predicted_is_no_error(name: str) -> None:
    said = np.tile([0.75, 0.25], (4, 1))
    assert MEASURES[name](said, np.array([0, 0, 1, 0])) == pytest.approx(0, abs=1e-12)


def test_sure_and_wrong_predictions_have_the_largest_errors() -> None:
    found = all_measures(np.eye(2)[[0, 0]], np.array([1, 1]), bins=15)
    for name in ("ece", "ece_class_wise", "ece_squared_debiased", "aurc"):
        assert found[name] == 1, name
    assert found["brier_calibration"] == 2 and found["brier_refinement"] == 0 and found["aurc_excess"] == 0
    # one kernel at confidence 1, wherever it is wider than its own reflection
    assert found["ece_smooth"] == pytest.approx(1, abs=1e-6)


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(ValueError, match="logits"):
        all_measures(np.array([[2.0, -1.0]]), np.array([0]), bins=15)
