"""RandAugment: N choices out of seven blocks and the identity for each image, at one strength with random signs."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from scipy import stats
from torch import Tensor

from augbench.bench.augmentation.affine_space import Draw, shared_space
from augbench.bench.contract.method import RunContext
from augbench.methods.randaugment import RandAugment, RandAugmentHyperparameters

COUNT = 20_000


def _randaugment(copies: int = 1, **hyperparameters: Any) -> RandAugment:
    context = RunContext(
        space=shared_space(14),
        channels=1,
        classes=10,
        train_size=100,
        epochs=10,
        baseline_copies=copies,
        device=torch.device("cpu"),
    )
    return RandAugment(RandAugmentHyperparameters(**hyperparameters), context)


def _images(count: int) -> Tensor:
    source = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, 1, 14, 14), dtype=torch.uint8, generator=source)


def _draws(seed: int, **hyperparameters: Any) -> Draw:
    return _randaugment(**hyperparameters).draw(COUNT, torch.Generator().manual_seed(seed))


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


def test_blocks_without_a_strength_draw_uniformly_from_their_support(draw: Draw) -> None:
    for block, coin in ((4, draw.half_turn), (5, draw.flip)):
        coins = coin[draw.active[:, block]]
        assert stats.binomtest(int(coins.sum()), len(coins), 0.5).pvalue > 1e-3
    places = draw.offsets[draw.active[:, 6]]
    counts = np.bincount((5 * places[:, 0] + places[:, 1]).numpy(), minlength=25)
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(("magnitude", "bins"), [(31, 31), (5, 5), (9, 2)])
def test_a_magnitude_beyond_the_last_bin_is_refused(magnitude: int, bins: int) -> None:
    with pytest.raises(ValidationError, match="one of the bins"):
        RandAugmentHyperparameters(magnitude=magnitude, bins=bins)


def test_images_are_transformed_by_the_draw_copy_by_copy() -> None:
    method, images = _randaugment(copies=3), _images(40)
    copies = method.augment(images, torch.Generator().manual_seed(5))
    assert copies.draw is not None
    assert len(copies.draw) == 120
    assert torch.equal(copies.images, method.context.space.apply(images.repeat(3, 1, 1, 1), copies.draw))


def test_the_identity_alone_leaves_an_image_as_it_is() -> None:
    method, images = _randaugment(operations=1), _images(200)
    copies = method.augment(images, torch.Generator().manual_seed(6))
    assert copies.draw is not None
    untouched = ~copies.draw.active.any(1)
    assert 5 < untouched.sum() < 60
    torch.testing.assert_close(copies.images[untouched], images[untouched].float() / 255, atol=1e-5, rtol=0)


def test_test_policy_and_transforms_draw_as_in_training() -> None:
    method, images = _randaugment(), _images(40)
    policy = method.test_policy()
    assert policy is not None
    copies = method.augment(images, torch.Generator().manual_seed(7))
    assert torch.equal(policy(images, torch.Generator().manual_seed(7)), copies.images)
    assert not torch.equal(policy(images, torch.Generator().manual_seed(8)), copies.images)
    assert copies.draw is not None
    matrices = method.sample_transforms(40, torch.Generator().manual_seed(7))
    assert torch.equal(matrices, method.context.space.matrices(copies.draw))
