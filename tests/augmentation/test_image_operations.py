"""The image-operation space: operations against torchvision image by image, their gradients, and whole batches."""

import math
from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as vision

from augbench.bench.augmentation.image_operations import (
    ENHANCING,
    GEOMETRIC,
    MAGNITUDES,
    OPERATIONS,
    ImageSpace,
    _Piece,
    inverse_matrices,
)
from augbench.bench.common.errors import UserError

Reference = Callable[[Tensor, float], Any]
COUNT = 60

RANGES = {
    **dict.fromkeys(("ShearX", "ShearY"), (-0.99, 0.99)),
    **dict.fromkeys(("TranslateX", "TranslateY"), (-1.0, 1.0)),
    "Rotate": (-180.0, 180.0),
    **dict.fromkeys(ENHANCING, (0.0, 2.0)),
    "Posterize": (1.0, 8.0),
    **dict.fromkeys(("Solarize", "Cutout"), (0.0, 1.0)),
}

REFERENCES: dict[str, Reference] = {
    "ShearX": lambda image, value: vision.affine(image, 0.0, [0, 0], 1.0, [_degrees(value), 0.0], center=[0, 0]),
    "ShearY": lambda image, value: vision.affine(image, 0.0, [0, 0], 1.0, [0.0, _degrees(value)], center=[0, 0]),
    "TranslateX": lambda image, value: vision.affine(image, 0.0, [_pixels(image, value), 0], 1.0, [0.0, 0.0]),
    "TranslateY": lambda image, value: vision.affine(image, 0.0, [0, _pixels(image, value)], 1.0, [0.0, 0.0]),
    "Rotate": vision.rotate,
    "Brightness": vision.adjust_brightness,
    "Color": vision.adjust_saturation,
    "Contrast": vision.adjust_contrast,
    "Sharpness": vision.adjust_sharpness,
    "Posterize": lambda image, value: vision.posterize(image, int(value)),
    "Solarize": lambda image, value: vision.solarize(image, value * (255 if image.dtype == torch.uint8 else 1)),
    "AutoContrast": lambda image, _: vision.autocontrast(image),
    "Equalize": lambda image, _: vision.equalize(image),
    "Invert": lambda image, _: vision.invert(image),
}


def _degrees(tangent: float) -> float:
    return math.degrees(math.atan(tangent))


def _pixels(image: Tensor, fraction: float) -> int:
    return round(fraction * image.shape[-1])


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _images(channels: int, size: int = 32, count: int = COUNT) -> Tensor:
    """Noise, of which every other image has a narrow range of grey levels and every fifth a single one."""
    images = torch.randint(256, (count, channels, size, size), dtype=torch.uint8, generator=_generator(channels))
    images[::2] = images[::2] // 4 + 90
    images[::5] = images[::5, :, :1, :1]
    return images


def _magnitudes(name: str, size: int = 32, count: int = COUNT) -> Tensor:
    """Random strengths; those that torchvision takes as whole numbers are whole."""
    low, high = RANGES.get(name, (0.0, 0.0))
    values = low + (high - low) * torch.rand(count, generator=_generator(7))
    if name == "Posterize":
        return values.round()
    return (values * size).round() / size if name.startswith("Translate") else values


def _apply(name: str, images: Tensor, magnitudes: Tensor | float, space: ImageSpace | None = None) -> Tensor:
    count = len(images)
    magnitudes = magnitudes if isinstance(magnitudes, Tensor) else torch.full((count,), magnitudes)
    space = space or ImageSpace(images.shape[-1])
    return space.apply(images, torch.full((count,), OPERATIONS.index(name)), magnitudes, _generator())


def _one_by_one(name: str, images: Tensor, magnitudes: Tensor) -> Tensor:
    pairs = zip(images, magnitudes.tolist(), strict=True)
    return torch.stack([REFERENCES[name](image, value) for image, value in pairs])


# Against torchvision, image by image


