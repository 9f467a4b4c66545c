"""The affine space: its matrices, its action on images, its crop and its sampler, each against another computation."""

import math
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor
from torchvision.transforms import functional as vision

from augbench.bench.augmentation import affine_space
from augbench.bench.augmentation.affine_space import Draw, Space, resample, shared_space, transform_and_shrink

Matrix = NDArray[np.float64]
AFFINE = ("rotation", "x-scale", "y-scale", "x-shear", "half-turn", "flip")
BLOCKS = (*AFFINE, "crop")


def _single(space: Space, offsets: tuple[int, int] | None = None, /, **values: float) -> Draw:
    """One draw whose named blocks (`x_scale` for x-scale) are active; half-turn, flip and crop take any true value."""
    names = {name.replace("_", "-"): value for name, value in values.items()}
    assert set(names) <= set(BLOCKS)
    active = torch.tensor([[name in names for name in BLOCKS]])
    magnitudes = torch.tensor([[names.get(name, 0.0) for name in AFFINE[:4]]], dtype=torch.float64)
    place = offsets or (space.padding, space.padding)
    return Draw(active, magnitudes, torch.tensor([True]), torch.tensor([True]), torch.tensor([place]))


def _block_matrix(name: str, draw: Draw, index: int) -> Matrix:
    """Matrix of one block of one draw, written down on its own."""
    if not draw.active[index, AFFINE.index(name)]:
        return np.eye(2)
    if name == "half-turn":
        return -np.eye(2) if draw.half_turn[index] else np.eye(2)
    if name == "flip":
        return np.diag([-1.0, 1.0]) if draw.flip[index] else np.eye(2)
    a = float(draw.magnitudes[index, AFFINE.index(name)])
    if name == "rotation":
        return np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
    if name == "x-shear":
        return np.array([[1.0, a], [0.0, 1.0]])
    return np.diag([math.exp(a), 1.0] if name == "x-scale" else [1.0, math.exp(a)])


def _composed(names: tuple[str, ...], draw: Draw, index: int = 0) -> Matrix:
    return reduce(np.matmul, [_block_matrix(name, draw, index) for name in names])


def _coordinates(size: int) -> tuple[Tensor, Tensor]:
    """Coordinates x and y of the centre of every pixel, the image being [−1, 1]²."""
    line = (2 * torch.arange(size, dtype=torch.float64) + 1) / size - 1
    y, x = torch.meshgrid(line, line, indexing="ij")
    return x, y


def _blob(size: int, place: tuple[float, float], width: float = 0.05) -> Tensor:
    x, y = _coordinates(size)
    return torch.exp(-((x - place[0]) ** 2 + (y - place[1]) ** 2) / (2 * width**2))[None, None]


def _centre(image: Tensor) -> tuple[float, float]:
    x, y = _coordinates(image.shape[-1])
    mass = image[0, 0]
    return float((mass * x).sum() / mass.sum()), float((mass * y).sum() / mass.sum())


def _smooth_image(size: int) -> Tensor:
    return _blob(size, (0.2, -0.1), 0.1) + 0.7 * _blob(size, (-0.25, 0.15), 0.09) + 0.4 * _blob(size, (0.1, 0.3), 0.1)


@st.composite
def _draws(draw: st.DrawFn, padding: int = 4) -> Draw:
    magnitudes = [draw(st.floats(-limit, limit)) for limit in (math.pi, math.log(2), math.log(2), 1.0)]
    flags = [draw(st.booleans()) for _ in range(9)]
    offsets = [draw(st.integers(0, 2 * padding)) for _ in range(2)]
    return Draw(
        active=torch.tensor([flags[:7]]),
        magnitudes=torch.tensor([magnitudes], dtype=torch.float64),
        half_turn=torch.tensor(flags[7:8]),
        flip=torch.tensor(flags[8:9]),
        offsets=torch.tensor([offsets]),
    )


# Matrices


@settings(deadline=None, max_examples=60)
@given(draw=_draws())
def test_inverse_matrix_is_the_inverse_of_the_blocks_multiplied_in_order(draw: Draw) -> None:
    expected = np.linalg.inv(_composed(AFFINE, draw))
    np.testing.assert_allclose(shared_space(28).inverse_matrices(draw)[0].numpy(), expected, rtol=1e-9, atol=1e-9)


