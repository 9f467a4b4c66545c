"""Mean ratios: their values by seed against finite differences, and how often intervals have the true ratio."""

import numpy as np
import pytest

from augbench.results.statistics.bootstrap import Weights
from augbench.results.statistics.ratios import ratio_interval, ratio_values

RANDOM = np.random.default_rng(5)


def test_values_are_derivatives_by_the_weights_of_seeds() -> None:
    ours, theirs = RANDOM.uniform(0.1, 1, size=(2, 6, 4))

    def mean_ratio(weights: np.ndarray) -> float:
        return float(np.mean(weights @ ours / (weights @ theirs)))

    even, step = np.full(6, 1 / 6), 1e-6
    found = ratio_values(ours, theirs)
    assert found.mean() == pytest.approx(mean_ratio(even))
    for seed in range(6):
        moved = np.eye(6)[seed] - even  # towards this seed alone
        slope = (mean_ratio(even + step * moved) - mean_ratio(even - step * moved)) / (2 * step)
        assert found[seed] - found.mean() == pytest.approx(slope, abs=1e-8)


def test_what_is_common_to_both_methods_cancels() -> None:
    theirs = RANDOM.uniform(0.1, 1, size=(5, 3))
    found = ratio_interval(0.8 * theirs, theirs)
    assert [found.estimate, found.low, found.high] == pytest.approx([0.8] * 3)
    unpaired = ratio_interval(0.8 * theirs[::-1], theirs)
    assert unpaired.low is not None and unpaired.high is not None
    assert unpaired.high - unpaired.low > 0.1


@pytest.mark.parametrize("seeds", [3, 10])
def test_nineteen_intervals_in_twenty_have_the_true_ratio(seeds: int) -> None:
    hits, draws, weights = 0, 400, Weights(1)
    for _ in range(draws):
        luck = RANDOM.normal(0, 0.02, size=(seeds, 1))
        theirs = 0.4 + luck + RANDOM.normal(0, 0.02, size=(seeds, 5))
        ours = 0.3 + luck + RANDOM.normal(0, 0.02, size=(seeds, 5))
        found = ratio_interval(ours, theirs, weights)
        assert found.low is not None and found.high is not None
        hits += found.low <= 0.75 <= found.high
    assert 0.9 < hits / draws < 0.99


def test_what_has_no_ratio() -> None:
    with pytest.raises(ValueError, match="same seeds"):
        ratio_values([[1.0]], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="above 0"):
        ratio_values([[1.0, 1.0]], [[1.0, 0.0]])
