"""TrivialAugment: one block or none for each image, uniform over blocks, strengths and signs."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from augbench.bench.augmentation.affine_space import Draw, shared_space
from augbench.bench.contract.method import RunContext
from augbench.methods.trivialaugment import TrivialAugment, TrivialAugmentHyperparameters

COUNT = 20_000


def _trivialaugment(copies: int = 1, **hyperparameters: Any) -> TrivialAugment:
    context = RunContext(
        space=shared_space(14),
        channels=1,
        classes=10,
        train_size=100,
        epochs=10,
        baseline_copies=copies,
        device=torch.device("cpu"),
    )
    return TrivialAugment(TrivialAugmentHyperparameters(**hyperparameters), context)


def _images(count: int) -> Tensor:
    source = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, 1, 14, 14), dtype=torch.uint8, generator=source)


def _draws(seed: int, **hyperparameters: Any) -> Draw:
    draw = _trivialaugment(**hyperparameters).augment(_images(COUNT), torch.Generator().manual_seed(seed)).draw
    assert draw is not None
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


def test_blocks_without_a_strength_draw_uniformly_from_their_support(draw: Draw) -> None:
    for block, coin in ((4, draw.half_turn), (5, draw.flip)):
        coins = coin[draw.active[:, block]]
        assert stats.binomtest(int(coins.sum()), len(coins), 0.5).pvalue > 1e-3
    places = draw.offsets[draw.active[:, 6]]
    counts = np.bincount((5 * places[:, 0] + places[:, 1]).numpy())
    assert len(counts) == 25
    assert stats.chisquare(counts).pvalue > 1e-3


def test_images_are_transformed_by_the_draw_copy_by_copy() -> None:
    method, images = _trivialaugment(copies=3), _images(40)
    copies = method.augment(images, torch.Generator().manual_seed(3))
    assert copies.draw is not None
    assert torch.equal(copies.images, method.context.space.apply(images.repeat(3, 1, 1, 1), copies.draw))
    untouched = ~copies.draw.active.any(1)
    assert 0 < untouched.sum() < 120
    plain = images.repeat(3, 1, 1, 1)[untouched].float() / 255
    torch.testing.assert_close(copies.images[untouched], plain, atol=1e-5, rtol=0)


def test_test_policy_draws_as_in_training() -> None:
    method, images = _trivialaugment(), _images(40)
    policy = method.test_policy()
    in_training = method.augment(images, torch.Generator().manual_seed(4)).images
    assert torch.equal(policy(images, torch.Generator().manual_seed(4)), in_training)
    assert not torch.equal(policy(images, torch.Generator().manual_seed(5)), in_training)
