"""Labels that cannot be numbers of classes."""

import numpy as np
import pytest

from augbench.bench.data.own.labels import whole_numbers_or_texts


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.array([2**63 + 5, 1], np.uint64), "such as 9223372036854775813"),
        (np.array([1e300, -1e300]), "such as 1e\\+300"),
        (np.array([1.0, np.nan]), "such as nan"),
        (np.array([0.5]), "such as 0.5"),
        (np.array(["a", "\ud800"]), "not valid Unicode"),
        (np.array([1j]), "of type complex128"),
    ],
)
def test_labels_that_are_refused(values: np.ndarray, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        whole_numbers_or_texts(values)


def test_the_largest_label() -> None:
    assert whole_numbers_or_texts(np.array([2**63 - 1], np.uint64)).tolist() == [2**63 - 1]
