"""A temperature against a search on a grid, and cross-fitting by hand."""

import numpy as np
import pytest
from scipy.special import softmax

from augbench.bench.training.metrics import accuracy, negative_log_likelihood
from augbench.results.statistics.temperature import HIGHEST, cross_fitted, fit_temperature, tempered


def said_and_labels(seed: int, images: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities with half the temperature of those that labels are drawn from."""
    source = np.random.default_rng(seed)
    logits = source.normal(size=(images, 4)) * 2
    labels = np.array([source.choice(4, p=row) for row in softmax(logits, axis=1)])
    return softmax(2 * logits, axis=1), labels


def test_a_temperature_divides_logits() -> None:
    logits = np.random.default_rng(0).normal(size=(20, 5)) * 4
    np.testing.assert_allclose(tempered(softmax(logits, axis=1), 2.5), softmax(logits / 2.5, axis=1))
    np.testing.assert_allclose(tempered(softmax(logits, axis=1), 1.0), softmax(logits, axis=1))


def test_the_best_temperature_is_that_of_a_grid_and_undoes_overconfidence() -> None:
    said, labels = said_and_labels(1)
    found = fit_temperature(said, labels)
    grid = np.geomspace(1 / HIGHEST, HIGHEST, 2001)
    losses = [negative_log_likelihood(tempered(said, temperature), labels) for temperature in grid]
    assert found == pytest.approx(grid[int(np.argmin(losses))], rel=4e-3)
    assert found == pytest.approx(2, rel=0.1)
    assert negative_log_likelihood(tempered(said, found), labels) <= min(losses) + 1e-9


def test_without_a_best_temperature_it_stays_in_its_range() -> None:
    said = np.array([[0.9, 0.1], [0.2, 0.8]])
    assert fit_temperature(said, np.array([0, 1])) == pytest.approx(1 / HIGHEST, rel=1e-3)
    assert fit_temperature(said, np.array([1, 0])) == pytest.approx(HIGHEST, rel=1e-3)
    sure = np.eye(2, dtype=np.float32)
    assert np.isfinite(tempered(sure, fit_temperature(sure, np.array([1, 0])))).all()


def test_without_errors_the_lowest_temperature_is_best_however_small_the_loss() -> None:
    """Margins of 1 to 80 nats; the loss of the surest images is below the smallest number for most temperatures."""
    logits = np.zeros((40, 3))
    logits[:, 0] = np.linspace(1, 80, 40)
    assert fit_temperature(softmax(logits, axis=1), np.zeros(40, dtype=int)) == pytest.approx(1 / HIGHEST, rel=1e-3)
    logits[:, 0] += 60
    assert fit_temperature(softmax(logits, axis=1), np.zeros(40, dtype=int)) == pytest.approx(1 / HIGHEST, rel=1e-3)


def test_each_half_has_the_temperature_of_the_other() -> None:
    said, labels = said_and_labels(2, images=101)
    runs = list(cross_fitted(said, labels))
    assert len(runs) == 5
    for found in runs:
        # the temperature of each image, from the odds of its first two classes
        of_image = np.log(said[:, 0] / said[:, 1]) / np.log(found.probabilities[:, 0] / found.probabilities[:, 1])
        (first, second), counts = np.unique(of_image.round(6), return_counts=True)
        assert sorted(counts) == [50, 51]
        half = np.isclose(of_image, first, atol=1e-5)
        assert fit_temperature(said[~half], labels[~half]) == pytest.approx(first, abs=1e-5)
        assert fit_temperature(said[half], labels[half]) == pytest.approx(second, abs=1e-5)
        assert found.temperature == pytest.approx((first + second) / 2, abs=1e-5)
        assert accuracy(found.probabilities, labels) == accuracy(said, labels)
    assert len({found.temperature for found in runs}) == 5  # other halves each time
    again = list(cross_fitted(said, labels))
    assert all(np.array_equal(one.probabilities, two.probabilities) for one, two in zip(runs, again, strict=True))


def test_cross_fitting_takes_two_images() -> None:
    with pytest.raises(ValueError, match="at least two images"):
        list(cross_fitted(np.array([[0.5, 0.5]]), np.array([0])))
