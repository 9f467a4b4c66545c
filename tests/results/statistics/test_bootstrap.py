"""Bootstrap intervals over seeds and images: by enumeration, by hand, against known laws, and how often they hold."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from augbench.results.statistics.bootstrap import Interval, Weights, mean_interval, mean_intervals, paired_difference

Floats = NDArray[np.float64]


def ends(interval: Interval) -> tuple[float, float]:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low, interval.high


def stretch(seeds: int, confidence: float) -> float:
    upper = (1 + confidence) / 2
    return math.sqrt(seeds / (seeds - 1)) * stats.t.ppf(upper, seeds - 1) / stats.norm.ppf(upper)


def all_resamples(values: Floats, confidence: float) -> Floats:
    """Every resample that there is, each as likely as any other, in rising order."""
    seeds, images = values.shape
    columns = np.array(list(product(range(images), repeat=images)))
    means = []
    for rows in product(range(seeds), repeat=seeds):
        drawn = values[list(rows)].mean(axis=0)  # of each image, over the drawn seeds
        means.append(drawn[columns].mean(axis=1) + (stretch(seeds, confidence) - 1) * (drawn.mean() - values.mean()))
    return np.sort(np.concatenate(means))


@pytest.mark.parametrize(
    "values",
    [
        [[1, 0, 0], [1, 1, 0]],
        [[0.5, -1, 0, 1], [0, 0.25, -0.5, 1]],
        [[1, 0, 1], [0, 0, 1], [-1, 1, 0]],
    ],
)
def test_the_ends_are_those_of_all_resamples(values: list[list[float]]) -> None:
    array = np.array(values, dtype=float)
    weights = Weights(array.shape[1], resamples=20_000)
    for confidence in (0.5, 0.8, 0.95):
        everything = all_resamples(array, confidence)
        interval = mean_interval(array, confidence=confidence, weights=weights)
        assert interval.estimate == pytest.approx(array.mean())
        for end, level in zip(ends(interval), ((1 - confidence) / 2, (1 + confidence) / 2), strict=True):
            # Chance moves the fraction of resamples below an end by 0.0035 at most, with one standard deviation.
            below, above = (
                np.clip(int(len(everything) * (level + off)), 0, len(everything) - 1) for off in (-0.015, 0.015)
            )
            assert everything[below] - 1e-9 <= end <= everything[above] + 1e-9


def test_two_seeds_by_hand() -> None:
    # Images are all alike, so that a quarter of the resamples is 0.2, a half 0.3 and a quarter 0.4, which are stretched
    # by √2 · 12.706 / 1.960 = 9.168.
    interval = mean_interval([[0.2] * 50, [0.4] * 50])
    assert (interval.estimate, interval.seeds, interval.images) == (pytest.approx(0.3), 2, 50)
    assert ends(interval) == pytest.approx((0.3 - 0.1 * 9.168, 0.3 + 0.1 * 9.168), abs=1e-3)


def test_many_seeds_alone_give_the_interval_of_student() -> None:
    accuracies = np.random.default_rng(0).normal(0.9, 0.01, 30)
    low, high = ends(mean_interval(np.repeat(accuracies[:, None], 4, axis=1), resamples=20_000))
    expected = stats.t.interval(0.95, 29, accuracies.mean(), stats.sem(accuracies))
    assert (low, high) == pytest.approx(expected, abs=2e-4)


def test_images_alone_give_the_quantiles_of_the_binomial_law() -> None:
    right = np.array([1] * 160 + [0] * 40)
    low, high = ends(mean_interval(np.repeat(right[None], 3, axis=0), resamples=20_000))
    assert (low, high) == pytest.approx(stats.binom.ppf([0.025, 0.975], 200, 0.8) / 200, abs=0.0051)


def test_what_both_methods_share_cancels() -> None:
    source = np.random.default_rng(3)
    hard = source.random(300) < 0.3
    first = ~hard & (source.random((4, 300)) < 0.99)
    second = ~hard & (source.random((4, 300)) < 0.99)
    paired = paired_difference(first, second)
    low, high = ends(paired)
    alone = ends(mean_interval(first))
    assert paired.estimate == pytest.approx(first.mean() - second.mean())
    assert high - low < (alone[1] - alone[0]) / 3


@given(st.integers(2, 4), st.integers(1, 6), st.integers(0, 10**6))
def test_exchanging_the_methods_turns_the_interval_over(seeds: int, images: int, seed: int) -> None:
    first, second = np.random.default_rng(seed).integers(0, 2, size=(2, seeds, images))
    weights = Weights(images, resamples=200)
    one, other = (paired_difference(*pair, weights=weights) for pair in ((first, second), (second, first)))
    assert one.estimate == pytest.approx(-other.estimate, abs=1e-12)
    assert ends(one) == pytest.approx(tuple(-end for end in reversed(ends(other))), abs=1e-9)
    assert ends(one)[0] <= one.estimate + 1e-9
    assert ends(one)[1] >= one.estimate - 1e-9


def test_a_single_seed_has_no_interval() -> None:
    assert mean_interval([[1, 0, 1, 1]]) == Interval(0.75, None, None, 0.95, 1, 4)


def test_weights_are_shared_and_decided_by_their_seed() -> None:
    source = np.random.default_rng(4)
    few, many = source.random((2, 40)), source.random((5, 40))
    weights = Weights(40, resamples=300, seed=7)
    assert (weights.of_images.sum(axis=1) == 40).all()
    assert (weights.of_seeds(5).sum(axis=1) == 5).all()
    together = mean_intervals([few, many], weights=weights)
    assert together == [mean_interval(values, resamples=300, seed=7) for values in (few, many)]
    assert together[1] == mean_interval(many, weights=weights)
    assert together[1] != mean_interval(many, resamples=300, seed=8)
    assert mean_intervals([], weights=weights) == []


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([[0.5, math.nan]], {}, "finite values"),
        ([0.5, 0.6], {}, "seeds × images"),
        (0.5, {}, "seeds × images"),
        ([[], []], {}, "seeds × images"),
        ([[0.5]], {"confidence": 1}, "between 0 and 1"),
        ([[0.5]], {"resamples": 0}, "at least 1"),
        ([[0.5]], {"weights": Weights(2)}, "2 images"),
    ],
)
def test_what_has_no_interval(values: object, options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mean_interval(values, **options)  # type: ignore[arg-type]


def test_methods_that_cannot_be_paired() -> None:
    with pytest.raises(ValueError, match="same seeds and images"):
        paired_difference([[1, 0]], [[1, 0], [0, 0]])


SPREADS = {"seeds": (1.0, 0.1, 0.1), "images": (0.0, 1.0, 0.1), "both": (0.1, 1.0, 0.3), "neither": (0.0, 0.1, 1.0)}


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("spread", SPREADS)
def test_how_often_intervals_hold_the_truth(seeds: int, spread: str) -> None:
    """Crossed effects of seeds, of images and of both: at least about 95 of 100 intervals hold their mean, 0."""
    source = np.random.default_rng(5)
    of_seed, of_image, of_both = SPREADS[spread]
    trials, images = 400, 120
    values = [
        source.normal(0, of_seed, (seeds, 1))
        + source.normal(0, of_image, (1, images))
        + source.normal(0, of_both, (seeds, images))
        for _ in range(trials)
    ]
    held = 0
    for interval in mean_intervals(values, weights=Weights(images, resamples=400)):
        low, high = ends(interval)
        held += low <= 0 <= high
    assert held / trials >= 0.92  # three standard deviations of the count below 0.95
    if spread != "neither":
        assert held / trials <= 0.995
