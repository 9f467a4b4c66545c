"""Tests that share what all pairs tell of the spread: against closed forms, other libraries and their limits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq
from scipy.special import polygamma

from augbench.results.statistics.moderated import (
    CAUTION,
    LEAST_METHODS,
    CommonSpread,
    common_spread,
    inverse_trigamma,
    t_tests,
)


def values(seeds: int, spreads: list[float], seed: int = 0) -> np.ndarray:
    """Normal values of methods with given standard deviations, and an effect of each seed on all; (S, K)."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(seeds, 1)) + generator.normal(size=(seeds, len(spreads))) * spreads


def all_pairs(array: np.ndarray) -> np.ndarray:
    """Differences of all pairs of columns; (P, S)."""
    first, second = np.triu_indices(array.shape[1], 1)
    return (array[:, first] - array[:, second]).T


@given(st.floats(1e-9, 1e9))
def test_the_inverse_of_trigamma(value: float) -> None:
    found = inverse_trigamma(value)
    assert float(polygamma(1, found)) == pytest.approx(value, rel=1e-6)
    if 1e-3 < value < 1e3:
        assert found == pytest.approx(brentq(lambda x: polygamma(1, x) - value, 1e-4, 1e6), rel=1e-6)


def test_a_moderated_test_by_hand() -> None:
    """Differences 1, 2, 3 have s² = 1 with two degrees; s₀² = 4 is worth two more: s² = (2 · 4 + 2 · 1)/4 = 2.5."""
    t = 2 / math.sqrt(2.5 / 3)
    (found,) = t_tests(np.array([[1.0, 2.0, 3.0]]), CommonSpread(variance=4, degrees=2, most=28))
    assert found == pytest.approx(2 * stats.t.sf(t, 4))


def test_a_large_spread_stays_as_it_is() -> None:
    rows = np.array([[0.0, 2.0, 4.0]])
    (found,) = t_tests(rows, CommonSpread(variance=1, degrees=2, most=28))
    assert found == pytest.approx(2 * stats.t.sf(2 / math.sqrt(4 / 3), 4))


def test_no_test_has_more_degrees_of_freedom_than_all_runs() -> None:
    rows = np.array([[1.0, 2.0, 3.0]])
    (found,) = t_tests(rows, CommonSpread(variance=1, degrees=math.inf, most=8))
    assert found == pytest.approx(2 * stats.t.sf(2 * math.sqrt(3), 8))


def test_the_moments_of_the_logarithms() -> None:
    """With ten degrees of freedom and without caution they are those of Smyth's equations, solved by other means."""
    array = values(11, [0.5, 1, 2, 0.7, 3, 1, 0.4, 2])
    variances = all_pairs(array).var(axis=1, ddof=1)
    e = np.log(variances) - polygamma(0, 5) + math.log(5)
    between = e.var(ddof=1) * (1 + CAUTION * math.sqrt(2 / 6)) - polygamma(1, 5)
    degrees = 2 * brentq(lambda x: polygamma(1, x) - between, 1e-3, 1e6)
    expected = math.exp(e.mean() + polygamma(0, degrees / 2) - math.log(degrees / 2))
    found = common_spread(array)
    assert found is not None
    assert (found.degrees, found.variance) == pytest.approx((degrees, expected))
    assert found.most == pytest.approx(10 * 7)


def test_equal_spreads_give_the_pooled_test() -> None:
    """Where all pairs have the same variance it is the test of a two-way layout, as analysis of variance has it."""
    # orthonormal contrasts over seeds: the residuals of the methods have equal variances and are uncorrelated
    residuals = np.linalg.qr(np.column_stack((np.ones(9), np.random.default_rng(0).normal(size=(9, 8)))))[0][:, 1:7]
    array = residuals + np.arange(6) * 0.1
    common = common_spread(array)
    assert common is not None and math.isinf(common.degrees)
    centred = array - array.mean(axis=0) - array.mean(axis=1, keepdims=True) + array.mean()
    pooled = (centred**2).sum() / (8 * 5)
    (found,) = t_tests(all_pairs(array)[:1], common)
    assert found == pytest.approx(2 * stats.t.sf(0.1 / math.sqrt(2 * pooled / 9), 40))


def test_few_methods_are_tested_alone() -> None:
    assert common_spread(values(5, [1.0] * (LEAST_METHODS - 1))) is None
    assert common_spread(values(5, [1.0] * 8), methods=LEAST_METHODS - 1) is None, "evaluations of the same networks"
    assert common_spread(values(5, [1.0] * LEAST_METHODS)) is not None


def test_copies_of_one_method_tell_nothing_twice() -> None:
    array = values(3, [1.0] * 5)
    array[:, 1:4] = array[:, :1] + np.array([0.1, 0.2, 0.3])
    assert common_spread(array) is None
    found = common_spread(np.hstack((values(3, [1.0] * 6), values(3, [1.0] * 6))))
    assert found is not None and found.most == pytest.approx(2 * 5)
    gone = np.full((3, 5), math.nan)
    assert common_spread(gone) is None


def test_missing_runs() -> None:
    """A method that lacks a seed is tested with what it has; the degrees are those of each pair."""
    array = values(5, [1.0] * 6)
    array[0, 0] = math.nan
    array[:3, 1] = math.nan
    common = common_spread(array)
    assert common is not None
    found = t_tests(all_pairs(array), common)
    assert [p is None for p in found] == [True, *[False] * 4, *[True] * 4, *[False] * 6]
    known = all_pairs(array)[1][1:]
    spread = max(known.var(ddof=1), _drawn(known, common))
    freedom = max(3.0, min(3 + common.degrees, common.most))
    assert found[1] == pytest.approx(2 * stats.t.sf(abs(known.mean()) / math.sqrt(spread / 4), freedom))


def _drawn(known: np.ndarray, common: CommonSpread) -> float:
    degrees = len(known) - 1
    share = 1.0 if math.isinf(common.degrees) else common.degrees / (common.degrees + degrees)
    return float(share * common.variance + (1 - share) * known.var(ddof=1))


def test_a_difference_that_never_varies_is_tested_by_the_spread_of_the_others() -> None:
    array = values(4, [1.0] * 7)
    array[:, 1] = array[:, 0] - 0.125
    common = common_spread(array)
    assert common is not None
    alone, together = t_tests(all_pairs(array)[:1]), t_tests(all_pairs(array)[:1], common)
    assert alone == (None,) and together[0] is not None and together[0] > 0.5


@pytest.mark.parametrize("methods", [5, 15])
@pytest.mark.parametrize("seeds", [3, 5])
def test_the_level_holds_and_power_is_gained(methods: int, seeds: int) -> None:
    """Of 400 comparisons of equal methods at most 8 % have any finding, and more true differences are found."""
    wrong = 0
    more = []
    for repeat in range(400):
        array = values(seeds, [1.0] * methods, seed=repeat)
        rows = all_pairs(array)
        common = common_spread(array)
        wrong += min(p for p in t_tests(rows, common) if p is not None) * len(rows) <= 0.05
        true = rows[:1] + 4.0
        more.append([(t_tests(true, each)[0] or 1.0) * len(rows) <= 0.05 for each in (None, common)])
    alone, together = np.mean(more, axis=0)
    assert wrong <= 32
    assert together > 2 * alone if methods == 15 else together > alone
