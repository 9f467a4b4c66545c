"""What fixed policies of image operations share: strengths, against torchvision's."""

import pytest
import torch
from scipy import stats
from torch import Tensor
from torchvision.transforms import AutoAugment, RandAugment
from torchvision.transforms import TrivialAugmentWide as TheirTrivialAugment

from augbench.bench.augmentation.image_operations import ENHANCING, GEOMETRIC, OPERATIONS
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
    """Convert torchvision's number for an operation, as its `_apply_op` takes it, to our unit."""
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
