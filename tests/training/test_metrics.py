"""Metrics against hand-worked tables and against other libraries."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import accuracy_score, log_loss
from torchmetrics.functional.classification import multiclass_calibration_error

from augbench.bench.training.metrics import (
    accuracy,
    brier_score,
    check_probabilities,
    equal_mass_bins,
    equal_width_bins,
    negative_log_likelihood,
    score,
)

Array = NDArray[Any]


def _random_predictions(seed: int, count: int = 2000, classes: int = 10) -> tuple[Array, Array]:
    """Probabilities of very different confidence and labels that agree with some of them."""
    source = np.random.default_rng(seed)
    logits = source.normal(size=(count, classes)) * source.uniform(0.1, 4, size=(count, 1))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    guesses = np.array([source.choice(classes, p=row**0.5 / (row**0.5).sum()) for row in probabilities])
    return probabilities, guesses


def _top_label(confidences: list[float], right: list[bool]) -> tuple[Array, Array]:
    """One column per image, so that the top-label confidence can be any number, even 0."""
    return np.array(confidences)[:, None], np.array([0 if hit else 1 for hit in right])


# Equal-width bins


def test_equal_width_bins_of_a_hand_worked_table() -> None:
    confidences = [0.0, 0.2, 0.21, 0.4, 0.6, 0.5, 0.95, 1.0, 1.0, 1.0]
    right = [False, True, False, False, True, True, True, True, False, True]
    bins = equal_width_bins(*_top_label(confidences, right), bins=5)
    # (0, 0.2]: 0, 0.2 | (0.2, 0.4]: 0.21, 0.4 | (0.4, 0.6]: 0.6, 0.5 | (0.6, 0.8]: none | (0.8, 1]: the rest
    assert bins.count.tolist() == [2, 2, 2, 0, 4]
    np.testing.assert_allclose(bins.confidence, [0.1, 0.305, 0.55, math.nan, 0.9875])
    np.testing.assert_allclose(bins.accuracy, [0.5, 0.0, 1.0, math.nan, 0.75])
    # (2·0.4 + 2·0.305 + 2·0.45 + 4·0.2375) / 10
    assert bins.calibration_error == pytest.approx(0.326)


@pytest.mark.parametrize("bins", [5, 6, 7, 9, 10, 12, 14, 15, 17, 18, 20])
def test_upper_edges_belong_to_the_bin_below_them(bins: int) -> None:
    edges = [index / bins for index in range(1, bins + 1)]
    above = [math.nextafter(edge, 2) + 1e-9 for edge in edges[:-1]]
    right = [True] * bins
    assert equal_width_bins(*_top_label(edges, right), bins).count.tolist() == [1] * bins
    assert equal_width_bins(*_top_label(above, right[1:]), bins).count.tolist() == [0] + [1] * (bins - 1)


def test_confidence_0_is_in_the_first_bin_and_1_in_the_last() -> None:
    assert equal_width_bins(*_top_label([0.0], [True]), 4).count.tolist() == [1, 0, 0, 0]
    assert equal_width_bins(*_top_label([1.0], [True]), 4).count.tolist() == [0, 0, 0, 1]
    rounded_up = 1 + float(np.finfo(np.float32).eps)  # a float32 softmax may exceed 1 by a rounding error
    assert equal_width_bins(*_top_label([rounded_up], [True]), 4).count.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("bins", [10, 15])
def test_calibration_error_agrees_with_torchmetrics(seed: int, bins: int) -> None:
    probabilities, labels = _random_predictions(seed)
    assert probabilities.max() < 1
    theirs = multiclass_calibration_error(
        torch.from_numpy(probabilities), torch.from_numpy(labels), num_classes=10, n_bins=bins, norm="l1"
    )
    ours = score(probabilities, labels, bins)["ece"]
    assert ours > 0.02
    assert ours == pytest.approx(float(theirs), abs=1e-6)


@settings(deadline=None)
@given(groups=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=1), bins=st.integers(1, 30))
def test_images_that_are_right_as_often_as_they_say_have_no_calibration_error(
    groups: list[tuple[int, int]], bins: int
) -> None:
    confidences: list[float] = []
    right: list[bool] = []
    for half, extra in groups:  # of `size` images with one confidence, `hits` are right
        size, hits = 2 * half, min(half + extra, 2 * half)
        confidences += [hits / size] * size
        right += [True] * hits + [False] * (size - hits)
    probabilities = np.array([[confidence, 1 - confidence] for confidence in confidences])
    labels = np.array([0 if hit else 1 for hit in right])
    assert equal_width_bins(probabilities, labels, bins).calibration_error == pytest.approx(0, abs=1e-12)
    assert equal_width_bins(probabilities, 1 - labels, 1).calibration_error == pytest.approx(
        abs(2 * np.mean(confidences) - 1), abs=1e-12
    )


# Equal-mass bins


def test_equal_mass_bins_of_a_hand_worked_table() -> None:
    confidences = [0.9, 0.5, 0.99, 0.6, 0.8, 0.55, 0.7]
    right = [True, False, True, True, False, True, False]
    bins = equal_mass_bins(*_top_label(confidences, right), bins=3)
    # ordered: 0.5 0.55 0.6 | 0.7 0.8 | 0.9 0.99
    assert bins.count.tolist() == [3, 2, 2]
    np.testing.assert_allclose(bins.confidence, [0.55, 0.75, 0.945])
    np.testing.assert_allclose(bins.accuracy, [2 / 3, 0, 1])
    assert bins.calibration_error == pytest.approx((3 * (2 / 3 - 0.55) + 2 * 0.75 + 2 * 0.055) / 7)


@settings(deadline=None)
@given(count=st.integers(1, 60), bins=st.integers(1, 20), seed=st.integers(0, 5))
def test_equal_mass_bins_differ_by_one_image_at_most_and_rise_in_confidence(count: int, bins: int, seed: int) -> None:
    confidences = np.random.default_rng(seed).uniform(size=count)
    groups = equal_mass_bins(*_top_label(list(confidences), [True] * count), bins)
    assert groups.count.sum() == count
    assert groups.count.max() - groups.count.min() <= 1
    filled = groups.confidence[groups.count > 0]
    assert np.all(np.diff(filled) >= 0)
    assert float(np.nansum(groups.count * groups.confidence)) == pytest.approx(confidences.sum())


def test_equal_confidences_go_into_the_bin_of_their_middle() -> None:
    # ordered: 0.5 | four of 0.6 at places 1 to 4, middle 2.5 | 0.7 | 0.8 | 0.9, in bins of two places
    confidences = [0.6, 0.9, 0.6, 0.5, 0.8, 0.6, 0.7, 0.6]
    right = [True, True, False, False, True, False, True, False]
    bins = equal_mass_bins(*_top_label(confidences, right), bins=4)
    assert bins.count.tolist() == [1, 4, 1, 2]
    np.testing.assert_allclose(bins.accuracy, [0, 0.25, 1, 1])
    assert bins.calibration_error == pytest.approx((0.5 + 4 * 0.35 + 0.3 + 0.2 + 0.1) / 8)


@settings(deadline=None)
@given(
    images=st.lists(st.tuples(st.integers(10, 20), st.booleans()), min_size=1, max_size=80),
    bins=st.integers(1, 20),
    data=st.data(),
)
def test_equal_mass_bins_do_not_depend_on_the_order_of_the_images(
    images: list[tuple[int, bool]], bins: int, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(images))
    first, second = (
        equal_mass_bins(*_top_label([twentieths / 20 for twentieths, _ in order], [hit for _, hit in order]), bins)
        for order in (images, shuffled)
    )
    assert first.count.tolist() == second.count.tolist()
    assert first.calibration_error == pytest.approx(second.calibration_error, abs=1e-12)
    # the same from average ranks, in whole numbers: of n images, rank r (from 1) lies in bin (r − 1) · bins / n
    twice = (2 * stats.rankdata([twentieths for twentieths, _ in images], method="average")).astype(int) - 2
    gaps = np.bincount(twice * bins // (2 * len(images)), weights=[hit - twentieths / 20 for twentieths, hit in images])
    assert first.calibration_error == pytest.approx(abs(gaps).sum() / len(images), abs=1e-12)


# Accuracy, NLL, Brier


@pytest.mark.parametrize("seed", range(3))
def test_accuracy_and_log_likelihood_agree_with_scikit_learn(seed: int) -> None:
    probabilities, labels = _random_predictions(seed)
    assert accuracy(probabilities, labels) == pytest.approx(accuracy_score(labels, probabilities.argmax(1)))
    expected = log_loss(labels, probabilities, labels=list(range(10)))
    assert negative_log_likelihood(probabilities, labels) == pytest.approx(expected, rel=1e-9)


def test_brier_score_agrees_with_torch_on_ten_classes() -> None:
    probabilities, labels = _random_predictions(4)
    one_hot = torch.nn.functional.one_hot(torch.from_numpy(labels), 10).double()
    expected = torch.nn.functional.mse_loss(torch.from_numpy(probabilities), one_hot, reduction="sum") / len(labels)
    assert brier_score(probabilities, labels) == pytest.approx(float(expected))


def test_hand_worked_scores() -> None:
    probabilities = np.array([[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]])
    labels = np.array([0, 1])
    scores = score(probabilities, labels, bins=4)
    assert scores["accuracy"] == 0.5
    assert scores["nll"] == pytest.approx((math.log(2) + math.log(8)) / 2)
    assert scores["brier"] == pytest.approx((0.25 + 2 * 0.0625 + 0.015625 + 0.765625 + 0.5625) / 2)
    assert scores["ece"] == pytest.approx((0.5 + 0.75) / 2)
    assert scores["ece_equal_mass"] == pytest.approx((0.5 + 0.75) / 2)


def test_scores_of_a_sure_prediction_stay_finite() -> None:
    scores = score(np.array([[1.0, 0.0]], dtype=np.float32), np.array([1]), bins=15)
    assert scores["nll"] == pytest.approx(126 * math.log(2))  # the smallest normal float32 is 2⁻¹²⁶
    assert (scores["accuracy"], scores["brier"], scores["ece"]) == (0, 2, 1)


# What is refused


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        pytest.param([[2.0, -1.0]], [0], id="logits"),
        pytest.param([[0.5, 0.4]], [0], id="sum below 1"),
        pytest.param([[0.9, 0.9]], [0], id="sum above 1"),
        pytest.param([[-0.2, 1.2]], [0], id="negative"),
        pytest.param([[math.nan, 1.0]], [0], id="NaN"),
        pytest.param([[math.nan, math.nan]], [0], id="only NaN"),
        pytest.param([[math.inf, 0.0]], [0], id="infinity"),
        pytest.param([[0.5, 0.5]], [2], id="label too large"),
        pytest.param([[0.5, 0.5]], [-1], id="negative label"),
        pytest.param([[0.5, 0.5]], [0, 1], id="more labels than rows"),
        pytest.param([0.5, 0.5], [0, 1], id="one axis"),
        pytest.param([[[0.5, 0.5]]], [0], id="three axes"),
        pytest.param([[0.5, 0.5]], [[0]], id="labels with two axes"),
    ],
)
def test_anything_but_probabilities_with_labels_is_refused(rows: list[Any], labels: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"[Pp]robabilities|Labels"):
        check_probabilities(np.array(rows), np.array(labels))
    with pytest.raises(ValueError, match=r"[Pp]robabilities|Labels"):
        score(np.array(rows), np.array(labels), bins=15)


def test_empty_predictions_are_refused() -> None:
    with pytest.raises(ValueError, match="Expected probabilities"):
        check_probabilities(np.zeros((0, 10)), np.zeros(0, dtype=np.int64))


def test_float32_softmax_of_many_classes_is_accepted() -> None:
    logits = torch.randn(500, 1000, generator=torch.Generator().manual_seed(5)) * 5
    probabilities = logits.softmax(1).numpy()
    check_probabilities(probabilities, np.zeros(500, dtype=np.int64))
