"""AUROC and FPR95 against scikit-learn, and by hand where all is tied."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from augbench.results.statistics.detection import auroc, false_positive_rate

few_values = st.lists(st.integers(0, 6), min_size=1, max_size=50)
numbers = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=50)


@given(st.one_of(st.tuples(few_values, few_values), st.tuples(numbers, numbers)))
def test_both_are_those_of_scikit_learn(scores: tuple[list[float], list[float]]) -> None:
    inside, outside = (np.array(values, dtype=float) for values in scores)
    is_inside = np.repeat([1, 0], [len(inside), len(outside)])
    together = np.concatenate((inside, outside))
    assert auroc(inside, outside) == pytest.approx(roc_auc_score(is_inside, together), abs=1e-12)
    false, true, _ = roc_curve(is_inside, together, drop_intermediate=False)
    assert false_positive_rate(inside, outside) == pytest.approx(false[np.argmax(true >= 0.95)], abs=1e-12)


@pytest.mark.parametrize("count", range(1, 400))
def test_95_percent_are_kept_and_not_one_more(count: int) -> None:
    inside = np.arange(count, dtype=float)
    # one other image at each score: as many are kept as of the data set
    kept = false_positive_rate(inside, inside) * count
    assert 100 * round(kept) >= 95 * count > 100 * (round(kept) - 1)


def test_what_is_apart_and_what_is_equal() -> None:
    low, high = np.array([0.1, 0.2]), np.array([0.3, 0.4, 0.5])
    assert (auroc(high, low), false_positive_rate(high, low)) == (1, 0)
    assert (auroc(low, high), false_positive_rate(low, high)) == (0, 1)
    assert (auroc(np.ones(3), np.ones(2)), false_positive_rate(np.ones(3), np.ones(2))) == (0.5, 1)
