"""The two baselines: images as they are, and images cropped and mirrored."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from method_factories import make_method, some_images
from scipy import stats
from torch import Tensor
from torchvision.transforms import functional as vision

from augbench.bench.contract.method import Hyperparameters, Method
from augbench.methods.fixed import FixedAugmentation
from augbench.methods.none import NoAugmentation

SIZE = 28


def _shifted_and_mirrored(image: Tensor) -> Tensor:
    """All 81 crops of an image (C, H, W), then the same of its mirror images; (162, C, H, W) in [0, 1]."""
    padded = vision.pad(image, [4])
    crops = [vision.crop(padded, row, column, SIZE, SIZE) for row, column in itertools.product(range(9), repeat=2)]
    return torch.stack([*crops, *map(vision.hflip, crops)]).double() / 255


def _choices(outputs: Tensor, image: Tensor) -> Tensor:
    """Index of the one possibility that each output equals."""
    distances = torch.cdist(outputs.double().flatten(1), _shifted_and_mirrored(image).flatten(1), p=2)
    nearest, index = distances.min(1)
    assert nearest.max() < 1e-3
    assert (distances < 1).sum() == len(outputs)
    return index


@pytest.mark.parametrize("copies", [1, 3])
def test_no_augmentation_repeats_the_images_copy_by_copy(copies: int) -> None:
    images = some_images(5, 3, SIZE)
    out = make_method(NoAugmentation, side=SIZE, copies=copies).augment(images, torch.Generator().manual_seed(1))
    assert torch.equal(out.images, torch.cat([images.float() / 255] * copies))
    assert out.draw is None


def test_fixed_augmentation_only_moves_whole_pixels_uniformly_over_81_shifts_and_two_mirrors() -> None:
    image, count = some_images(1, side=SIZE), 4000
    out = make_method(FixedAugmentation, side=SIZE).augment(
        image.expand(count, 1, SIZE, SIZE), torch.Generator().manual_seed(2)
    )
    counts = np.bincount(_choices(out.images, image[0]).numpy(), minlength=162)
    assert len(counts) == 162
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("kind", [NoAugmentation, FixedAugmentation])
def test_baselines_learn_nothing_and_have_no_policy_for_test_time(kind: type[Method[Hyperparameters]]) -> None:
    method = make_method(kind, side=SIZE)
    assert method.test_policy() is None
    assert method.regulariser() is None
    assert method.learned() == {}
    assert method.state_dict() == {"learnable": {}, "optimizers": {}}


def test_loss_of_each_copy_is_its_cross_entropy() -> None:
    logits = torch.randn(3, 4, 10, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    labels = torch.tensor([1, 0, 9, 4])
    expected = -logits.softmax(2)[:, torch.arange(4), labels].log()
    method = make_method(NoAugmentation, side=SIZE, copies=3)
    torch.testing.assert_close(method.loss(logits, labels), expected)
    method.context = replace(method.context, label_smoothing=0.3)
    smoothed = 0.7 * expected - 0.3 * logits.log_softmax(2).mean(2)
    torch.testing.assert_close(method.loss(logits, labels), smoothed)
