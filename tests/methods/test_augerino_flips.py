"""Augerino with flips: crop, then flip, then Augerino's transform, in images and as maps of the plane."""

import numpy as np
import pytest
import torch
from method_factories import make_method, seeded, some_images
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg import expm
from torch.nn import functional as F

from augbench.methods.augerino_flips import AugerinoWithFlips

SIZE, PADDING = 14, 2
WIDTHS = [2.0, 1.5, 2.5, 0.5, 0.6, 0.7]
STILL = [1e-6] * 6


def _learner(widths: list[float], side: int = SIZE) -> AugerinoWithFlips:
    method = make_method(AugerinoWithFlips, side=side)
    with torch.no_grad():
        method.raw_width.copy_(torch.tensor(widths, dtype=torch.float64).expm1().log())
    return method


def _cropped_and_mirrored(image: NDArray[np.float64], row: int, column: int, mirrored: bool) -> NDArray[np.float64]:
    crop = np.pad(image, PADDING)[row : row + SIZE, column : column + SIZE]
    return crop[:, ::-1] if mirrored else crop


def _all_outcomes(image: NDArray[np.float64]) -> NDArray[np.float64]:
    places = range(2 * PADDING + 1)
    return np.stack(
        [_cropped_and_mirrored(image, i, j, mirrored) for mirrored in (False, True) for i in places for j in places]
    )


def test_crops_and_flips_are_uniform_over_all_fifty_outcomes_where_widths_are_nothing() -> None:
    count = 2000
    image = some_images(1)
    augmented = _learner(STILL).augment(image.expand(count, -1, -1, -1), torch.Generator().manual_seed(1)).images
    outcomes = _all_outcomes(image[0, 0].double().numpy() / 255)
    distances = np.abs(augmented.detach()[:, 0].double().numpy()[:, None] - outcomes[None]).max((2, 3))
    assert distances.min(1).max() < 1e-3
    assert stats.chisquare(np.bincount(distances.argmin(1), minlength=50)).pvalue > 1e-3


def test_transforms_are_uniform_over_all_fifty_maps_where_widths_are_nothing() -> None:
    matrices = _learner(STILL).sample_transforms(5000, torch.Generator().manual_seed(5)).double().numpy()
    np.testing.assert_allclose(matrices[:, 1, 1], 1, atol=1e-5)
    np.testing.assert_allclose(np.abs(matrices[:, 0, 0]), 1, atol=1e-5)
    np.testing.assert_allclose(matrices[:, [0, 1], [1, 0]], 0, atol=1e-5)
    pixels = matrices[:, :, 2] * SIZE / 2
    np.testing.assert_allclose(pixels, pixels.round(), atol=1e-4)
    steps = pixels.round().astype(int) + PADDING
    cells = np.ravel_multi_index(((matrices[:, 0, 0] < 0).astype(int), steps[:, 0], steps[:, 1]), (2, 5, 5))
    assert stats.chisquare(np.bincount(cells, minlength=50)).pvalue > 1e-3


def test_the_crop_acts_first_then_the_flip_then_the_transform_of_augerino() -> None:
    """In images and as maps of the plane, both written down again from the same random numbers."""
    method, images, source = _learner(WIDTHS), some_images(60), seeded(2)
    always = torch.tensor([0.0, 0, 0, 0, 0, 1, 1])
    draw = method.context.space.sample(60, always, method.context.space.maxima(), source)
    coefficients = (torch.rand(60, 6, generator=source).double() - 0.5) * torch.tensor(WIDTHS)
    last = expm(torch.einsum("ng,gij->nij", coefficients, method.generators.double()).numpy())
    places = list(zip(draw.offsets.tolist(), draw.flip.tolist(), strict=True))
    assert 10 < sum(flip for _, flip in places) < 50
    before = [
        _cropped_and_mirrored(image.double().numpy() / 255, *offset, flip).copy()
        for image, (offset, flip) in zip(images[:, 0], places, strict=True)
    ]
    grid = F.affine_grid(torch.from_numpy(last[:, :2]), [60, 1, SIZE, SIZE], align_corners=False)
    expected = F.grid_sample(torch.from_numpy(np.stack(before))[:, None], grid, align_corners=False)
    augmented = method.augment(images, seeded(2)).images.detach()
    torch.testing.assert_close(augmented.double(), expected, atol=1e-4, rtol=0)
    transforms = method.sample_transforms(60, seeded(2)).double().numpy()
    for transform, matrix, (offset, flip) in zip(transforms, last, places, strict=True):
        shift, mirror = np.eye(3), np.diag([-1.0 if flip else 1.0, 1, 1])
        # a crop that begins one pixel further down moves everything up by one of 7 pixels of half an image
        shift[:2, 2] = (PADDING - offset[1]) / 7, (PADDING - offset[0]) / 7
        np.testing.assert_allclose(transform, (matrix @ mirror @ shift)[:2], atol=1e-5)


def test_a_dot_moves_in_images_as_the_transforms_move_its_place() -> None:
    count, size, x, y = 1500, 28, 0.3, -0.1
    method = _learner([2.0, 1.0, 1.5, 0.2, 0.2, 0.2], side=size)
    line = (2 * torch.arange(size) + 1) / size - 1
    dot = torch.exp(-((line - x) ** 2 + (line[:, None] - y) ** 2) / 0.01)
    moved = method.augment(dot.expand(count, 1, size, size), torch.Generator().manual_seed(6)).images.detach()[:, 0]
    total = moved.sum((1, 2))
    places = torch.stack(((moved.sum(1) * line).sum(1) / total, (moved.sum(2) * line).sum(1) / total), dim=1)
    matrices = method.sample_transforms(count, torch.Generator().manual_seed(7))
    assert not matrices.requires_grad
    expected = matrices @ torch.tensor([x, y, 1.0])
    assert (places[:, 0] < 0).float().mean().item() == pytest.approx(0.5, abs=0.06)
    for seen, told in zip(places.T, expected.T, strict=True):
        assert stats.ks_2samp(seen.numpy(), told.numpy()).pvalue > 1e-3
    both = [torch.atan2(pair[:, 1], pair[:, 0].abs()).numpy() for pair in (places, expected)]
    assert stats.ks_2samp(*both).pvalue > 1e-3
