"""RandAugment: N choices out of seven blocks and the identity for each image, at one strength with random signs."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from method_factories import make_method
from pydantic import ValidationError
from scipy import stats

from augbench.bench.augmentation.affine_space import Draw, shared_space
from augbench.methods.randaugment import RandAugment, RandAugmentHyperparameters

COUNT = 20_000


def _draws(seed: int, **settings: Any) -> Draw:
    return make_method(RandAugment, settings=settings).draw(COUNT, torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def draw() -> Draw:
    return _draws(seed=1)


def _subset_counts(draw: Draw, size: int) -> list[int]:
    """How often each set of `size` choices was drawn; the identity is choice 7."""
    identity = size - draw.active.sum(1)
    choices = torch.cat((draw.active, identity[:, None] == 1), dim=1).numpy()
    return [int(choices[:, list(chosen)].all(1).sum()) for chosen in combinations(range(8), size)]


def test_every_pair_of_different_choices_is_as_likely_as_any_other(draw: Draw) -> None:
    assert set(draw.active.sum(1).tolist()) == {1, 2}
    counts = _subset_counts(draw, 2)
    assert len(counts) == 28
    assert sum(counts) == COUNT
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("operations", [1, 2, 3, 7])
def test_an_image_misses_one_block_as_often_as_the_identity_is_chosen(operations: int) -> None:
    draw = _draws(seed=2, operations=operations)
    counts = _subset_counts(draw, operations)
    assert sum(counts) == COUNT
    assert stats.chisquare(counts).pvalue > 1e-3
    identity = int((draw.active.sum(1) == operations - 1).sum())
    assert stats.binomtest(identity, COUNT, operations / 8).pvalue > 1e-3


def test_eight_choices_are_all_blocks() -> None:
    assert _draws(seed=3, operations=8).active.all()


@pytest.mark.parametrize(("magnitude", "bins", "fraction"), [(9, 31, 0.3), (30, 31, 1.0), (0, 31, 0.0), (1, 5, 0.25)])
def test_strength_is_a_fixed_share_of_the_maximum(magnitude: int, bins: int, fraction: float) -> None:
    draw = _draws(seed=4, magnitude=magnitude, bins=bins)
    expected = (fraction * shared_space(14).maxima()).expand(COUNT, 4)
    torch.testing.assert_close(draw.magnitudes.abs(), expected)


def test_signs_of_the_four_continuous_blocks_are_fair_and_independent(draw: Draw) -> None:
    patterns = ((draw.magnitudes > 0).long() * torch.tensor([1, 2, 4, 8])).sum(1)
    assert stats.chisquare(np.bincount(patterns.numpy(), minlength=16)).pvalue > 1e-3


@pytest.mark.parametrize(("magnitude", "bins"), [(31, 31), (5, 5), (9, 2)])
def test_a_magnitude_beyond_the_last_bin_is_refused(magnitude: int, bins: int) -> None:
    with pytest.raises(ValidationError, match="one of the bins"):
        RandAugmentHyperparameters(magnitude=magnitude, bins=bins)
