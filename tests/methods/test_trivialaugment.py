"""TrivialAugment: one block or none for each image, uniform over blocks, strengths and signs."""

from typing import Any

import numpy as np
import pytest
import torch
from method_factories import make_method, seeded
from scipy import stats
from torch import Tensor

from augbench.bench.augmentation.affine_space import Draw, shared_space
from augbench.methods.trivialaugment import TrivialAugment

COUNT = 20_000


def _draws(seed: int, **settings: Any) -> Draw:
    draw = make_method(TrivialAugment, settings=settings).draw(COUNT, seeded(seed))
    return draw


@pytest.fixture(scope="module")
def draw() -> Draw:
    return _draws(seed=1)


def _active_levels(draw: Draw, block: int, steps: int) -> Tensor:
    """Signed strengths of the draws that use a continuous block, as multiples of its maximum over `steps`."""
    maximum = shared_space(14).maxima()[block]
    return draw.magnitudes[draw.active[:, block], block] / maximum * steps


def test_each_image_gets_one_block_or_none_uniformly_over_eight_choices(draw: Draw) -> None:
    used = draw.active.sum(1)
    assert used.max() == 1
    counts = [*draw.active.sum(0).tolist(), int((used == 0).sum())]
    assert sum(counts) == COUNT
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("block", range(4))
def test_strengths_are_uniform_over_31_levels_and_both_signs(draw: Draw, block: int) -> None:
    levels = _active_levels(draw, block, steps=30)
    torch.testing.assert_close(levels, levels.round(), atol=1e-4, rtol=0)
    counts = np.bincount(levels.round().abs().long().numpy())
    assert len(counts) == 31
    assert stats.chisquare(counts).pvalue > 1e-3
    moved = levels[levels.abs() > 0.5]
    assert stats.binomtest(int((moved > 0).sum()), len(moved), 0.5).pvalue > 1e-3
    assert levels.round().unique().tolist() == list(range(-30, 31))


def test_number_of_levels_can_be_changed() -> None:
    levels = _active_levels(_draws(seed=2, levels=3), block=0, steps=2)
    torch.testing.assert_close(levels.unique(), torch.arange(-2.0, 3.0))
