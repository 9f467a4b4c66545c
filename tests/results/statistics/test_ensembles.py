"""Members of ensembles, and the disagreement of networks."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from augbench.results.statistics.ensembles import disagreement, sizes_of, subsets


@pytest.mark.parametrize(("seeds", "sizes"), [(1, ()), (2, (2,)), (3, (2, 3)), (4, (2, 4)), (5, (2, 4, 5))])
def test_sizes(seeds: int, sizes: tuple[int, ...]) -> None:
    assert sizes_of(seeds) == sizes


def test_all_subsets_or_as_many_different_ones_as_asked_for() -> None:
    assert subsets(4, 2) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert subsets(3, 1) == [(0,), (1,), (2,)]
    assert len(subsets(10, 2)) == 45
    drawn = subsets(10, 4)
    assert len(drawn) == len(set(drawn)) == 50 and set(drawn) < set(combinations(range(10), 4))
    assert drawn == subsets(10, 4) != subsets(10, 4, seed=1)
    assert {member for one in drawn for member in one} == set(range(10))


@pytest.mark.parametrize("size", [0, 4])
def test_sizes_that_there_are_not(size: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 3"):
        subsets(3, size)


def test_disagreement_is_the_mean_over_pairs() -> None:
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), size=(3, 50))
    found = probabilities.argmax(axis=2)
    expected = np.mean([1 - accuracy_score(found[one], found[two]) for one, two in ((0, 1), (0, 2), (1, 2))])
    assert disagreement(probabilities) == pytest.approx(expected)
    assert disagreement(probabilities[[0, 0]]) == 0
    with pytest.raises(ValueError, match="cannot"):
        disagreement(probabilities[:1])