def test_every_draw_of_a_batch_gets_its_own_matrix() -> None:
    space = shared_space(28)
    generator = torch.Generator().manual_seed(1)
    draw = space.sample(64, torch.full((7,), 0.6), space.maxima().double(), generator)
    expected = np.stack([np.linalg.inv(_composed(AFFINE, draw, index)) for index in range(64)])
    np.testing.assert_allclose(space.inverse_matrices(draw).numpy(), expected, rtol=1e-6, atol=1e-6)


# Action on images


@pytest.mark.parametrize(
    ("values", "start", "end"),
    [
        ({"rotation": math.pi / 2}, (0.4, 0.1), (-0.1, 0.4)),
        ({"rotation": math.pi / 6}, (0.4, 0.0), (0.4 * math.sqrt(3) / 2, 0.2)),
        ({"x_scale": math.log(2)}, (0.25, 0.1), (0.5, 0.1)),
        ({"y_scale": -math.log(2)}, (0.25, 0.4), (0.25, 0.2)),
        ({"x_shear": 1.0}, (0.1, 0.3), (0.4, 0.3)),
        ({"half_turn": 1}, (0.3, 0.1), (-0.3, -0.1)),
        ({"flip": 1}, (0.3, 0.1), (-0.3, 0.1)),
    ],
)
def test_each_block_moves_a_blob_where_its_formula_says(
    values: dict[str, float], start: tuple[float, float], end: tuple[float, float]
) -> None:
    space = Space(image_size=64, padding=8)
    moved = space.apply(_blob(64, start), _single(space, **values))
    assert _centre(moved) == pytest.approx(end, abs=2e-3)


def test_composite_moves_a_blob_block_by_block_from_the_crop_to_the_rotation() -> None:
    space = Space(image_size=64, padding=8)
    values = {"crop": 1, "flip": 1, "half_turn": 1, "x_shear": 0.5, "y_scale": -math.log(2), "x_scale": math.log(1.5)}
    draw = _single(space, (12, 0), rotation=math.pi / 2, **values)
    # crop: 8 pixels to the right, 4 up → (0.45, 0.1); flip → (−0.45, 0.1); half-turn → (0.45, −0.1);
    # shear → (0.4, −0.1); y-scale → (0.4, −0.05); x-scale → (0.6, −0.05); rotation → (0.05, 0.6)
    moved = space.apply(_blob(64, (0.2, 0.225)), draw)
    assert _centre(moved) == pytest.approx((0.05, 0.6), abs=2e-3)


