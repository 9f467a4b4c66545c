"""Paired t-tests, Holm's correction, and who shares the first place."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from augbench.results.statistics.paired import Best, best_methods, by_seed, holm, paired_differences, paired_p_value


def with_two_degrees(t: float) -> float:
    """Two-sided p-value of Student's law with two degrees of freedom, which has a closed form."""
    return 1 - t / math.sqrt(t**2 + 2)


def frame(**values: list[float]) -> pd.DataFrame:
    """A row for each label and value; seeds count from 0."""
    rows = [(label, seed, value) for label, of_label in values.items() for seed, value in enumerate(of_label)]
    return pd.DataFrame(rows, columns=["label", "seed", "value"])


def test_p_values_by_hand() -> None:
    # mean 2, deviation 1, t = 2 √3 with two degrees of freedom
    assert paired_p_value([1, 2, 3]) == pytest.approx(with_two_degrees(2 * math.sqrt(3)))
    assert paired_p_value([-1, -2, -3]) == pytest.approx(with_two_degrees(2 * math.sqrt(3)))
    # mean 2, deviation √2, t = 2 with one degree of freedom: Cauchy's law
    assert paired_p_value([1, 3]) == pytest.approx(1 - 2 / math.pi * math.atan(2))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=8))
def test_p_values_as_scipy_has_them_of_pairs(pairs: list[tuple[float, float]]) -> None:
    first, second = np.array(pairs).round(4).T
    if np.ptp(first - second) > 1e-6:
        expected = stats.ttest_rel(first, second).pvalue
        assert paired_p_value(first - second) == pytest.approx(expected, rel=1e-6)


def test_without_any_spread() -> None:
    assert paired_p_value([0, 0, 0]) == 1
    assert paired_p_value([0.25, 0.25, 0.25]) is None
    assert paired_p_value([0.9 - 0.8, 0.7 - 0.6]) is None, "they differ by a rounding error"


@pytest.mark.parametrize("differences", [[], [0.1]])
def test_too_few_for_a_test(differences: list[float]) -> None:
    assert paired_p_value(differences) is None


@pytest.mark.parametrize("differences", [[0.1, math.nan], [0.1, math.inf, 0.2], [[0.1, 0.2]]])
def test_what_cannot_be_tested(differences: list[float]) -> None:
    with pytest.raises(ValueError, match="finite differences"):
        paired_p_value(differences)


def test_holm_by_hand() -> None:
    # p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm") in R
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx((0.05, 0.08, 0.09, 0.09, 0.09))
    # 0.005 × 4, 0.01 × 3, 0.03 × 2, and 0.04 × 1 is raised to the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.6, 0.9]) == (1, 1)
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferroni(p_values: list[float]) -> None:
    """A hypothesis is rejected if Bonferroni's test rejects every set of hypotheses that it belongs to."""
    indices = range(len(p_values))
    sets = [chosen for size in range(1, len(p_values) + 1) for chosen in combinations(indices, size)]
    bonferroni = {chosen: min(1.0, len(chosen) * min(p_values[index] for index in chosen)) for chosen in sets}
    expected = [max(p for chosen, p in bonferroni.items() if index in chosen) for index in indices]
    assert holm(p_values) == pytest.approx(tuple(expected))


def test_what_was_not_tested_is_no_member_of_the_family() -> None:
    assert holm([0.02, None, 0.01]) == (0.02, None, 0.02)
    assert holm([None]) == (None,)


@pytest.mark.parametrize("p_values", [[0.1, math.nan], [1.1], [-0.1]])
def test_what_are_no_p_values(p_values: list[float]) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm(p_values)


def test_differences_over_common_seeds() -> None:
    values = frame(scale=[0.9, 0.8, 0.7, math.nan], none=[0.5, math.nan, 0.6, 0.1])
    assert paired_differences(by_seed(values), "scale", "none").to_dict() == {0: 0.4, 2: 0.1}


CLOSE = frame(none=[0.87, 0.881, 0.889], fixed=[0.9, 0.91, 0.92], scale=[0.9, 0.92, 0.91])


def test_the_best_by_hand() -> None:
    best = best_methods(CLOSE, higher_is_better=True, asked=3)
    # none is 0.030, 0.029 and 0.031 behind: t = 0.03 √3 / 0.001; scale is 0, −0.01 and 0.01 behind: t = 0
    behind = with_two_degrees(30 * math.sqrt(3))
    assert (best.best, best.together, best.left_out) == ("fixed", ("fixed", "scale"), ())
    assert best.p_values == pytest.approx({"none": 2 * behind, "scale": 1.0})


