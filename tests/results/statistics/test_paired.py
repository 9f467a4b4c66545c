"""Paired t-tests, Holm's correction, and which methods none is shown to beat."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from augbench.results.statistics.paired import (
    Best,
    best_methods,
    by_seed,
    compare_family,
    holm,
    paired_differences,
    paired_p_values,
)


def with_two_degrees(t: float) -> float:
    """Two-sided p-value of Student's law with two degrees of freedom, which has a closed form."""
    return 1 - t / math.sqrt(t**2 + 2)


def frame(**values: list[float]) -> pd.DataFrame:
    """A row for each label and value; seeds count from 0."""
    rows = [(label, seed, value) for label, of_label in values.items() for seed, value in enumerate(of_label)]
    return pd.DataFrame(rows, columns=["label", "seed", "value"])


def test_p_values_by_hand() -> None:
    # mean 2, deviation 1, t = 2 √3 with two degrees of freedom
    expected = with_two_degrees(2 * math.sqrt(3))
    assert paired_p_values([[1, 2, 3], [-1, -2, -3]]) == pytest.approx((expected, expected))


@given(st.lists(st.lists(st.floats(-1, 1), min_size=5, max_size=5), max_size=4), st.integers(0, 2))
def test_p_values_as_scipy_has_them(rows: list[list[float]], missing: int) -> None:
    """Row by row, of the seeds that are known."""
    values = np.array(rows).round(4).reshape(len(rows), 5)
    values[:, :missing] = math.nan
    for row, found in zip(values[:, missing:], paired_p_values(values), strict=True):
        if np.ptp(row) > 0:
            assert found == pytest.approx(stats.ttest_1samp(row, 0).pvalue, rel=1e-9)


def test_without_any_spread() -> None:
    assert paired_p_values([[0, 0, 0], [0.25, 0.25, 0.25]]) == (1, None)
    assert paired_p_values([[0.9 - 0.8, 0.7 - 0.6, 0.5 - 0.4]]) == (None,), "they differ by a rounding error"


def test_fewer_than_three_seeds_are_not_tested() -> None:
    nan = math.nan
    assert paired_p_values([[0.01, 0.0101, nan], [0.1, nan, nan], [nan, nan, nan], [0, 0, nan]]) == (None,) * 4
    assert paired_p_values([[], []]) == (None, None)
    assert paired_p_values(np.empty((0, 3))) == ()


@pytest.mark.parametrize("differences", [[[0.1, math.inf, 0.2]], [0.1, 0.2, 0.3]])
def test_what_cannot_be_tested(differences: list[float]) -> None:
    with pytest.raises(ValueError, match="finite differences"):
        paired_p_values(differences)


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


def test_what_cannot_be_tested_counts_as_a_member_of_the_family() -> None:
    assert holm([0.02, None, 0.01]) == pytest.approx((0.04, None, 0.03))
    assert holm([None]) == (None,)


@pytest.mark.parametrize("p_values", [[0.1, math.nan], [1.1], [-0.1]])
def test_what_are_no_p_values(p_values: list[float]) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm(p_values)


def test_differences_over_common_seeds() -> None:
    values = frame(scale=[0.9, 0.8, 0.7, math.nan], none=[0.5, math.nan, 0.6, 0.1])
    assert paired_differences(by_seed(values), "scale", "none").to_dict() == {0: 0.4, 2: 0.1}


CLOSE = frame(none=[0.87, 0.881, 0.889], fixed=[0.9, 0.91, 0.92], scale=[0.9, 0.92, 0.91])


def together(level: float = 0.05, **values: list[float]) -> tuple[str, ...]:
    """Methods with all seeds that none is shown to beat."""
    asked = max(map(len, values.values()))
    return best_methods(frame(**values), higher_is_better=True, asked=asked, level=level).together


def test_the_best_by_hand() -> None:
    best = best_methods(CLOSE, higher_is_better=True, asked=3)
    # none is 0.030, 0.029 and 0.031 behind fixed: t = 0.03 √3 / 0.001, the smallest of three p-values;
    # 0.030, 0.039 and 0.021 behind scale: t = 0.03 √3 / 0.009, the next; fixed and scale: 0, −0.01 and 0.01, t = 0
    first, second = with_two_degrees(30 * math.sqrt(3)), with_two_degrees(0.03 * math.sqrt(3) / 0.009)
    assert (best.best, best.together, best.left_out) == ("fixed", ("fixed", "scale"), ())
    expected = {("none", "fixed"): 3 * first, ("none", "scale"): 2 * second, ("fixed", "scale"): 1.0}
    assert best.p_values == pytest.approx(expected)


def test_the_smallest_is_best_where_it_is_an_error() -> None:
    best = best_methods(CLOSE, higher_is_better=False, asked=3)
    assert (best.best, best.together) == ("none", ("none", "scale"))


def test_the_order_decides_nothing() -> None:
    """Of two methods with the same mean only one is shown to beat the third, no matter which comes first."""
    backwards = best_methods(CLOSE.iloc[::-1], higher_is_better=True, asked=3)
    assert (backwards.best, backwards.together) == ("scale", ("scale", "fixed"))


