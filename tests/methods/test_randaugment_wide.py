"""RandAugment on its own operations: N of 14 with replacement, all at the level M."""

from typing import Any

import numpy as np
import pytest
import torch
from method_factories import make_method
from pydantic import ValidationError
from scipy import stats
from torchvision.transforms import RandAugment as Theirs

from augbench.bench.augmentation.image_operations import ENHANCING, OPERATIONS
from augbench.methods.randaugment_wide import RandAugmentWide, RandAugmentWideHyperparameters
from augbench.methods.wide_policy import Application

COUNT = 20_000


def _method(**settings: Any) -> RandAugmentWide:
    return make_method(RandAugmentWide, side=32, channels=3, settings=settings)


@pytest.fixture(scope="module")
def draws() -> list[Application]:
    return _method().draw(COUNT, torch.Generator().manual_seed(1))


def test_pairs_of_operations_are_uniform_over_14_times_14(draws: list[Application]) -> None:
    first, second = draws
    counts = np.bincount((14 * first.operations + second.operations).numpy())
    assert len(counts) == 14**2
    assert stats.chisquare(counts).pvalue > 1e-3
    used = {OPERATIONS[index] for index in torch.cat((first.operations, second.operations)).unique().tolist()}
    assert used == set(Theirs()._augmentation_space(31, (32, 32)))


@pytest.mark.parametrize(("magnitude", "bins"), [(9, 31), (0, 31), (30, 31), (4, 10)])
def test_all_strengths_are_those_of_torchvision_at_one_level(magnitude: int, bins: int) -> None:
    (draw,) = _method(operations=1, magnitude=magnitude, bins=bins).draw(4000, torch.Generator().manual_seed(2))
    for name, (table, signed) in Theirs()._augmentation_space(bins, (32, 32)).items():
        if not table.ndim:
            continue
        value = float(table[magnitude])
        value = int(value) / 32 if name.startswith("Translate") else value / 255 if name == "Solarize" else value
        neutral = float(name in ENHANCING)
        expected = sorted({neutral - value, neutral + value} if signed else {value})
        found = draw.magnitudes[draw.operations == OPERATIONS.index(name)].unique()
        assert found.tolist() == pytest.approx(expected, abs=1e-6)


def test_signs_are_fair_coins_of_their_own(draws: list[Application]) -> None:
    mirrored = [(draw.operations >= 1) & (draw.operations <= 9) for draw in draws]
    both = mirrored[0] & mirrored[1]
    neutral = [torch.isin(draw.operations, torch.arange(6, 10)).float() for draw in draws]
    upper = [(draw.magnitudes > middle)[both] for draw, middle in zip(draws, neutral, strict=True)]
    counts = np.bincount((2 * upper[0].long() + upper[1].long()).numpy())
    assert len(counts) == 4
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_magnitude_that_is_no_level_is_refused() -> None:
    with pytest.raises(ValidationError, match="magnitude must be below bins, which is 9"):
        RandAugmentWideHyperparameters(bins=9)