@pytest.mark.parametrize(("channels", "size"), [(3, 32), (1, 28)])
@pytest.mark.parametrize("name", GEOMETRIC)
def test_geometric_operations_move_the_pixels_that_torchvision_moves(name: str, channels: int, size: int) -> None:
    images, magnitudes = _images(channels, size), _magnitudes(name, size)
    found = _apply(name, images, magnitudes) * 255
    equal = (found - _one_by_one(name, images, magnitudes)).abs() < 1e-3
    # where a pixel lies half-way between two others, rounding in the grid decides: at most one in a hundred
    assert equal.float().mean((1, 2, 3)).min() >= 0.99


@pytest.mark.parametrize("quarters", [-1, 1, 2])
def test_quarter_turns_equal_those_of_torchvision(quarters: int) -> None:
    images = _images(3)
    assert torch.equal(_apply("Rotate", images, 90.0 * quarters) * 255, vision.rotate(images, 90.0 * quarters).float())


@pytest.mark.parametrize("name", GEOMETRIC)
def test_bilinear_geometric_operations_equal_torchvision_on_floats(name: str) -> None:
    images, magnitudes = _images(3).double() / 255, _magnitudes(name).double()
    found = _apply(name, images, magnitudes, ImageSpace(32, "bilinear"))
    bilinear, expected = InterpolationMode.BILINEAR, []
    for image, value in zip(images, magnitudes.tolist(), strict=True):
        shear = [_degrees(value) * (name == "ShearX"), _degrees(value) * (name == "ShearY")]
        shift = [_pixels(image, value) * (name == "TranslateX"), _pixels(image, value) * (name == "TranslateY")]
        turned = vision.rotate(image, value, bilinear)
        moved = vision.affine(image, 0.0, shift, 1.0, shear, bilinear, center=[0, 0])
        expected.append(turned if name == "Rotate" else moved)
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-5, rtol=0)