@pytest.mark.parametrize("quarters", [-1, 1, 2])
def test_quarter_turns_equal_rot90(quarters: int) -> None:
    space = shared_space(28)
    image = torch.rand(1, 3, 28, 28, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    turned = space.apply(image, _single(space, rotation=quarters * math.pi / 2))
    # y points down, so a positive angle turns clockwise on the screen while rot90 turns counter-clockwise
    torch.testing.assert_close(turned, torch.rot90(image, -quarters, (2, 3)), atol=1e-9, rtol=0)


def test_half_turn_and_flip_equal_reversed_axes() -> None:
    space = shared_space(28)
    image = torch.rand(1, 3, 28, 28, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    torch.testing.assert_close(space.apply(image, _single(space, half_turn=1)), image.flip(2, 3), atol=1e-9, rtol=0)
    torch.testing.assert_close(space.apply(image, _single(space, flip=1)), image.flip(3), atol=1e-9, rtol=0)


def test_elements_of_blocks_outside_the_composition_do_nothing() -> None:
    space = shared_space(28)
    image = torch.rand(1, 1, 28, 28, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    draw = _single(space, (0, 8), rotation=1, x_scale=0.5, y_scale=0.5, x_shear=1, half_turn=1, flip=1, crop=1)
    assert (space.apply(image, draw) - image).abs().max() > 0.1
    unused = replace(draw, active=torch.zeros(1, 7, dtype=torch.bool))
    torch.testing.assert_close(space.apply(image, unused), image, atol=1e-6, rtol=0)


def test_identity_draw_leaves_uint8_images_as_they_are() -> None:
    space = shared_space(32)
    images = torch.randint(256, (5, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(5))
    draw = space.sample(5, torch.zeros(7), space.maxima(), torch.Generator().manual_seed(6))
    torch.testing.assert_close(space.apply(images, draw), images.float() / 255, atol=1e-6, rtol=0)


@settings(deadline=None, max_examples=25)
@given(draw=_draws())
def test_every_draw_gives_values_between_0_and_1(draw: Draw) -> None:
    image = torch.rand(1, 1, 28, 28, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    moved = shared_space(28).apply(image, draw)
    assert moved.shape == image.shape
    assert 0 <= moved.min() <= moved.max() <= 1


# Crop


def _all_crops(space: Space, image: Tensor) -> tuple[Tensor, list[tuple[int, int]]]:
    places = [(row, column) for row in range(2 * space.padding + 1) for column in range(2 * space.padding + 1)]
    crops = [space.crop(image, _single(space, place, crop=1)) for place in places]
    return torch.cat(crops), places


def test_crop_equals_torchvision_pad_and_crop_at_all_81_offsets() -> None:
    image = torch.randint(256, (1, 3, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(9))
    crops, places = _all_crops(shared_space(28), image)
    assert len(places) == 81
    expected = torch.cat([vision.crop(vision.pad(image, [4]), row, column, 28, 28) for row, column in places])
    assert torch.equal(crops, expected)


def test_what_the_crop_cuts_off_stays_lost_when_a_later_block_shrinks_the_image() -> None:
    space = shared_space(28)
    image = torch.zeros(1, 1, 28, 28, dtype=torch.float64)
    image[0, 0, 12:16, 0:3] = 1  # the crop at column 8 of the padded image cuts off columns 0 to 3
    shrink = _single(space, x_scale=-math.log(2))
    crop_and_shrink = _single(space, (4, 8), x_scale=-math.log(2), crop=1)
    assert space.apply(image, crop_and_shrink).abs().max() == 0
    # a crop that was only a shift inside the matrix would show the pixels again
    matrix = torch.cat((space.inverse_matrices(shrink), torch.tensor([[[8 / 28], [0.0]]])), dim=2)
    assert resample(image, matrix).max() > 0.4


# Gradient in the ranges


def _weighted_pixels(space: Space, ranges: Tensor, active: Tensor | None = None) -> Tensor:
    """Sum of weighted pixels of eight draws whose randomness is fixed."""
    draw = space.sample(8, torch.full((7,), 0.7), ranges, torch.Generator().manual_seed(11))
    draw = draw if active is None else replace(draw, active=active)
    weights = torch.randn(8, 1, 48, 48, generator=torch.Generator().manual_seed(12), dtype=torch.float64)
    return (space.apply(_smooth_image(48).repeat(8, 1, 1, 1), draw) * weights).sum()


def test_gradient_in_every_range_equals_central_differences() -> None:
    space, step = Space(image_size=48, padding=6), 1e-6
    ranges = torch.tensor([0.5, 0.3, 0.25, 0.4], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(_weighted_pixels(space, ranges), ranges)
    shifts = step * torch.eye(4, dtype=torch.float64)
    with torch.no_grad():
        sums = [_weighted_pixels(space, ranges + shift) - _weighted_pixels(space, ranges - shift) for shift in shifts]
    assert gradient.abs().min() > 0.1
    torch.testing.assert_close(gradient, torch.stack(sums) / (2 * step), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("left_out", range(4))
def test_a_block_outside_the_composition_has_no_gradient(left_out: int) -> None:
    space = Space(image_size=48, padding=6)
    ranges = torch.tensor([0.5, 0.3, 0.25, 0.4], dtype=torch.float64, requires_grad=True)
    active = torch.ones(8, 7, dtype=torch.bool)
    active[:, left_out] = False
    (gradient,) = torch.autograd.grad(_weighted_pixels(space, ranges, active), ranges)
    assert (gradient == 0).tolist() == [index == left_out for index in range(4)]


# Sampler

PROBABILITIES = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9, 1 / 7, 0.6])
RANGES = torch.tensor([2.0, 0.3, 0.6, 0.05])
COUNT = 40_000


@pytest.fixture(scope="module")
def sample() -> Draw:
    return shared_space(28).sample(COUNT, PROBABILITIES, RANGES, torch.Generator().manual_seed(13))


@pytest.mark.parametrize("block", range(7))
def test_blocks_are_active_with_their_probabilities(sample: Draw, block: int) -> None:
    successes, expected = int(sample.active[:, block].sum()), float(PROBABILITIES[block])
    assert stats.binomtest(successes, COUNT, expected).pvalue > 1e-3


def test_blocks_are_active_independently_of_one_another_and_of_the_elements(sample: Draw) -> None:
    columns = [sample.active, sample.magnitudes, sample.half_turn[:, None], sample.flip[:, None], sample.offsets]
    correlation = np.corrcoef(torch.cat([column.double() for column in columns], dim=1).numpy(), rowvar=False)
    assert np.abs(correlation - np.eye(15)).max() < 4 / math.sqrt(COUNT)


@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize("active", [False, True])
def test_magnitudes_are_uniform_within_their_ranges(sample: Draw, block: int, active: bool) -> None:
    chosen = sample.magnitudes[sample.active[:, block] == active, block].double().numpy()
    limit = float(RANGES[block])
    assert stats.kstest(chosen, stats.uniform(-limit, 2 * limit).cdf).pvalue > 1e-3


def test_offsets_are_uniform_over_81_positions(sample: Draw) -> None:
    counts = np.bincount((9 * sample.offsets[:, 0] + sample.offsets[:, 1]).numpy())
    assert len(counts) == 81
    assert stats.chisquare(counts).pvalue > 1e-3


def test_half_turn_and_flip_are_independent_fair_coins(sample: Draw) -> None:
    counts = np.bincount((2 * sample.half_turn.long() + sample.flip.long()).numpy())
    assert len(counts) == 4
    assert stats.chisquare(counts).pvalue > 1e-3


def test_probabilities_0_and_1_are_certain() -> None:
    probabilities = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    draw = shared_space(28).sample(5000, probabilities, RANGES, torch.Generator().manual_seed(14))
    assert torch.equal(draw.active, (probabilities == 1).expand(5000, 7))


def _fields(draw: Draw) -> list[Tensor]:
    return [draw.active, draw.magnitudes, draw.half_turn, draw.flip, draw.offsets]


def test_the_generator_alone_determines_the_draw() -> None:
    space = shared_space(28)
    first, again, other = (
        _fields(space.sample(50, PROBABILITIES, RANGES, torch.Generator().manual_seed(seed))) for seed in (15, 15, 16)
    )
    assert all(map(torch.equal, first, again))
    assert not any(map(torch.equal, first, other))


# Sizes and maxima


@pytest.mark.parametrize(("size", "padding", "positions"), [(28, 4, 81), (32, 4, 81), (14, 2, 25)])
def test_shared_space_at_the_sizes_in_use(size: int, padding: int, positions: int) -> None:
    space = shared_space(size)
    assert (space.image_size, space.padding) == (size, padding)
    assert space.supports().tolist() == [2, 2, positions]


def test_blocks_have_the_documented_order_and_maxima() -> None:
    space = shared_space(28)
    assert tuple(block.name for block in space.blocks) == BLOCKS
    assert space.maxima().tolist() == pytest.approx([math.pi, math.log(2), math.log(2), 1.0])
    assert [block.support for block in space.blocks] == [None, None, None, None, 2, 2, 81]


def test_matrices_say_where_a_bright_pixel_goes() -> None:
    space = shared_space(28)
    source = torch.Generator().manual_seed(3)
    count, row, column = 200, 11, 17
    draw = space.sample(count, torch.full((7,), 0.6), torch.tensor([0.5, 0.2, 0.2, 0.2]), source)
    image = torch.zeros(1, 1, 28, 28)
    image[0, 0, row, column] = 1
    output = space.apply(image.expand(count, 1, 28, 28), draw)[:, 0]
    centres = (2 * torch.arange(28) + 1) / 28 - 1
    mass = output.sum((1, 2))
    seen = torch.stack(((output.sum(1) * centres).sum(1) / mass, (output.sum(2) * centres).sum(1) / mass), 1)
    start = torch.stack((centres[column], centres[row], torch.tensor(1.0)))
    expected = space.matrices(draw) @ start
    inside = expected.abs().max(1).values < 0.85
    assert inside.sum() > 100
    # a bilinear spot is not symmetric around where its pixel goes: half a pixel, 1/28, is allowed
    torch.testing.assert_close(seen[inside], expected[inside], atol=1 / 28, rtol=0)


def test_images_are_transformed_and_shrunk_in_pieces_with_their_own_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.randint(0, 256, (12, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    matrices = torch.eye(2) * torch.linspace(0.5, 1.5, 12).view(-1, 1, 1)
    together = transform_and_shrink(images, matrices, 4)
    monkeypatch.setattr(affine_space, "IMAGES_AT_A_TIME", 5)
    assert torch.equal(transform_and_shrink(images, matrices, 4), together)
