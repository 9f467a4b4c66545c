"""What is compared with the shared space does the same."""

import math
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import resample, shared_space, to_unit_interval
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
def test_fuse_augmentations_makes_our_images_and_draws_from_our_ranges(size: int, channels: int) -> None:
    pytest.importorskip("fuse_augmentations")
    space, images = shared_space(size), smooth_images(1000, channels, size)
    torch.manual_seed(0)
    theirs, maps = augmentation.fused_transforms(space)(images, return_matrix=True)
    middle = torch.eye(3, dtype=torch.float64)
    middle[:2, 2] = (size - 1) / 2
    maps = torch.linalg.inv(middle) @ maps.double() @ middle
    torch.testing.assert_close(theirs, by_our_resampling(images, maps), rtol=0, atol=2e-4)
    linear = maps[:, :2, :2]  # mirror · shear · scales · turn
    y_scale, shear, x_scale = triangular((linear @ linear.mT).flip(1, 2))
    mirrored = linear.det() < 0
    mirror = torch.where(mirrored, -1, 1)
    assert_drawn_from(x_scale, 0.5, 1.25, 2)
    assert_drawn_from(y_scale, 0.5, 1.25, 2)
    assert_drawn_from((shear * mirror).atan(), -math.pi / 4, 0, math.pi / 4)
    assert_drawn_from(torch.atan2(linear[:, 1, 0], linear[:, 1, 1]), -math.pi, 0, math.pi)
    assert mirrored.double().mean() == pytest.approx(0.5, abs=0.05)
    assert_drawn_from(maps[:, 0, 2] * mirror, -space.padding, 0, space.padding)
    assert_drawn_from(maps[:, 1, 2], -space.padding, 0, space.padding)


@SHAPES
def test_torchtransform_makes_our_images_and_draws_from_our_ranges(size: int, channels: int) -> None:
    tt = pytest.importorskip("torchtransform")
    space, images = shared_space(size), smooth_images(1000, channels, size)
    torch.manual_seed(0)
    theirs, drawn = augmentation.torchtransforms(space)(tt.Image(images, antialias=False), replay=True)
    (steps,) = drawn.segments  # one resampling
    maps = torch.eye(3, dtype=torch.float64)
    for step in steps:
        maps = step.matrices @ maps
    torch.testing.assert_close(theirs, by_our_resampling(images, maps), rtol=0, atol=2e-4)
    linear = maps[:, :2, :2]  # turn · scales · shear · mirror
    x_scale, shear, y_scale = triangular(linear.mT @ linear)
    mirrored = linear.det() < 0
    mirror = torch.where(mirrored, -1, 1)
    assert_drawn_from(x_scale.log(), -math.log(2), 0, math.log(2))
    assert_drawn_from(y_scale.log(), -math.log(2), 0, math.log(2))
    assert_drawn_from((shear * mirror).atan(), -math.pi / 4, 0, math.pi / 4)
    assert_drawn_from(torch.atan2(linear[:, 1, 0] * mirror, linear[:, 0, 0] * mirror), -math.pi, 0, math.pi)
    assert mirrored.double().mean() == pytest.approx(0.5, abs=0.05)
    shifts = torch.linalg.solve(linear, maps[:, :2, 2])
    assert shifts.round().unique().tolist() == list(range(-space.padding, space.padding + 1))
    torch.testing.assert_close(shifts, shifts.round())


def by_our_resampling(images: Tensor, maps: Tensor) -> Tensor:
    """Resample along affine maps of pixels about the middle of the image, from input to output; (N, 3, 3)."""
    inverse = torch.linalg.inv(maps)[:, :2]
    inverse[:, :, 2] *= 2 / images.shape[-1]
    return resample(images, inverse.float())


def triangular(gram: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return s, k and t of UᵀU with U = diag(s, t)·[[1, k], [0, 1]]; gram is (N, 2, 2)."""
    shear = gram[:, 0, 1] / gram[:, 0, 0]
    return gram[:, 0, 0].sqrt(), shear, (gram[:, 1, 1] - gram[:, 0, 1] * shear).sqrt()


def assert_drawn_from(values: Tensor, low: float, mean: float, high: float) -> None:
    found = [float(each) for each in (values.min(), values.mean(), values.max())]
    assert found == pytest.approx([low, mean, high], abs=0.03 * (high - low))
    assert low - 1e-5 <= found[0]
    assert found[2] <= high + 1e-5


@SHAPES
def test_everybody_makes_float_images_of_the_same_size(size: int, channels: int) -> None:
    images = made_up_images(4, channels, size)
    contestants = augmentation.contestants(images, CPU)
    assert list(contestants) == [
        *("grid_sample", "shared space", "for the network"),
        *("scale", "scale under a base", "trivialaugment-wide", "trivialaugment-wide under a base"),
        *("kornia", "kornia's warp"),
        *(name for name in ("fuse-augmentations", "torchtransform") if find_spec(name.replace("-", "_"))),
        *("torchvision, tensors", "torchvision, PIL"),
    ]
    for name, entry in contestants.items():
        made = entry.run()
        assert isinstance(made, Tensor)
        assert (made.shape, made.dtype, made.device) == (images.shape, torch.float32, CPU), name
        assert name == "for the network" or (made.min() >= 0 and made.max() <= 1 + 1e-6), name
        assert not torch.equal(made, to_unit_interval(images)), name


def test_libraries_that_are_missing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kornia", "fuse_augmentations", "torchtransform"):
        monkeypatch.setitem(sys.modules, name, None)
    found = augmentation.contestants(made_up_images(4, 1, 28), CPU)
    assert not {"kornia", "kornia's warp", "fuse-augmentations", "torchtransform"} & set(found)


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