# torchvision cuts a result off to a whole level, and where the degenerate image was rounded too, it may be off by two
LEVELS_APART = {
    "Brightness": 1.001,
    **dict.fromkeys(("Color", "Contrast", "Sharpness"), 2.001),
    "AutoContrast": 1.001,
    **dict.fromkeys(("Posterize", "Solarize", "Equalize", "Invert"), 1e-3),
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", LEVELS_APART)
def test_pixel_operations_equal_torchvision_on_bytes_up_to_its_rounding(name: str, channels: int) -> None:
    images, magnitudes = _images(channels), _magnitudes(name)
    found = _apply(name, images, magnitudes) * 255
    expected = _one_by_one(name, images, magnitudes).float()
    torch.testing.assert_close(found, expected, atol=LEVELS_APART[name], rtol=0)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", [*ENHANCING, "Solarize", "AutoContrast", "Invert"])
def test_pixel_operations_equal_torchvision_on_floats(name: str, channels: int) -> None:
    images, magnitudes = _images(channels).double() / 255, _magnitudes(name).double()
    expected = _one_by_one(name, images, magnitudes)
    torch.testing.assert_close(_apply(name, images, magnitudes), expected, atol=1e-9, rtol=0)


def test_solarize_inverts_from_every_grey_level_on() -> None:
    levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(256, 1, 16, 16)
    thresholds = torch.arange(256) / 255
    expected = torch.where(levels >= torch.arange(256)[:, None, None, None], 255 - levels, levels)
    torch.testing.assert_close(_apply("Solarize", levels, thresholds) * 255, expected.float(), atol=1e-3, rtol=0)


def test_posterize_and_equalize_cut_floats_off_to_256_levels() -> None:
    levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    between = (levels + 0.4) / 256
    for name, value in (("Posterize", 3.0), ("Equalize", 0.0)):
        torch.testing.assert_close(_apply(name, between, value), _apply(name, levels, value))


# Cutout


def test_cutout_covers_pixels_as_often_as_its_area_and_the_border_say() -> None:
    count, fraction = 4000, 0.4
    cut = _apply("Cutout", torch.ones(count, 1, 32, 32), fraction)[:, 0] == 0
    # a uniform centre is within half a side of a pixel's centre on one axis with probability 0.4, at the border less
    near_border = fraction / 2 + 0.5 / 32
    for row, column, chance in ((16, 11, fraction**2), (0, 16, near_border * fraction), (31, 0, near_border**2)):
        assert stats.binomtest(int(cut[:, row, column].sum()), count, chance).pvalue > 1e-3


def test_cutout_cuts_one_square_and_leaves_the_rest() -> None:
    images = _images(3) // 2 + 64
    found = _apply("Cutout", images, 0.5)
    cut = (found == 0).all(1)
    assert torch.equal(found * ~cut[:, None], images / 255 * ~cut[:, None])
    for mask in cut:
        rows, columns = mask.any(1), mask.any(0)
        assert torch.equal(mask, rows[:, None] & columns)
        assert max(rows.sum(), columns.sum()) in range(8, 17)
        assert min(rows.sum(), columns.sum()) in range(8, 17)


# Gradients


def _weighted_sum(name: str, images: Tensor, magnitudes: Tensor, space: ImageSpace) -> Tensor:
    """One number for each image, so that each has its own derivative."""
    weights = torch.randn(images.shape, generator=_generator(3), dtype=torch.float64)
    return (_apply(name, images, magnitudes, space) * weights).sum((1, 2, 3))


@pytest.mark.parametrize("name", [*GEOMETRIC, *ENHANCING])
def test_gradient_in_the_magnitudes_equals_central_differences(name: str) -> None:
    images = torch.rand(20, 3, 12, 12, generator=_generator(4), dtype=torch.float64)
    low, high = RANGES[name]
    fractions = 0.2 + 0.6 * torch.rand(20, generator=_generator(5), dtype=torch.float64)
    magnitudes = (low + (high - low) * fractions).requires_grad_()
    space, step = ImageSpace(12, "bilinear"), 1e-7 * (high - low)
    (gradient,) = torch.autograd.grad(_weighted_sum(name, images, magnitudes, space).sum(), magnitudes)
    with torch.no_grad():
        above = _weighted_sum(name, images, magnitudes + step, space)
        below = _weighted_sum(name, images, magnitudes - step, space)
    assert gradient.abs().min() > 1e-6
    torch.testing.assert_close(gradient, (above - below) / (2 * step), rtol=1e-4, atol=1e-4)


def test_nearest_resampling_has_no_gradient_in_the_magnitudes() -> None:
    images = torch.rand(20, 1, 12, 12, generator=_generator(5))
    for name in GEOMETRIC:
        magnitudes = torch.full((20,), 0.3).requires_grad_()
        (gradient,) = torch.autograd.grad(_apply(name, images, magnitudes).sum(), magnitudes)
        assert torch.equal(gradient, torch.zeros(20))


@pytest.mark.parametrize("name", OPERATIONS)
def test_gradient_in_the_images_equals_central_differences_but_is_zero_where_levels_are_cut_off(name: str) -> None:
    images = torch.rand(6, 3, 12, 12, generator=_generator(6), dtype=torch.float64).requires_grad_()
    direction = torch.randn(images.shape, generator=_generator(8), dtype=torch.float64)
    low, high = RANGES.get(name, (0.0, 0.0))
    magnitudes = torch.full((6,), round(0.4 * low + 0.6 * high, 1), dtype=torch.float64)
    if name == "Posterize":
        magnitudes = magnitudes.round()
    space, step = ImageSpace(12, "bilinear"), 1e-7
    total = _weighted_sum(name, images, magnitudes, space).sum() + 0 * images.sum()
    (gradient,) = torch.autograd.grad(total, images)
    if name in ("Posterize", "Equalize"):
        assert torch.equal(gradient, torch.zeros_like(gradient))
        return
    with torch.no_grad():
        above = _weighted_sum(name, images + step * direction, magnitudes, space)
        below = _weighted_sum(name, images - step * direction, magnitudes, space)
    torch.testing.assert_close(
        (gradient * direction).sum((1, 2, 3)), (above - below) / (2 * step), rtol=1e-5, atol=1e-5
    )


# Whole batches

strengths = st.floats(0, 1, width=32)
batches = st.lists(st.tuples(st.sampled_from(OPERATIONS), strengths), min_size=1, max_size=12)


def _batch(choices: list[tuple[str, float]], *, channels: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Images, operations and strengths, each strength the given share of the way from lowest to highest."""
    values = []
    for name, fraction in choices:
        low, high = RANGES.get(name, (-5.0, 5.0))
        values.append(low + fraction * (high - low))
    operations = torch.tensor([OPERATIONS.index(name) for name, _ in choices])
    return _images(channels, 16, len(choices)), operations, torch.tensor(values)


@settings(deadline=None, max_examples=30)
@given(choices=batches, channels=st.sampled_from([1, 3]))
def test_output_is_between_0_and_1_whatever_the_batch(choices: list[tuple[str, float]], channels: int) -> None:
    images, operations, magnitudes = _batch(choices, channels=channels)
    found = ImageSpace(16).apply(images, operations, magnitudes, _generator())
    assert found.shape == images.shape
    assert found.dtype == torch.float32
    assert 0 <= found.min() <= found.max() <= 1


@settings(deadline=None, max_examples=30)
@given(choices=batches)
def test_each_image_of_a_batch_is_transformed_as_it_is_alone(choices: list[tuple[str, float]]) -> None:
    alike = [choice for choice in choices if choice[0] != "Cutout"] or [("Invert", 0.0)]
    images, operations, magnitudes = _batch(alike)
    space = ImageSpace(16)
    together = space.apply(images, operations, magnitudes, _generator())
    for index in range(len(alike)):
        one = slice(index, index + 1)
        alone = space.apply(images[one], operations[one], magnitudes[one], _generator())
        torch.testing.assert_close(together[one], alone, atol=1e-6, rtol=0)


def _with_gradients(
    space: ImageSpace, way: str, images: Tensor, operations: Tensor, magnitudes: Tensor
) -> list[Tensor]:
    """Output of one of the two ways, and the gradients of a weighted sum of it in images and strengths."""
    images, magnitudes = images.clone().requires_grad_(), magnitudes.clone().requires_grad_()
    batch = _Piece(images, operations, magnitudes, torch.rand(len(images), 2, generator=_generator(11)))
    output = getattr(space, way)(batch)
    weights = torch.randn(output.shape, generator=_generator(12))
    total = (output * weights).sum() + 0 * (images.sum() + magnitudes.sum())
    return [output.detach(), *torch.autograd.grad(total, (images, magnitudes))]


@settings(deadline=None, max_examples=30)
@given(choices=batches, channels=st.sampled_from([1, 3]), interpolation=st.sampled_from(["nearest", "bilinear"]))
def test_both_ways_give_exactly_the_same_images_and_gradients(
    choices: list[tuple[str, float]], channels: int, interpolation: Literal["nearest", "bilinear"]
) -> None:
    images, operations, magnitudes = _batch(choices, channels=channels)
    space = ImageSpace(16, interpolation)
    ways = ("_apply_piecewise", "_apply_everywhere")
    pairs = zip(*(_with_gradients(space, way, images / 255, operations, magnitudes) for way in ways), strict=True)
    for piecewise, everywhere in pairs:
        assert torch.equal(piecewise, everywhere)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_strength_that_an_operation_cannot_have_does_no_harm_to_images_of_another(name: str, channels: int) -> None:
    images = _images(channels, 16) / 255
    operations = torch.where(torch.arange(COUNT) % 3 == 0, OPERATIONS.index(name), OPERATIONS.index("Identity"))
    magnitudes = torch.where(operations == OPERATIONS.index("Identity"), math.inf, _magnitudes(name, 16))
    everywhere = _with_gradients(ImageSpace(16), "_apply_everywhere", images, operations, magnitudes)
    for one, other in zip(
        _with_gradients(ImageSpace(16), "_apply_piecewise", images, operations, magnitudes), everywhere, strict=True
    ):
        assert torch.equal(one, other)
    untouched = operations == OPERATIONS.index("Identity")
    assert torch.equal(everywhere[0][untouched], images[untouched])


def test_both_ways_take_bytes() -> None:
    images, operations = _images(3, 16), torch.arange(COUNT) % len(OPERATIONS)
    batch = _Piece(images, operations, torch.ones(COUNT), torch.rand(COUNT, 2, generator=_generator(11)))
    assert torch.equal(ImageSpace(16)._apply_piecewise(batch), ImageSpace(16)._apply_everywhere(batch))


@settings(deadline=None, max_examples=50)
@given(names=st.lists(st.sampled_from(["Identity", *MAGNITUDES]), min_size=1, max_size=12))
def test_neutral_strengths_leave_every_image_exactly_as_it_is(names: list[str]) -> None:
    images = torch.rand(len(names), 3, 16, 16, generator=_generator(9))
    images[0, :, 0, 0] = 1  # a white pixel, which a threshold of 1 would invert
    neutral = torch.tensor([MAGNITUDES[name].neutral if name in MAGNITUDES else 3.0 for name in names])
    operations = torch.tensor([OPERATIONS.index(name) for name in names])
    assert torch.equal(ImageSpace(16).apply(images, operations, neutral, _generator()), images)


def test_every_operation_with_a_strength_says_what_it_means() -> None:
    assert set(OPERATIONS) - set(MAGNITUDES) == {"Identity", "AutoContrast", "Equalize", "Invert"}
    assert {name for name, magnitude in MAGNITUDES.items() if magnitude.mirrored} == {*GEOMETRIC, *ENHANCING}


def test_the_same_count_of_random_numbers_is_drawn_whatever_the_operations() -> None:
    images, states = _images(1, 16, 4), []
    for name in ("Identity", "Cutout"):
        generator = _generator()
        ImageSpace(16).apply(images, torch.full((4,), OPERATIONS.index(name)), torch.full((4,), 0.5), generator)
        states.append(generator.get_state())
    assert torch.equal(*states)


@pytest.mark.parametrize("number", [-1, 16])
def test_an_operation_that_is_not_there_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="from 0 to 15"):
        ImageSpace(16).apply(_images(1, 16, 2), torch.tensor([3, number]), torch.zeros(2), _generator())


@pytest.mark.parametrize(("channels", "side"), [(2, 16), (4, 16), (5, 16), (1, 1), (3, 1)])
def test_images_that_it_is_not_made_for_are_refused(channels: int, side: int) -> None:
    with pytest.raises(UserError, match=rf"these have the shape \({channels}, {side}, {side}\)"):
        ImageSpace(side).apply(_images(channels, side, 2), torch.zeros(2).long(), torch.zeros(2), _generator())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "Cutout"])
def test_a_gpu_gives_what_the_cpu_gives(name: str) -> None:
    images, magnitudes = _images(3), _magnitudes(name)
    operations = torch.full((COUNT,), OPERATIONS.index(name), device="cuda")
    generator = torch.Generator("cuda").manual_seed(0)
    found = ImageSpace(32).apply(images.cuda(), operations, magnitudes.cuda(), generator).cpu()
    apart = (found - _apply(name, images, magnitudes)).abs() > 1e-5
    assert apart.float().mean() < (0.01 if name in GEOMETRIC else 1e-9)


def test_operations_that_are_not_geometric_have_the_identity_as_their_matrix() -> None:
    operations = torch.tensor([index for index, name in enumerate(OPERATIONS) if name not in GEOMETRIC])
    matrices = inverse_matrices(operations, torch.full((len(operations),), 0.7))
    assert torch.equal(matrices, torch.eye(2, 3).expand(len(operations), 2, 3))