def test_the_family_is_all_pairs() -> None:
    # c is 0.01, 0.016 and 0.02 behind a: p = 0.034 alone, and three times that with b
    three = {"a": [0.9, 0.9, 0.9], "b": [0.89, 0.9, 0.91], "c": [0.89, 0.884, 0.88]}
    alone = stats.ttest_1samp([0.01, 0.016, 0.02], 0).pvalue
    assert together(a=three["a"], c=three["c"]) == ("a",)
    assert together(**three) == ("a", "b", "c")
    p_values = best_methods(frame(**three), higher_is_better=True, asked=3).p_values
    assert p_values["a", "c"] == pytest.approx(3 * alone)
    assert len(p_values) == 3


def test_whoever_is_beaten_by_another_than_the_best_is_not_together_with_it() -> None:
    """The best mean scatters too much to show anything; the next one is 0.1 ahead of the last with hardly any."""
    values = {"best": [0.5, 0.99, 0.98], "next": [0.8, 0.81, 0.82], "last": [0.7, 0.7101, 0.7199]}
    assert together(**values) == ("best", "next")


def test_too_few_seeds_single_out_nobody() -> None:
    first, second = [0.9500, 0.9640, 0.957], [0.9562, 0.9576, 0.9569]
    assert together(scale=first[:1], augerino=second[:1]) == ()
    assert together(scale=first[:2], augerino=second[:2]) == ()
    assert together(scale=first, augerino=second) == ("scale", "augerino")


def test_the_same_difference_with_every_seed_is_not_tested() -> None:
    ahead, behind = [0.901, 0.911, 0.906], [0.900, 0.910, 0.905]
    assert together(a=ahead, b=behind) == ()
    # of three methods the pair that cannot be tested excludes neither, and counts in the family
    worse = [0.7, 0.7101, 0.7052]
    assert together(a=ahead, b=behind, c=worse) == ("a", "b")
    assert best_methods(frame(a=ahead, b=behind, c=worse), higher_is_better=True, asked=3).p_values["a", "b"] is None


def test_equal_values_share_every_place() -> None:
    assert together(a=[0.9, 0.8, 0.7], b=[0.1 * 9, 0.8, 0.7]) == ("a", "b")
    assert together(a=[0.9, 0.8, 0.7], b=[0.9, 0.8, 0.7], c=[0.5, 0.4, 0.301]) == ("a", "b")


def test_who_lacks_a_seed_or_a_number_is_not_ranked() -> None:
    values = frame(none=[0.8, 0.7, 0.8], scale=[0.99, 0.99], fixed=[0.99, math.nan, 0.99])
    best = best_methods(values, higher_is_better=True, asked=3)
    assert best == Best("none", (), {}, ("scale", "fixed")), "a single method is compared with nobody"


def test_nobody_is_the_best() -> None:
    assert best_methods(frame(a=[math.nan]), higher_is_better=True, asked=1) == Best(None, (), {}, ("a",))
    assert best_methods(frame(), higher_is_better=True, asked=1) == Best(None, (), {})


def test_what_is_no_sample() -> None:
    twice = pd.concat([CLOSE, CLOSE.head(1)])
    with pytest.raises(ValueError, match="several values for one seed"):
        best_methods(twice, higher_is_better=True, asked=3)
    with pytest.raises(ValueError, match="At least one seed"):
        best_methods(CLOSE, higher_is_better=True, asked=0)


@given(st.integers(2, 5), st.integers(3, 5), st.integers(0, 10**6))
def test_the_best_is_never_beaten_and_rows_come_in_any_order(labels: int, seeds: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = frame(
        **{f"m{index}": list(row) for index, row in enumerate(random.integers(80, 84, (labels, seeds)) / 100)}
    )
    best = best_methods(values, higher_is_better=True, asked=seeds, level=0.5)
    highest = values.groupby("label")["value"].mean().max()
    tied = [label for label, mean in values.groupby("label")["value"].mean().items() if mean == pytest.approx(highest)]
    assert best.best in tied
    assert not best.together or set(tied) <= set(best.together)
    shuffled = best_methods(values.sample(frac=1, random_state=seed), higher_is_better=True, asked=seeds, level=0.5)
    assert set(shuffled.together) == set(best.together)


@pytest.mark.parametrize(("methods", "seeds"), [(2, 3), (15, 3), (15, 10)])
def test_equal_methods_are_told_apart_in_five_percent_of_cases_at_most(methods: int, seeds: int) -> None:
    """Also those that are looked at for their best mean; three standard errors above 5 % are left to chance."""
    random, trials, labels = np.random.default_rng(0), 400, [f"m{index}" for index in range(methods)]
    wrong = 0
    for _ in range(trials):
        lucky = random.normal(size=(seeds, 1))  # some seeds are good for all
        wide = pd.DataFrame(lucky + random.normal(size=(seeds, methods)), columns=labels)
        tests = compare_family(wide, list(combinations(labels, 2)))
        wrong += min(test.p_adjusted or 0 for test in tests.values()) <= 0.05
    assert wrong / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


def test_a_family_over_common_seeds() -> None:
    wide = by_seed(frame(a=[0.9, 0.8, 0.7, 0.5], b=[0.5, 0.6, 0.6, math.nan], c=[0.1, math.nan]))
    tests = compare_family(wide, [("a", "b"), ("c", "b")])
    assert tests["a", "b"].difference == pytest.approx(0.7 / 3)
    alone = stats.ttest_1samp([0.4, 0.2, 0.1], 0).pvalue
    assert (tests["a", "b"].p_value, tests["a", "b"].p_adjusted) == pytest.approx((alone, 2 * alone))
    assert tests["c", "b"].difference == pytest.approx(-0.4)
    assert tests["c", "b"].p_value is None
