"""The plain resampling against torch's own affine grid, slices of padded images, and itself in pieces."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torchvision.transforms import functional as vision

from augbench.bench.augmentation import resampling
from augbench.bench.augmentation.affine_space import Draw, Space, shared_space
from augbench.bench.augmentation.network_input import NetworkInput
from augbench.bench.augmentation.resampling import crop, normalised, resample_in_pieces, sampling_grid


def _source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _bytes(*shape: int) -> Tensor:
    return torch.randint(256, shape, dtype=torch.uint8, generator=_source(1))


def _slices(images: Tensor, offsets: Tensor, padding: int) -> Tensor:
    """Crops one by one: crop n of image n mod B."""
    size = images.shape[-1]
    padded = vision.pad(images, [padding])
    places = enumerate(offsets.tolist())
    return torch.stack([vision.crop(padded[n % len(images)], row, column, size, size) for n, (row, column) in places])


def _as_torch_does(images: Tensor, offsets: Tensor, padding: int, matrices: Tensor) -> Tensor:
    """Crop, divide, and resample along torch's own grid; (N, C, S, S)."""
    crops = _slices(images, offsets, padding).to(matrices.dtype) / 255
    grid = F.affine_grid(F.pad(matrices, (0, 1)), list(crops.shape), align_corners=False)
    return F.grid_sample(crops, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


@pytest.mark.parametrize("columns", [2, 3])
def test_grid_and_its_gradient_equal_those_of_affine_grid(columns: int) -> None:
    matrices = torch.randn(5, 2, columns, generator=_source(), dtype=torch.float64).requires_grad_()
    weights = torch.randn(5, 6, 9, 2, generator=_source(), dtype=torch.float64)
    expected = F.affine_grid(F.pad(matrices, (0, 3 - columns)), [5, 1, 6, 9], align_corners=False)
    found = sampling_grid(matrices, 6, 9)
    torch.testing.assert_close(found, expected, atol=1e-14, rtol=0)
    gradients = (torch.autograd.grad((grid * weights).sum(), matrices)[0] for grid in (found, expected))
    torch.testing.assert_close(*gradients, atol=1e-12, rtol=0)


@pytest.mark.parametrize("side", [14, 28, 31, 32])
def test_coordinates_round_as_those_of_affine_grid(side: int) -> None:
    matrices = torch.randn(50, 2, 3, generator=_source())
    expected = F.affine_grid(matrices, [50, 1, side, side], align_corners=False)
    # equal to the last bit where torch was built to round each product, which it need not be on every processor
    torch.testing.assert_close(sampling_grid(matrices, side, side), expected, atol=5e-7, rtol=0)


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32, torch.float64])
@pytest.mark.parametrize("copies", [1, 3])
def test_crops_equal_slices_of_the_padded_images_copy_by_copy(copies: int, kind: torch.dtype) -> None:
    images = _bytes(4, 3, 7, 7).to(kind)
    offsets = torch.randint(5, (4 * copies, 2), generator=_source())
    offsets[:2] = torch.tensor([[0, 4], [4, 0]])
    assert torch.equal(crop(images, offsets, 2), _slices(images, offsets, 2))


def test_crops_of_images_that_lie_anyhow_in_memory() -> None:
    images, offsets = _bytes(4, 3, 7, 7), torch.randint(5, (4, 2), generator=_source())
    expected = _slices(images, offsets, 2)
    assert torch.equal(crop(images.contiguous(memory_format=torch.channels_last), offsets, 2), expected)
    same = images[:1].expand(4, 3, 7, 7)
    assert torch.equal(crop(same, offsets, 2), _slices(same, offsets, 2))


def test_gradient_of_cropped_images_equals_that_of_slices() -> None:
    images = torch.randn(2, 3, 7, 7, generator=_source(), dtype=torch.float64).requires_grad_()
    offsets = torch.randint(5, (6, 2), generator=_source())
    weights = torch.randn(6, 3, 7, 7, generator=_source(2), dtype=torch.float64)
    crops = (made(images, offsets, 2) for made in (crop, _slices))
    torch.testing.assert_close(*(torch.autograd.grad((each * weights).sum(), images)[0] for each in crops))


def test_draws_must_be_as_many_for_each_image() -> None:
    with pytest.raises(ValueError, match="5 draws are not the same number for each of 2 images"):
        crop(_bytes(2, 1, 7, 7), torch.zeros(5, 2, dtype=torch.long), 2)


