"""TrivialAugment on its own operations: one of 14 for each image, uniform over operations, levels and signs."""

from typing import Any

import numpy as np
import pytest
import torch
from method_factories import make_method
from scipy import stats
from torchvision.transforms import TrivialAugmentWide as Theirs

from augbench.bench.augmentation.image_operations import MAGNITUDES, OPERATIONS
from augbench.methods.trivialaugment_wide import TrivialAugmentWide
from augbench.methods.wide_policy import Application

COUNT = 60_000


def _method(**settings: Any) -> TrivialAugmentWide:
    return make_method(TrivialAugmentWide, side=32, channels=3, settings=settings)


@pytest.fixture(scope="module")
def draw() -> Application:
    (draw,) = _method().draw(COUNT, torch.Generator().manual_seed(1))
    return draw


def test_operations_are_uniform_over_those_of_torchvision(draw: Application) -> None:
    counts = np.bincount(draw.operations.numpy())
    assert {OPERATIONS[index] for index in counts.nonzero()[0]} == set(Theirs()._augmentation_space(31))
    assert len(counts) == 14
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("name", [name for name in MAGNITUDES if MAGNITUDES[name].mirrored])
def test_strengths_are_uniform_over_31_levels_and_both_signs(draw: Application, name: str) -> None:
    magnitudes = draw.magnitudes[draw.operations == OPERATIONS.index(name)] - MAGNITUDES[name].neutral
    largest = {"TranslateX": 1.0, "TranslateY": 1.0, "Rotate": 135.0}.get(name, 0.99)
    levels = magnitudes / largest * 30
    if name.startswith("Translate"):
        levels = torch.sign(levels) * (levels.abs() - 1e-4).ceil()  # in whole pixels; 32 of them make 30 levels
    torch.testing.assert_close(levels, levels.round(), atol=1e-3, rtol=0)
    counts = np.bincount(levels.round().abs().long().numpy())
    assert len(counts) == 31
    assert stats.chisquare(counts).pvalue > 1e-4
    moved = levels[levels.abs() > 0.5]
    assert stats.binomtest(int((moved > 0).sum()), len(moved), 0.5).pvalue > 1e-4


@pytest.mark.parametrize("name", ["Posterize", "Solarize"])
def test_strengths_without_a_sign_come_as_often_as_torchvision_has_them(draw: Application, name: str) -> None:
    magnitudes = draw.magnitudes[draw.operations == OPERATIONS.index(name)]
    table = Theirs()._augmentation_space(31)[name][0].double() / (255 if name == "Solarize" else 1)
    values, frequencies = table.unique(return_counts=True)
    counts = (magnitudes.double()[:, None] - values).abs().lt(1e-5).sum(0)
    assert counts.sum() == len(magnitudes)
    expected = frequencies.double() / 31 * len(magnitudes)
    assert stats.chisquare(counts.numpy(), expected.numpy()).pvalue > 1e-4


def test_operation_and_strength_are_independent(draw: Application) -> None:
    rotated = draw.magnitudes[draw.operations == OPERATIONS.index("Rotate")] / 135
    sheared = draw.magnitudes[draw.operations == OPERATIONS.index("ShearX")] / 0.99
    assert stats.ks_2samp(rotated.numpy(), sheared.numpy()).pvalue > 1e-3


def test_number_of_bins_can_be_changed() -> None:
    (draw,) = _method(bins=3).draw(5000, torch.Generator().manual_seed(2))
    turns = draw.magnitudes[draw.operations == OPERATIONS.index("Rotate")]
    assert turns.unique().tolist() == [-135.0, -67.5, 0.0, 67.5, 135.0]
