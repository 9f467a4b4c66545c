"""Average ranks, Friedman's and Nemenyi's tests: Demšar's (2006) example and table, and small cases by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from augbench.results.statistics.ranks import cliques, critical_difference, friedman_p_value, rank_methods

# Demšar's table 6: areas under the curve of four variants of a classifier on 14 data sets. In the row "voting" the
# third and fourth are printed alike but ranked 2 and 3, so a digit is added that was rounded away.
VARIANTS = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")
AREAS = {
    "adult": (0.763, 0.768, 0.771, 0.798),
    "breast cancer": (0.599, 0.591, 0.590, 0.569),
    "breast cancer wisconsin": (0.954, 0.971, 0.968, 0.967),
    "cmc": (0.628, 0.661, 0.654, 0.657),
    "ionosphere": (0.882, 0.888, 0.886, 0.898),
    "iris": (0.936, 0.931, 0.916, 0.931),
    "liver disorders": (0.661, 0.668, 0.609, 0.685),
    "lung cancer": (0.583, 0.583, 0.563, 0.625),
    "lymphography": (0.775, 0.838, 0.866, 0.875),
    "mushroom": (1.000, 1.000, 1.000, 1.000),
    "primary tumor": (0.940, 0.962, 0.965, 0.962),
    "rheum": (0.619, 0.666, 0.614, 0.669),
    "voting": (0.972, 0.981, 0.9751, 0.975),
    "wine": (0.957, 0.978, 0.946, 0.970),
}


def frame(values: dict[str, tuple[float, ...]], labels: tuple[str, ...]) -> pd.DataFrame:
    """A row for each data set and method."""
    rows = [
        (dataset, label, value) for dataset, row in values.items() for label, value in zip(labels, row, strict=True)
    ]
    return pd.DataFrame(rows, columns=["dataset", "label", "value"])


def test_the_ranks_of_the_example() -> None:
    ranks = rank_methods(frame(AREAS, VARIANTS), level=0.1)
    expected = {"C4.5+m+cf": 1.964, "C4.5+m": 2.000, "C4.5+cf": 2.893, "C4.5": 3.143}
    assert list(ranks.average) == list(expected)
    assert ranks.average == pytest.approx(expected, abs=5e-4)
    # the statistic is printed as 9.28, without the correction for ties
    assert 12 * 14 / (4 * 5) * (sum(rank**2 for rank in ranks.average.values()) - 4 * 5**2 / 4) == pytest.approx(
        9.28, abs=0.005
    )


def test_the_groups_of_the_example() -> None:
    ranks = rank_methods(frame(AREAS, VARIANTS), level=0.1)
    assert ranks.critical_difference == pytest.approx(1.12, abs=0.005)
    assert ranks.cliques == (("C4.5+m+cf", "C4.5+m", "C4.5+cf"), ("C4.5+cf", "C4.5"))
    # at 0.05 "the post-hoc test is not powerful enough to detect any significant differences"
    strict = rank_methods(frame(AREAS, VARIANTS), level=0.05)
    assert strict.p_value is not None
    assert strict.p_value < 0.05
    assert strict.critical_difference == pytest.approx(1.25, abs=0.005)
    assert strict.cliques == (("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"),)


@pytest.mark.parametrize(
    ("level", "table"),
    [
        (0.05, (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)),
        (0.10, (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920)),
    ],
)
def test_critical_values_of_the_table(level: float, table: tuple[float, ...]) -> None:
    for methods, value in enumerate(table, 2):
        of_one_dataset = math.sqrt(methods * (methods + 1) / 6)
        assert critical_difference(methods, 1, level) / of_one_dataset == pytest.approx(value, abs=1.1e-3)
        assert critical_difference(methods, 25, level) == pytest.approx(critical_difference(methods, 1, level) / 5)


def test_friedman_by_hand() -> None:
    # Rank sums 4, 8 and 12 on 4 data sets: 12 / (4 · 3 · 4) (16 + 64 + 144) − 3 · 4 · 4 = 8, and exp(−8 / 2) with two
    # degrees of freedom
    assert friedman_p_value(np.array([[1.0, 2.0, 3.0]] * 4)) == pytest.approx(math.exp(-4))


def test_friedman_with_ties_by_hand() -> None:
    # Ranks 1.5 1.5 3, 1 2 3, 1 2.5 2.5: sums 3.5, 6, 8.5, so 12 / (3 · 3 · 4) (12.25 + 36 + 72.25) − 3 · 3 · 4 = 25/6;
    # two ties of two: divided by 1 − 2 · (8 − 2) / (3 · (27 − 3)) = 5/6
    values = np.array([[1.0, 1.0, 2.0], [1.0, 2.0, 3.0], [1.0, 2.0, 2.0]])
    assert friedman_p_value(values) == pytest.approx(math.exp(-5 / 2))


def test_where_all_tie_nothing_stands_out() -> None:
    ranks = rank_methods(frame({"a": (1, 1, 1), "b": (2, 2, 2)}, ("x", "y", "z")))
    assert ranks.p_value == 1
    assert ranks.average == {"x": 2, "y": 2, "z": 2}
    assert ranks.cliques == (("x", "y", "z"),)


def test_who_is_missing_anywhere_is_left_out_everywhere() -> None:
    values = frame({"a": (0.9, 0.8, 0.7, 1.0), "b": (0.9, 0.8, 0.7, math.nan)}, ("x", "y", "z", "gone"))
    values = pd.concat([values, pd.DataFrame([{"dataset": "b", "label": "late", "value": 1.0}])])
    ranks = rank_methods(values)
    assert ranks.average == {"x": 1, "y": 2, "z": 3}
    assert ranks.left_out == {"gone": ("b",), "late": ("a",)}
    assert ranks.datasets == 2


def test_errors_rank_the_other_way_round() -> None:
    values = frame({"a": (0.1, 0.2, 0.3), "b": (0.1, 0.3, 0.2)}, ("x", "y", "z"))
    assert rank_methods(values, higher_is_better=False).average == {"x": 1, "y": 2.5, "z": 2.5}
    assert rank_methods(values).average == {"y": 1.5, "z": 1.5, "x": 3}


@pytest.mark.parametrize(
    "values",
    [
        frame({}, ("x",)),
        frame({"a": (1, 2, 3)}, ("x", "y", "z")),
        frame({"a": (1, 2), "b": (1, 2)}, ("x", "y")),
        frame({"a": (math.nan,) * 3, "b": (1, 2, 3)}, ("x", "y", "z")),
    ],
)
def test_too_few_for_a_test(values: pd.DataFrame) -> None:
    ranks = rank_methods(values)
    assert (ranks.p_value, ranks.critical_difference, ranks.cliques) == (None, None, ())


def test_a_method_counts_once_on_a_data_set() -> None:
    with pytest.raises(ValueError, match="several values"):
        rank_methods(pd.concat([frame({"a": (1, 2, 3)}, ("x", "y", "z"))] * 2))


def test_cliques_by_hand() -> None:
    average = {"a": 1.0, "b": 1.5, "c": 2.5, "d": 4.0, "e": 4.2}
    assert cliques(average, 1.2) == (("a", "b"), ("b", "c"), ("d", "e"))
    assert cliques(average, 2.5) == (("a", "b", "c"), ("c", "d", "e"))
    assert cliques(average, 0.1) == ()
    assert cliques(average, 9) == (("a", "b", "c", "d", "e"),)
    assert cliques({"a": 1, "b": 2}, 1) == (), "a difference as large as the critical one is significant"


@given(st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=2, max_size=6))
def test_ranks_add_up_and_cliques_are_what_they_say(rows: list[list[int]]) -> None:
    labels = ("a", "b", "c", "d")
    ranks = rank_methods(frame({str(index): tuple(row) for index, row in enumerate(rows)}, labels))
    assert sum(ranks.average.values()) == pytest.approx(4 * 5 / 2)
    joined = {pair for clique in ranks.cliques for pair in ((x, y) for x in clique for y in clique if x != y)}
    assert ranks.p_value is not None
    assert ranks.critical_difference is not None
    limit = ranks.critical_difference if ranks.p_value <= 0.05 else math.inf
    expected = {(x, y) for x in labels for y in labels if x != y and abs(ranks.average[x] - ranks.average[y]) < limit}
    assert joined == expected