@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 32)])
def test_pieces_equal_torchs_own_operations_one_after_another(channels: int, size: int) -> None:
    images, count = _bytes(20, channels, size, size), 60
    offsets = torch.randint(9, (count, 2), generator=_source())
    matrices = torch.randn(count, 2, 2, generator=_source()).requires_grad_()
    exact = matrices.detach().double().requires_grad_()
    weights = torch.randn(count, channels, size, size, generator=_source(2))
    found, expected = resample_in_pieces(images, offsets, 4, matrices), _as_torch_does(images, offsets, 4, exact)
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=0)
    (gradient,) = torch.autograd.grad((found * weights).sum(), matrices)
    (exactly,) = torch.autograd.grad((expected * weights).sum(), exact)
    # where rounding moves a place across a whole pixel, the gradient of the image jumps
    differs = ((gradient - exactly).abs() > 1e-4 * exactly.abs().max()).flatten(1).any(1)
    assert differs.sum() <= count // 20


@pytest.mark.parametrize("images_of_a_piece", [1, 7, 60])
def test_pieces_of_any_size_give_the_same_bits(images_of_a_piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    images, offsets = _bytes(60, 3, 14, 14), torch.randint(5, (60, 2), generator=_source())
    matrices = torch.randn(60, 2, 2, generator=_source())
    whole = resample_in_pieces(images, offsets, 2, matrices)
    monkeypatch.setattr(resampling, "PIXELS_OF_A_PIECE", images_of_a_piece * images[0].numel())
    assert torch.equal(resample_in_pieces(images, offsets, 2, matrices), whole)


def test_normalised_images_are_those_of_the_formula_in_channels_last_order() -> None:
    images = torch.rand(4, 3, 5, 5, generator=_source())
    form = NetworkInput(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 1.0, 2.0]), torch.bfloat16)
    found = normalised(images, form)
    expected = torch.stack([(images[:, c] - form.mean[c]) / form.deviation[c] for c in range(3)], dim=1)
    assert found.dtype == torch.bfloat16
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(found, expected.bfloat16())


# Through the affine space


def _drawn(space: Space, ranges: Tensor, count: int) -> Draw:
    return space.sample(count, torch.full((7,), 0.6), ranges, _source(3))


def test_bytes_and_floats_take_different_ways_to_the_same_images_and_gradients_of_the_ranges() -> None:
    space, images = shared_space(28), _bytes(40, 3, 28, 28)
    ranges = space.maxima().requires_grad_()
    weights = torch.rand(40, 3, 28, 28, generator=_source())
    outputs = [space.apply(given, _drawn(space, ranges, 40)) for given in (images, images.float() / 255)]
    assert [type(output.grad_fn).__name__ for output in outputs] == ["_InPiecesBackward", "GridSampler2DBackward0"]
    assert torch.equal(*outputs)
    gradients = (torch.autograd.grad((output * weights).sum(), ranges)[0] for output in outputs)
    torch.testing.assert_close(*gradients, atol=1e-2, rtol=1e-6)


@pytest.mark.parametrize("convert", [lambda images: images, lambda images: images.float() / 255])
def test_indices_and_copies_equal_chosen_and_repeated_images(convert: Callable[[Tensor], Tensor]) -> None:
    space, images = shared_space(14), convert(_bytes(10, 1, 14, 14))
    indices, draw = torch.tensor([7, 0, 7, 3]), _drawn(space, space.maxima(), 12)
    found = space.apply(images, draw, indices=indices)
    assert torch.equal(found, space.apply(images[indices].repeat(3, 1, 1, 1), draw))


def test_images_for_a_network_are_the_same_normalised() -> None:
    space, images = shared_space(14), _bytes(6, 3, 14, 14)
    form = NetworkInput(torch.full((3,), 0.4), torch.full((3,), 0.3), torch.float32)
    draw = _drawn(space, space.maxima(), 6)
    found = space.apply(images, draw, network_input=form)
    torch.testing.assert_close(found, (space.apply(images, draw) - 0.4) / 0.3, atol=1e-6, rtol=0)


def test_what_becomes_of_maxima_and_supports_leaves_the_space_as_it_is() -> None:
    space = shared_space(14)
    for numbers in (space.maxima, space.supports):
        before = numbers().tolist()
        numbers().requires_grad_().detach().zero_()
        assert numbers().tolist() == before
        assert not numbers().requires_grad
