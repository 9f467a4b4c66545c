"""Probability of improvement, by hand, against Mann and Whitney's U, and by enumeration of all resamples."""

import math
from itertools import product

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
    found = probability_of_improvement({"a": first}, {"a": second}, resamples=10)
    expected = stats.mannwhitneyu(first, second).statistic / (len(first) * len(second))
    assert found.probability == pytest.approx(expected)
    other = probability_of_improvement({"a": second}, {"a": first}, resamples=10)
    errors = probability_of_improvement({"a": first}, {"a": second}, higher_is_better=False, resamples=10)
    assert other.probability == pytest.approx(1 - found.probability) == errors.probability


def test_numbers_that_differ_by_a_rounding_error_are_ties() -> None:
    assert probability_of_improvement({"a": [0.1 * 3]}, {"a": [0.3]}).probability == 0.5


@pytest.mark.parametrize("confidence", [0.6, 0.8, 0.95])
def test_the_interval_is_that_of_all_resamples(confidence: float) -> None:
    first, second = {"a": [1, 4, 6], "b": [2, 5]}, {"a": [2, 3, 5], "b": [1, 6]}

    def resampled(name: str) -> list[float]:
        pairs = product(product(first[name], repeat=len(first[name])), product(second[name], repeat=len(second[name])))
        return [float(np.mean([x > y for x, y in product(*pair)])) for pair in pairs]

    everything = np.sort([(a + b) / 2 for a, b in product(resampled("a"), resampled("b"))])
    found = probability_of_improvement(first, second, confidence=confidence, resamples=20_000)
    for end, level in ((found.low, (1 - confidence) / 2), (found.high, (1 + confidence) / 2)):
        assert end is not None
        below, above = (everything[int(len(everything) * (level + off))] for off in (-0.015, 0.015))
        assert below - 1e-9 <= end <= above + 1e-9


def test_a_single_run_has_no_interval() -> None:
    found = probability_of_improvement({"a": [3, 1], "b": [2]}, {"a": [2, 0], "b": [1]})
    assert found == Improvement(7 / 8, None, None, 0.95, 2)


def test_where_every_run_wins_nothing_is_known_of_the_rest() -> None:
    assert probability_of_improvement({"a": [3, 4]}, {"a": [1, 2]}) == Improvement(1.0, None, None, 0.95, 1)
    assert probability_of_improvement({"a": [1, 1]}, {"a": [1, 1]}) == Improvement(0.5, None, None, 0.95, 1)


def test_the_same_seed_gives_the_same_interval() -> None:
    runs = {"a": [1, 3, 5, 7]}, {"a": [2, 4, 6, 1]}
    assert probability_of_improvement(*runs, seed=1) == probability_of_improvement(*runs, seed=1)
    assert probability_of_improvement(*runs, confidence=0.5).low != probability_of_improvement(*runs).low


@pytest.mark.parametrize(
    ("first", "second", "options", "message"),
    [
        ({"a": [1]}, {"b": [1]}, {}, "same data sets"),
        ({}, {}, {}, "same data sets"),
        ({"a": []}, {"a": [1]}, {}, "at least one run"),
        ({"a": [math.nan]}, {"a": [1]}, {}, "finite values"),
        ({"a": [1]}, {"a": [1]}, {"confidence": 0}, "between 0 and 1"),
        ({"a": [1]}, {"a": [1]}, {"resamples": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_compared(
    first: dict[str, list[float]], second: dict[str, list[float]], options: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        probability_of_improvement(first, second, **options)  # type: ignore[arg-type]
