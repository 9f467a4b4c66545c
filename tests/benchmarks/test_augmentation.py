"""What is compared with the shared space does the same."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import shared_space, to_unit_interval
from benchmarks import augmentation
from benchmarks.made_up import made_up_images

CPU = torch.device("cpu")
SHAPES = pytest.mark.parametrize(("size", "channels"), augmentation.SHAPES)


def smooth_images(count: int, channels: int, size: int) -> Tensor:
    """Blur made-up images, so that a place that is off by a rounding error changes little."""
    return F.avg_pool2d(made_up_images(count, channels, size + 4).float() / 255, 5, stride=1)


@SHAPES
def test_kornias_warp_with_our_matrices_gives_our_images(size: int, channels: int) -> None:
    space, source = shared_space(size), torch.Generator().manual_seed(1)
    draw = space.sample(200, torch.full((7,), 0.7), space.maxima(), source)
    images = smooth_images(200, channels, size)
    ours = space.apply(images, draw)
    theirs = augmentation.kornias_warp(space.crop(images, draw), space.inverse_matrices(draw))
    torch.testing.assert_close(theirs, ours, rtol=0, atol=2e-5)
    assert (ours - images).abs().mean() > 0.05, "nothing was transformed"


@SHAPES
def test_everybody_makes_float_images_of_the_same_size(size: int, channels: int) -> None:
    images = made_up_images(4, channels, size)
    contestants = augmentation.contestants(images, CPU)
    assert list(contestants) == [
        *("grid_sample", "shared space", "for the network"),
        *("scale", "scale under a base", "trivialaugment-wide", "trivialaugment-wide under a base"),
        *("kornia", "kornia's warp"),
        *("torchvision, tensors", "torchvision, PIL"),
    ]
    for name, entry in contestants.items():
        made = entry.run()
        assert isinstance(made, Tensor)
        assert (made.shape, made.dtype, made.device) == (images.shape, torch.float32, CPU), name
        assert name == "for the network" or (made.min() >= 0 and made.max() <= 1 + 1e-6), name
        assert not torch.equal(made, to_unit_interval(images)), name


def test_the_shared_space_is_timed_with_the_gradient_of_its_ranges() -> None:
    made = augmentation.by_shared_space(made_up_images(4, 1, 28), shared_space(28))()
    assert made.requires_grad
    assert not augmentation.bare_grid_sample(made_up_images(4, 1, 28), shared_space(28))().requires_grad


def test_everybody_draws_from_the_same_ranges() -> None:
    # How much of a white image is left says how it was shrunk, turned, sheared and cropped.
    white, space = torch.full((64, 1, 28, 28), 255, dtype=torch.uint8), shared_space(28)
    torch.manual_seed(0)
    assert left_of(augmentation.by_kornia(white, space), 20) == pytest.approx(expected(one_scale=False), abs=0.03)
    for pil in (False, True):
        by_torchvision = augmentation.by_torchvision(white, space, CPU, pil)
        assert left_of(by_torchvision, 4) == pytest.approx(expected(one_scale=True), abs=0.05)


def left_of(augment: augmentation.Images, calls: int) -> float:
    """Mean of what an augmentation leaves of white images."""
    return float(torch.stack([augment().mean() for _ in range(calls)]).mean())


def expected(one_scale: bool) -> float:
    """Estimate the same by our resampling of maps from the laws of the others: uniform factors and angles."""
    source, space, count = torch.Generator().manual_seed(2), shared_space(28), 4000
    draw = space.sample(count, torch.tensor([1.0] * 4 + [0.0, 0.5, 1.0]), space.maxima(), source)
    factors = torch.empty(count, 2).uniform_(0.5, 2, generator=source)
    angle = torch.empty(count).uniform_(-math.pi / 4, math.pi / 4, generator=source)
    magnitudes = draw.magnitudes.clone()
    magnitudes[:, 1:3] = (factors[:, :1].expand(-1, 2) if one_scale else factors).log()
    magnitudes[:, 3] = angle.tan()
    return float(space.apply(torch.ones(count, 1, 28, 28), replace(draw, magnitudes=magnitudes)).mean())
