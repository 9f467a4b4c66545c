"""What fixed policies on the wide space share: strengths, and images at every one of them, against torchvision's."""

import pytest
import torch
from scipy import stats
from torch import Tensor
from torchvision.transforms import AutoAugment, InterpolationMode, RandAugment
from torchvision.transforms import TrivialAugmentWide as TheirTrivialAugment
from torchvision.transforms.autoaugment import _apply_op

from augbench.bench.augmentation.image_operations import ENHANCING, GEOMETRIC, OPERATIONS, ImageSpace
from augbench.methods.trivialaugment_wide import WIDE
from augbench.methods.wide_policy import AUTOAUGMENT_RANGES, RANDOM_OPERATIONS, Ranges, Strengths

Space = dict[str, tuple[Tensor, bool]]
CPU = torch.device("cpu")


def _theirs(kind: str, levels: int, size: int) -> Space:
    if kind == "trivialaugment":
        return TheirTrivialAugment()._augmentation_space(levels)
    policy = AutoAugment() if kind == "autoaugment" else RandAugment()
    return policy._augmentation_space(levels, (size, size))


CASES = [
    (WIDE, "trivialaugment", 31, 32),
    (WIDE, "trivialaugment", 7, 32),
    (AUTOAUGMENT_RANGES, "randaugment", 31, 32),
    (AUTOAUGMENT_RANGES, "randaugment", 31, 28),
    (AUTOAUGMENT_RANGES, "randaugment", 2, 32),
    (AUTOAUGMENT_RANGES, "autoaugment", 10, 32),
    (AUTOAUGMENT_RANGES, "autoaugment", 10, 28),
]


def _in_our_unit(name: str, magnitude: float, size: int) -> float:
    """Convert torchvision's number for an operation, as its `_apply_op` takes it, to the unit of the wide space."""
    if name.startswith("Translate"):
        return int(magnitude) / size
    if name == "Solarize":
        return magnitude / 255
    return 1 + magnitude if name in ENHANCING else magnitude


def _signed_levels(space: Space, name: str, levels: int) -> list[tuple[int, int, float]]:
    """Level, sign and torchvision's magnitude for everything that an operation may be drawn with."""
    magnitudes, signed = space[name]
    values = magnitudes.tolist() if magnitudes.ndim else [0.0] * levels
    signs = (1, -1) if signed else (1,)
    return [(level, sign, sign * value) for level, value in enumerate(values) for sign in signs]


def _strength(strengths: Strengths, name: str, level: int, sign: int) -> Tensor:
    """What is drawn for one operation, level and sign, from as many draws as it takes to see that sign."""
    index = OPERATIONS.index(name)
    many = torch.full((64,), index), torch.full((64,), level)
    drawn = strengths.draw(*many, torch.Generator().manual_seed(0)).magnitudes
    return drawn.max() if sign > 0 else drawn.min()


@pytest.mark.parametrize(("ranges", "kind", "levels", "size"), CASES)
def test_strengths_equal_the_tables_of_torchvision(ranges: Ranges, kind: str, levels: int, size: int) -> None:
    strengths, theirs = ranges.strengths(levels, size, CPU), _theirs(kind, levels, size)
    assert {"Identity", *theirs} - {"Invert"} == set(RANDOM_OPERATIONS)
    for name in theirs:
        assert bool(strengths.mirrored[OPERATIONS.index(name)]) == theirs[name][1]
        for level, sign, magnitude in _signed_levels(theirs, name, levels):
            expected = _in_our_unit(name, magnitude, size)
            assert float(_strength(strengths, name, level, sign)) == pytest.approx(expected, abs=1e-5)


def _their_images(image: Tensor, name: str, magnitudes: list[float]) -> Tensor:
    nearest = InterpolationMode.NEAREST
    return torch.stack([_apply_op(image, name, magnitude, nearest, None) for magnitude in magnitudes])


def _undecided(image: Tensor, name: str, magnitudes: list[float]) -> Tensor:
    """Pixels that torchvision takes from elsewhere as soon as an angle or shear changes by next to nothing."""
    change = {"Rotate": 0.01, "ShearX": 1e-4, "ShearY": 1e-4}.get(name, 0.0)
    before = _their_images(image, name, [magnitude - change for magnitude in magnitudes])
    return before != _their_images(image, name, [magnitude + change for magnitude in magnitudes])


@pytest.mark.parametrize(("ranges", "kind", "levels", "size"), CASES)
@pytest.mark.parametrize("channels", [1, 3])
def test_images_at_every_strength_equal_those_of_torchvision(
    ranges: Ranges, kind: str, levels: int, size: int, channels: int
) -> None:
    image = torch.randint(256, (channels, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    strengths, theirs = ranges.strengths(levels, size, CPU), _theirs(kind, levels, size)
    for name in theirs:
        choices = _signed_levels(theirs, name, levels)
        values = torch.stack([_strength(strengths, name, level, sign) for level, sign, _ in choices])
        magnitudes = [magnitude for _, _, magnitude in choices]
        operations = torch.full((len(choices),), OPERATIONS.index(name))
        images = image.expand(len(choices), -1, -1, -1)
        found = 255 * ImageSpace(size).apply(images, operations, values, torch.Generator())
        apart = (found - _their_images(image, name, magnitudes)).abs()
        if name in GEOMETRIC:
            # half-way between two pixels either is right: such pixels are few, and all others are equal
            undecided = _undecided(image, name, magnitudes)
            assert undecided.float().mean() < 0.03
            assert ((apart < 1e-3) | undecided).all()
        else:
            assert apart.max() <= 2.001  # torchvision cuts the degenerate image and the result off to whole levels


@pytest.mark.parametrize("name", [*GEOMETRIC, *ENHANCING])
def test_both_sides_of_the_neutral_value_are_equally_likely(name: str) -> None:
    strengths = WIDE.strengths(31, 32, CPU)
    operations, levels = torch.full((4000,), OPERATIONS.index(name)), torch.full((4000,), 20)
    drawn = strengths.draw(operations, levels, torch.Generator().manual_seed(2)).magnitudes
    assert len(drawn.unique()) == 2
    assert stats.binomtest(int((drawn == drawn.max()).sum()), 4000, 0.5).pvalue > 1e-3


@pytest.mark.parametrize("size", [14, 28])
def test_wide_translations_grow_with_the_images_in_whole_pixels(size: int) -> None:
    strengths = WIDE.strengths(31, size, CPU)
    for name in ("TranslateX", "TranslateY"):
        pixels = strengths.table[OPERATIONS.index(name)] * size
        assert pixels.tolist() == pytest.approx([int(size * level / 30 + 1e-6) for level in range(31)], abs=1e-5)
