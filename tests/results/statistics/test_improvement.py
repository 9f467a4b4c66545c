"""Probability of improvement, by hand, against Mann and Whitney's U, and how often its interval holds the truth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from augbench.results.statistics.improvement import Improvement, probability_of_improvement

RUNS = st.lists(st.integers(0, 5), min_size=1, max_size=5)


def test_by_hand() -> None:
    # On a 2 wins of 4 with one tie: 2.5 / 4; on b 1 win of 2
    found = probability_of_improvement({"a": [1, 4], "b": [5]}, {"a": [1, 2], "b": [3, 7]})
    assert found.probability == pytest.approx((2.5 / 4 + 1 / 2) / 2)
    assert found.datasets == 2


@given(RUNS, RUNS)
def test_mann_and_whitney(first: list[int], second: list[int]) -> None:
    found = probability_of_improvement({"a": first}, {"a": second})
    expected = stats.mannwhitneyu(first, second).statistic / (len(first) * len(second))
    assert found.probability == pytest.approx(expected)
    other = probability_of_improvement({"a": second}, {"a": first})
    errors = probability_of_improvement({"a": first}, {"a": second}, higher_is_better=False)
    assert other.probability == pytest.approx(1 - found.probability) == errors.probability


def test_numbers_that_differ_by_a_rounding_error_are_ties() -> None:
    assert probability_of_improvement({"a": [0.1 * 3]}, {"a": [0.3]}).probability == 0.5


@given(st.lists(st.booleans(), min_size=2, max_size=12), st.floats(0.5, 0.99))
def test_the_interval_is_scipys_where_one_method_is_always_the_same(won: list[bool], confidence: float) -> None:
    """Then runs of the other one are coins, and the shorter method decides how many of them count."""
    found = probability_of_improvement({"a": np.where(won, 2, 0)}, {"a": [1] * 20}, confidence=confidence)
    expected = stats.binomtest(sum(won), len(won)).proportion_ci(confidence, method="exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_the_interval_of_a_share_between_whole_numbers_of_runs() -> None:
    # 2.5 of 3 pairs' worth: the ends are where a beta law leaves 2.5 % on either side, here by quadrature
    found = probability_of_improvement({"a": [1, 4, 4]}, {"a": [1, 2, 0]})
    assert found.probability == pytest.approx(7.5 / 9)
    grid = (np.arange(400_000) + 0.5) / 400_000
    for end, tail, powers in ((found.low, 0.025, (1.5, 0.5)), (found.high, 0.975, (2.5, -0.5))):
        density = grid ** powers[0] * (1 - grid) ** powers[1]
        assert end == pytest.approx(np.interp(tail, np.cumsum(density) / density.sum(), grid), abs=1e-3)


@pytest.mark.parametrize("runs", [3, 5, 10])
@pytest.mark.parametrize("probability", [0.5, 0.7, 0.9])
@pytest.mark.parametrize(("spread", "shared"), [(1.0, 0.0), (1.0, 0.8), (10.0, 0.0)])
def test_how_often_intervals_hold_the_truth(runs: int, probability: float, spread: float, shared: float) -> None:
    """Normal methods of equal or very different spread, also with seeds that are lucky for both: 95 % at least."""
    source, trials = np.random.default_rng(0), 400
    ahead = stats.norm.ppf(probability) * math.hypot(1, spread)
    held = 0
    for _ in range(trials):
        seeds, own = source.normal(size=(2, runs))
        others = spread * (shared * seeds + math.sqrt(1 - shared**2) * own)
        found = probability_of_improvement({"a": seeds + ahead}, {"a": others})
        assert found.low is not None
        assert found.high is not None
        held += found.low <= probability <= found.high
    assert held / trials >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / trials)


def test_data_sets_add_up() -> None:
    """With the same number of trials, on one data set or on two, the interval is the same."""
    one = probability_of_improvement({"a": [2, 2, 0, 0, 2, 0]}, {"a": [1] * 6})
    two = probability_of_improvement({"a": [2, 2, 0], "b": [0, 2, 0]}, {"a": [1] * 3, "b": [1] * 4})
    assert (one.low, one.high) == pytest.approx((two.low, two.high))
    assert (one.datasets, two.datasets) == (1, 2)


def test_a_single_run_has_no_interval() -> None:
    found = probability_of_improvement({"a": [3, 1], "b": [2]}, {"a": [2, 0], "b": [1]})
    assert found == Improvement(7 / 8, None, None, 0.95, 2)


def test_where_every_run_wins_the_interval_is_no_certainty() -> None:
    for runs in (2, 3, 5, 6):
        found = probability_of_improvement({"a": [2] * runs}, {"a": range(-runs, 0)})
        assert (found.probability, found.high) == (1, 1)
        assert found.low == pytest.approx(0.025 ** (1 / runs))  # so that all of them win by chance in 2.5 % of cases


@pytest.mark.parametrize(
    ("first", "second", "options", "message"),
    [
        ({"a": [1]}, {"b": [1]}, {}, "same data sets"),
        ({}, {}, {}, "same data sets"),
        ({"a": []}, {"a": [1]}, {}, "at least one run"),
        ({"a": [math.nan]}, {"a": [1]}, {}, "finite values"),
        ({"a": [1]}, {"a": [1]}, {"confidence": 0}, "between 0 and 1"),
    ],
)
def test_what_cannot_be_compared(
    first: dict[str, list[float]], second: dict[str, list[float]], options: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        probability_of_improvement(first, second, **options)  # type: ignore[arg-type]
