"""Mean, standard deviation and n."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from augbench.results.statistics.summary import Summary, summarise


def test_the_divisor_is_n_minus_one() -> None:
    # 2, 4 and 9 are −3, −1 and 4 off their mean: (9 + 1 + 16) / 2 = 13
    assert summarise([2, 4, 9]) == Summary(5.0, math.sqrt(13), 3)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9))
def test_as_the_standard_library_has_it(values: list[float]) -> None:
    summary = summarise(values)
    assert summary.mean == pytest.approx(statistics.mean(values), abs=1e-9)
    assert summary.sd == pytest.approx(statistics.stdev(values), abs=1e-9)


def test_a_single_value_has_no_deviation() -> None:
    assert summarise([0.5]) == Summary(0.5, None, 1)


def test_nan_is_not_skipped() -> None:
    summary = summarise([0.5, math.nan, 0.7])
    assert math.isnan(summary.mean)
    assert summary.sd is not None
    assert math.isnan(summary.sd)
    assert summary.n == 3


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], 1.0])
def test_what_cannot_be_summarised(values: object) -> None:
    with pytest.raises(ValueError, match="at least one value"):
        summarise(values)  # type: ignore[arg-type]
