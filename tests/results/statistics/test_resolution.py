"""Which differences tests find: against the power of statsmodels, another integral, and simulated tests."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import polygamma
from statsmodels.stats.power import TTestPower

from augbench.results.statistics.moderated import LEAST_METHODS, expected_common_spread, t_tests
from augbench.results.statistics.resolution import (
    MOST_SEEDS,
    POWER,
    Spread,
    power_of,
    seeds_needed,
    smallest_difference,
    spread_of,
)

ONE = Spread(1.0)


@pytest.mark.parametrize(
    ("seeds", "tests", "expected"),
    [(3, 1, 3.264), (3, 36, 19.652), (5, 1, 1.682), (5, 8, 2.976), (10, 1, 0.996), (10, 36, 1.784), (20, 8, 0.888)],
)
def test_paired_tests_have_the_power_that_statsmodels_gives(seeds: int, tests: int, expected: float) -> None:
    """Of the other numbers of seeds and tests, its noncentral t has some as NaN."""
    smallest = smallest_difference(ONE, seeds, 2, tests=tests)
    assert smallest == pytest.approx(expected, abs=6e-4)
    assert TTestPower().power(smallest, seeds, 0.05 / tests) == pytest.approx(POWER, abs=1e-4)


@given(st.floats(0, 4), st.integers(3, 50), st.integers(1, 10))
def test_the_power_is_that_of_the_noncentral_t(difference: float, seeds: int, tests: int) -> None:
    critical = stats.t.isf(0.025 / tests, seeds - 1)
    shift = difference * math.sqrt(seeds)
    expected = stats.nct.sf(critical, seeds - 1, shift) + stats.nct.cdf(-critical, seeds - 1, shift)
    if math.isfinite(expected):
        assert power_of(-difference, ONE, seeds, 2, tests=tests) == pytest.approx(float(expected), abs=2e-3)


@pytest.mark.parametrize(("seeds", "methods"), [(3, 5), (3, 15), (10, 7)])
def test_moderated_tests_by_another_integral(seeds: int, methods: int) -> None:
    """Over the chi-square density of the variance, with the variance that the moderated test uses written out."""
    degrees, unevenness, difference = seeds - 1, 0.2, 2.0
    common = expected_common_spread(seeds, methods, unevenness)
    assert common is not None
    freedom = min(degrees + common.degrees, degrees * (methods - 1))
    critical = stats.t.isf(0.025 / math.comb(methods, 2), freedom)

    def found(variance: float) -> float:
        drawn = (common.degrees + degrees * variance) / (common.degrees + degrees)
        needed = critical * math.sqrt(max(variance, drawn))
        passed = stats.norm.sf(needed - difference * math.sqrt(seeds))
        return float(passed * stats.chi2.pdf(variance * degrees, degrees) * degrees)

    expected, _ = integrate.quad(found, 0, 30, points=[1.0], limit=200)
    assert power_of(difference, Spread(1.0, unevenness), seeds, methods) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize(("seeds", "methods"), [(3, 3), (5, 3), (4, 8)])
def test_simulated_tests_find_the_smallest_difference_in_80_percent_of_cases(seeds: int, methods: int) -> None:
    """Of one pair, with what the pairs share given to the test."""
    pairs, spread = math.comb(methods, 2), 2.5
    smallest = smallest_difference(Spread(spread), seeds, methods)
    rows = np.random.default_rng(seeds).normal(smallest / spread, 1.0, size=(10_000, seeds))
    p_values = np.array(t_tests(rows, expected_common_spread(seeds, methods, 0.0)), dtype=float)
    assert (p_values * pairs <= 0.05).mean() == pytest.approx(POWER, abs=0.016)  # four standard errors


def test_what_common_spreads_are_expected_by_hand() -> None:
    """ψ′(1) = π²/6; raised by half of √(2/3) for five methods, and what remains is ψ′(d₀/2)."""
    common = expected_common_spread(3, 5, 0.0)
    assert common is not None and (common.variance, common.most) == (1.0, 8)
    assert float(polygamma(1, common.degrees / 2)) == pytest.approx(math.pi**2 / 6 * 0.5 * math.sqrt(2 / 3))
    assert expected_common_spread(3, LEAST_METHODS - 1, 0.0) is None
    uneven = expected_common_spread(3, 5, 1.0)
    assert uneven is not None and uneven.degrees < common.degrees


def test_a_pair_named_before_needs_less_than_the_first_of_all_pairs() -> None:
    assert smallest_difference(ONE, 5, 8, tests=1) < smallest_difference(ONE, 5, 8)
    assert smallest_difference(ONE, 5, 8, tests=1) < smallest_difference(ONE, 5, 2), "eight methods tell the spread"


@pytest.mark.parametrize("methods", [2, 4, 5, 15])
@pytest.mark.parametrize("gap", [3.0, 1.0, 0.3])
def test_so_many_seeds_are_enough_and_one_less_is_not(methods: int, gap: float) -> None:
    seeds = seeds_needed(gap, ONE, methods)
    assert seeds is not None
    assert smallest_difference(ONE, seeds, methods) <= gap
    assert seeds == 3 or smallest_difference(ONE, seeds - 1, methods) > gap


def test_more_seeds_than_anybody_has() -> None:
    assert seeds_needed(0.01, ONE, 5) is None
    least = smallest_difference(ONE, MOST_SEEDS, 5)
    assert seeds_needed(least * 1.0001, ONE, 5) == MOST_SEEDS
    assert seeds_needed(100.0, ONE, 5) == 3, "no test has fewer"


@given(st.floats(1e-3, 1e3), st.integers(3, 40), st.integers(2, 20), st.floats(0, 3))
def test_it_is_proportional_to_the_spread_and_shrinks_with_seeds(
    deviation: float, seeds: int, methods: int, unevenness: float
) -> None:
    one = smallest_difference(Spread(1.0, unevenness), seeds, methods)
    assert smallest_difference(Spread(deviation, unevenness), seeds, methods) == pytest.approx(deviation * one)
    assert smallest_difference(Spread(1.0, unevenness), seeds + 1, methods) < one
    assert power_of(one, Spread(1.0, unevenness), seeds, methods) == pytest.approx(POWER)


def test_the_spread_of_values_is_the_root_mean_square_over_pairs() -> None:
    """Differences over seeds: 1, 2, 3 (variance 1); 1, 4, 1 (3); 0, 2, −2 (4)."""
    values = np.array([[0.0, -1.0, -1.0], [0.0, -2.0, -4.0], [0.0, -3.0, -1.0]])
    assert spread_of(values) == Spread(pytest.approx(math.sqrt(8 / 3)))


def test_copies_of_a_method_do_not_dilute_the_spread() -> None:
    values = np.array([[0.0, -1.0], [0.0, -2.0], [0.0, -4.0]])
    assert spread_of(values[:, [0, 1, 1]]) == spread_of(values)


def test_the_spread_where_runs_are_missing_counts_degrees_of_freedom() -> None:
    """The first pair has variance 1 of three seeds, the second 8 of two seeds, the third 2 of two."""
    gone = math.nan
    values = np.array([[0.0, -1.0, gone], [0.0, -2.0, -4.0], [0.0, -3.0, -8.0]])
    third = np.var([2.0, 5.0], ddof=1)
    assert spread_of(values) == Spread(pytest.approx(math.sqrt((2 * 1 + 8 + third) / 4)))


def test_uneven_spreads_are_seen_from_many_seeds() -> None:
    """Ten methods of which pairs differ in their variances, 60 seeds: the variance of the logarithms is known."""
    deviations = np.geomspace(0.5, 4, 10)
    values = np.random.default_rng(0).normal(size=(60, 10)) * deviations
    first, second = np.triu_indices(10, 1)
    true = np.log(deviations[first] ** 2 + deviations[second] ** 2)
    found = spread_of(values)
    assert found is not None
    assert found.unevenness == pytest.approx(true.var(ddof=1), rel=0.2)
    assert found.deviation == pytest.approx(math.sqrt(np.exp(true).mean()), rel=0.1)


@pytest.mark.parametrize(
    "values", [[[1.0, 2.0]], [[1.0, 2.0], [2.0, 3.0]], [[1.0], [2.0]], np.empty((0, 0)), [[math.nan] * 2] * 3]
)
def test_no_spread_is_known(values: list[list[float]]) -> None:
    """Of one seed, of equal differences, of one method, and of nothing."""
    assert spread_of(values) is None


def test_what_cannot_be_asked() -> None:
    with pytest.raises(ValueError, match="at least 3 seeds, got 2"):
        smallest_difference(ONE, 2, 5)
    with pytest.raises(ValueError, match="two methods, got 1"):
        seeds_needed(1.0, ONE, 1)
    with pytest.raises(ValueError, match="must vary"):
        smallest_difference(Spread(0.0), 3, 5)
    with pytest.raises(ValueError, match="must vary"):
        smallest_difference(Spread(math.nan), 3, 5)
    with pytest.raises(ValueError, match="above 0 and finite, got 0"):
        seeds_needed(0, ONE, 5)
    with pytest.raises(ValueError, match="must be finite, got nan"):
        power_of(math.nan, ONE, 3, 5)
    with pytest.raises(ValueError, match="between the level and 1"):
        smallest_difference(ONE, 3, 5, power=0.01)
    with pytest.raises(ValueError, match="shape"):
        spread_of([1.0, 2.0])
