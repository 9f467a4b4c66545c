"""Crop, flip and cutout of a base, against torchvision's functions, a table worked by hand and their exact laws."""

import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as V

from augbench.bench.augmentation.base import BaseAugmentation
from augbench.bench.augmentation.network_input import NetworkInput
from augbench.bench.augmentation.resampling import normalised

MEAN = torch.tensor([0.25, 0.5, 0.75])


def seeded(seed: int = 0) -> torch.Generator:
    """Make a generator."""
    return torch.Generator().manual_seed(seed)


def some_images(count: int, channels: int = 3, side: int = 8) -> Tensor:
    """Make images without a grey level of 0; uint8."""
    return torch.randint(1, 256, (count, channels, side, side), dtype=torch.uint8, generator=seeded(9))


@pytest.mark.parametrize(("padding", "flips"), [(2, True), (2, False), (0, True), (7, True)])
def test_crop_and_flip_are_those_of_torchvision_with_the_same_draws(padding: int, flips: bool) -> None:
    images, copies = some_images(20), 3
    moved = BaseAugmentation(padding, flips, source=seeded(1)).before(images, copies)
    source = seeded(1)
    positions = 2 * padding + 1
    drawn = torch.randint(positions**2 * (1 + flips), (60,), generator=source).tolist()
    for number, place in enumerate(drawn):
        mirrored, offset = divmod(place, positions**2)
        expected = V.crop(V.pad(images[number % 20], [padding]), *divmod(offset, positions), 8, 8)
        assert torch.equal(moved[number], V.horizontal_flip(expected) if mirrored else expected)


def test_every_offset_and_side_is_equally_likely() -> None:
    count, expected = 40_500, 250  # of each of 9 · 9 · 2
    images = torch.zeros(1, 1, 18, 18, dtype=torch.uint8)
    images[0, 0, 8, 13] = 255  # moved by up to 4 pixels it stays in the right half, and mirrored it is in the left one
    moved = BaseAugmentation(4, True, source=seeded(2)).before(images, count)
    counts = moved.flatten(1).argmax(1).bincount(minlength=18 * 18).view(18, 18)[4:13]
    assert counts.sum() == count
    assert ((counts - expected) ** 2 / expected).sum() < 161 + 5 * 322**0.5  # chi-square: mean + 5 deviations


@pytest.mark.parametrize(
    ("square", "centre", "rows", "columns"),
    [  # by hand, at 6 pixels: an even square reaches one pixel further up and left than down and right
        (2, (3, 3), (2, 4), (2, 4)),
        (2, (0, 5), (0, 1), (4, 6)),
        (4, (0, 0), (0, 2), (0, 2)),
        (4, (5, 2), (3, 6), (0, 4)),
        (3, (3, 3), (2, 5), (2, 5)),
        (3, (0, 5), (0, 2), (4, 6)),
        (1, (5, 5), (5, 6), (5, 6)),
        (6, (3, 3), (0, 6), (0, 6)),
        (6, (2, 4), (0, 5), (1, 6)),
    ],
)
def test_a_cutout_is_the_square_around_its_centre_within_the_image(
    monkeypatch: pytest.MonkeyPatch,
    square: int,
    centre: tuple[int, int],
    rows: tuple[int, int],
    columns: tuple[int, int],
) -> None:
    monkeypatch.setattr(torch, "randint", lambda *_, **__: torch.tensor([centre]))
    images = torch.rand(1, 3, 6, 6, generator=seeded())
    cut = BaseAugmentation(square=square, mean=MEAN).after(images)
    expected = images.clone()
    expected[0, :, slice(*rows), slice(*columns)] = MEAN[:, None, None]
    assert torch.equal(cut, expected)


def test_every_pixel_is_equally_likely_to_be_the_centre_of_a_cutout() -> None:
    cut = BaseAugmentation(square=1, source=seeded(3)).after(torch.ones(16_000, 1, 4, 4))
    counts = (cut == 0).sum(0).flatten()
    assert counts.sum() == 16_000  # one in each image
    assert ((counts - 1000) ** 2 / 1000).sum() < 15 + 5 * 30**0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_behind_the_normalisation_a_cutout_is_zero_and_the_same_as_before_it(dtype: torch.dtype) -> None:
    form = NetworkInput(MEAN, torch.tensor([0.2, 0.3, 0.4]), dtype)
    images = torch.rand(50, 3, 8, 8, generator=seeded())
    base = {"square": 5, "mean": MEAN}
    before = normalised(BaseAugmentation(**base, source=seeded(4)).after(images), form)
    after = BaseAugmentation(**base, source=seeded(4)).after(normalised(images, form), normalised=True)
    assert torch.equal(before, after)
    assert (after == 0).flatten(1).any(1).all()
    assert after.dtype == dtype
    assert after.is_contiguous(memory_format=torch.channels_last)


def test_a_cutout_has_no_gradient_and_everything_else_keeps_its_own() -> None:
    images = torch.rand(30, 3, 8, 8, generator=seeded()).requires_grad_()
    cut = BaseAugmentation(square=4, mean=MEAN, source=seeded(5)).after(images)
    weights = torch.rand(cut.shape, generator=seeded(6))
    (cut * weights).sum().backward()
    kept = (cut != MEAN[:, None, None]).any(1, keepdim=True)
    assert torch.equal(images.grad, weights * kept)  # type: ignore[arg-type]


def test_without_steps_images_are_those_that_were_given_and_nothing_is_drawn() -> None:
    base, images = BaseAugmentation(source=seeded()), some_images(3)
    assert base.before(images) is images
    assert base.after(images.float()) is not None
    assert torch.equal(base.source.get_state(), seeded().get_state())