def test_the_smallest_is_best_where_it_is_an_error() -> None:
    best = best_methods(CLOSE, higher_is_better=False, asked=3)
    assert (best.best, best.together) == ("none", ("none",))
    assert set(best.p_values) == {"fixed", "scale"}


def test_of_methods_that_tie_the_first_is_compared_with() -> None:
    best = best_methods(CLOSE.iloc[::-1], higher_is_better=True, asked=3)
    # none is 0.03, 0.039 and 0.021 behind scale: t = 0.03 √3 / 0.009
    assert best.best == "scale"
    assert best.p_values["none"] == pytest.approx(2 * with_two_degrees(0.03 * math.sqrt(3) / 0.009))
    assert best.together == ("scale", "fixed", "none")


def test_the_family_is_corrected() -> None:
    # 1, 2 and 3 hundredths behind: p = 0.074; and t = 4.4, p = 0.048 alone, 0.096 with the other one
    values = frame(a=[0.9, 0.9, 0.9], b=[0.89, 0.88, 0.87], c=[0.89, 0.884, 0.88])
    alone = best_methods(values[values["label"] != "b"], higher_is_better=True, asked=3)
    both = best_methods(values, higher_is_better=True, asked=3)
    assert alone.together == ("a",)
    assert both.together == ("a", "b", "c")
    assert alone.p_values["c"] == pytest.approx(stats.ttest_1samp([0.01, 0.016, 0.02], 0).pvalue)
    assert both.p_values["c"] == pytest.approx(2 * stats.ttest_1samp([0.01, 0.016, 0.02], 0).pvalue)


def test_who_lacks_a_seed_or_a_number_is_not_ranked() -> None:
    values = frame(none=[0.8, 0.7, 0.8], scale=[0.99, 0.99], fixed=[0.99, math.nan, 0.99])
    best = best_methods(values, higher_is_better=True, asked=3)
    assert best == Best("none", ("none",), {}, ("scale", "fixed"))


def test_one_seed_tests_nothing_and_only_equals_are_together() -> None:
    values = frame(a=[0.8], b=[0.9], c=[0.9], d=[0.1 * 9])
    best = best_methods(values, higher_is_better=True, asked=1)
    assert best == Best("b", ("b", "c", "d"), {"a": None, "c": None, "d": None})


def test_two_seeds_are_not_tested() -> None:
    """The differences, 0.1 and 0.12, would have p = 0.06: with so few seeds nearly everything is insignificant."""
    values = frame(a=[0.9, 0.92], b=[0.8, 0.8])
    assert best_methods(values, higher_is_better=True, asked=2) == Best("a", ("a",), {"b": None})
    more = frame(a=[0.9, 0.92, 0.91], b=[0.8, 0.8, 0.8])
    assert best_methods(more, higher_is_better=True, asked=3).p_values["b"] is not None


def test_the_same_difference_with_every_seed_is_no_tie() -> None:
    best = best_methods(frame(a=[0.9, 0.8, 0.7], b=[0.8, 0.7, 0.6]), higher_is_better=True, asked=3)
    assert best == Best("a", ("a",), {"b": None})


def test_nobody_is_the_best() -> None:
    assert best_methods(frame(a=[math.nan]), higher_is_better=True, asked=1) == Best(None, (), {}, ("a",))
    assert best_methods(frame(), higher_is_better=True, asked=1) == Best(None, (), {})


def test_what_is_no_sample() -> None:
    twice = pd.concat([CLOSE, CLOSE.head(1)])
    with pytest.raises(ValueError, match="several values for one seed"):
        best_methods(twice, higher_is_better=True, asked=3)
    with pytest.raises(ValueError, match="At least one seed"):
        best_methods(CLOSE, higher_is_better=True, asked=0)


@given(st.integers(2, 4), st.integers(2, 5), st.integers(0, 10**6))
def test_the_best_is_always_together_with_itself(labels: int, seeds: int, seed: int) -> None:
    numbers = np.random.default_rng(seed).integers(80, 90, size=(labels, seeds)) / 100
    best = best_methods(
        frame(**{f"m{index}": list(row) for index, row in enumerate(numbers)}), higher_is_better=True, asked=seeds
    )
    assert best.best in best.together
    assert numbers[int(str(best.best)[1:])].mean() == pytest.approx(numbers.mean(axis=1).max())
    assert set(best.p_values) == {f"m{index}" for index in range(labels)} - {best.best}


def test_p_values_are_scipys_to_the_last_digit() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        values = random.normal(0.1, 10.0 ** random.integers(-4, 1), random.integers(2, 30))
        assert paired_p_value(values) == stats.ttest_1samp(values, 0.0).pvalue
