"""Sub-policies: what a level means, what is drawn how often, and what is applied first."""

import numpy as np
import pytest
import torch
from method_factories import make_method, seeded
from scipy.stats import binomtest, chisquare
from torch import Tensor

from augbench.bench.augmentation.image_operations import GEOMETRIC, OPERATIONS, ImageSpace
from augbench.bench.contract.method import Hyperparameters
from augbench.methods.subpolicies import (
    IDENTITY,
    SEARCHED,
    LevelMapping,
    SubPolicies,
    SubPolicyMethod,
    draw_applications,
    one_sided_mapping,
    symmetric_mapping,
)
from augbench.methods.wide_policy import Application, apply_in_turn

CPU = torch.device("cpu")
LEVELS = (0.0, 0.25, 0.3, 0.5, 0.75, 1.0)

# Magnitudes at these levels, worked by hand from the ranges; geometric ones before their random sign.
SYMMETRIC = {
    "ShearX": (-0.3, -0.15, -0.12, 0, 0.15, 0.3),
    "ShearY": (-0.3, -0.15, -0.12, 0, 0.15, 0.3),
    "TranslateX": (-0.45, -0.225, -0.18, 0, 0.225, 0.45),
    "TranslateY": (-0.45, -0.225, -0.18, 0, 0.225, 0.45),
    "Rotate": (-30, -15, -12, 0, 15, 30),
}
ONE_SIDED = {
    "ShearX": (0, 0.075, 0.09, 0.15, 0.225, 0.3),
    "ShearY": (0, 0.075, 0.09, 0.15, 0.225, 0.3),
    "TranslateX": (0, 0.1125, 0.135, 0.225, 0.3375, 0.45),
    "TranslateY": (0, 0.1125, 0.135, 0.225, 0.3375, 0.45),
    "Rotate": (0, 7.5, 9, 15, 22.5, 30),
}
IN_BOTH = {
    **dict.fromkeys(("Brightness", "Color", "Contrast", "Sharpness"), (0.1, 0.55, 0.64, 1, 1.45, 1.9)),
    "Posterize": (4, 5, 5, 6, 7, 8),  # 4 + 0.3·4 = 5.2 is rounded down
    "Solarize": (0, 64 / 255, 76.8 / 255, 128 / 255, 192 / 255, 256 / 255),
    "Cutout": (0, 0.05, 0.06, 0.1, 0.15, 0.2),
    **dict.fromkeys(("AutoContrast", "Equalize", "Invert", "Identity"), (0, 0, 0, 0, 0, 0)),
}


def index(name: str) -> int:
    return OPERATIONS.index(name)


@pytest.mark.parametrize(
    ("mapping", "geometric"), [(symmetric_mapping(CPU), SYMMETRIC), (one_sided_mapping(CPU), ONE_SIDED)]
)
def test_levels_mean_what_a_hand_worked_table_says(
    mapping: LevelMapping, geometric: dict[str, tuple[float, ...]]
) -> None:
    table = geometric | IN_BOTH
    assert set(table) == set(OPERATIONS)
    levels = torch.tensor(LEVELS).repeat(500, 1)
    for name, expected in table.items():
        magnitudes = mapping.magnitudes(torch.full_like(levels, index(name), dtype=torch.long), levels, seeded())
        if name in GEOMETRIC:
            magnitudes, expected = magnitudes.abs(), tuple(map(abs, expected))
        assert magnitudes.unique(dim=0).tolist() == [pytest.approx(expected, abs=1e-6)], name


@pytest.mark.parametrize("mapping", [symmetric_mapping(CPU), one_sided_mapping(CPU)])
def test_only_geometric_operations_get_a_random_sign_each_draw_its_own(mapping: LevelMapping) -> None:
    draws = 4000
    operations = torch.arange(len(OPERATIONS)).repeat(draws, 1)
    negative = mapping.magnitudes(operations, torch.full(operations.shape, 0.8), seeded()) < 0
    for name, count in zip(OPERATIONS, negative.sum(0).tolist(), strict=True):
        if name in GEOMETRIC:
            assert binomtest(count, draws, 0.5).pvalue > 1e-3, name
        else:
            assert count == 0, name
    together = (negative[:, index("ShearX")] & negative[:, index("Rotate")]).sum()
    assert binomtest(int(together), draws, 0.25).pvalue > 1e-3


def test_magnitudes_are_differentiable_in_the_levels() -> None:
    operations = torch.tensor([index("Rotate"), index("Brightness"), index("Cutout")])
    levels = torch.full((3,), 0.7, requires_grad=True)
    magnitudes = one_sided_mapping(CPU).magnitudes(operations, levels, seeded())
    magnitudes.sum().backward()  # type: ignore[no-untyped-call]
    assert levels.grad is not None
    sign = 1.0 if magnitudes[0] > 0 else -1.0
    assert levels.grad.tolist() == pytest.approx([sign * 30, 1.8, 0.2])


# Drawing


def policy() -> SubPolicies:
    operations = [["Rotate", "Invert"], ["Solarize", "Rotate"], ["Cutout", "Cutout"], ["Invert", "Invert"]]
    return SubPolicies(
        torch.tensor([[index(name) for name in pair] for pair in operations]),
        torch.tensor([[0.2, 0.9], [0.5, 0.6], [1.0, 0.0], [1.0, 1.0]]),
        torch.tensor([[0.9, 0.5], [0.25, 1.0], [0.5, 0.5], [0.5, 0.5]]),
    )


def frequencies(drawn: list[Application]) -> dict[tuple[str, str], int]:
    first, second = (application.operations.tolist() for application in drawn)
    pairs, counts = np.unique(list(zip(first, second, strict=True)), axis=0, return_counts=True)
    return {(OPERATIONS[a], OPERATIONS[b]): int(count) for (a, b), count in zip(pairs.tolist(), counts, strict=True)}


def test_sub_policies_are_drawn_uniformly_and_each_operation_with_its_probability() -> None:
    images = 20_000
    drawn = policy().draw(images, symmetric_mapping(CPU), seeded(), torch.tensor(3))  # never the fourth
    expected = {
        ("Rotate", "Invert"): 0.2 * 0.9,
        ("Rotate", "Identity"): 0.2 * 0.1,
        ("Identity", "Invert"): 0.8 * 0.9,
        ("Identity", "Identity"): 0.8 * 0.1 + 0.5 * 0.4,
        ("Solarize", "Rotate"): 0.5 * 0.6,
        ("Solarize", "Identity"): 0.5 * 0.4,
        ("Identity", "Rotate"): 0.5 * 0.6,
        ("Cutout", "Identity"): 1.0,
    }
    found = frequencies(drawn)
    assert set(found) == set(expected)
    assert (
        chisquare([found[pair] for pair in expected], [fraction * images / 3 for fraction in expected.values()]).pvalue
        > 1e-3
    )
    assert ("Invert", "Invert") in frequencies(policy().draw(100, symmetric_mapping(CPU), seeded()))


def test_drawn_operations_have_the_magnitudes_of_their_sub_policy() -> None:
    first, second = policy().draw(500, symmetric_mapping(CPU), seeded())
    expected = {"Rotate": 24.0, "Solarize": 64 / 255, "Cutout": 0.1}
    for name, magnitude in expected.items():
        found = first.magnitudes[first.operations == index(name)].abs()
        assert len(found) > 10
        assert found.tolist() == pytest.approx([magnitude] * len(found))
    rotations = second.magnitudes[second.operations == index("Rotate")]
    assert sorted(set(rotations.tolist())) == [-30, 30]


def test_the_first_operation_acts_first() -> None:
    """A half-bright image is below the threshold, an inverted dark one is not."""
    images = torch.full((1, 1, 14, 14), 0.2)
    operations = torch.tensor([[index("Invert"), index("Solarize")]])
    levels = torch.full((1, 2), 0.5)
    drawn = draw_applications(operations, torch.ones(1, 2), levels, symmetric_mapping(CPU), seeded())
    assert apply_in_turn(images, drawn, ImageSpace(14), seeded()).unique().tolist() == pytest.approx([0.2])
    assert apply_in_turn(images, drawn[::-1], ImageSpace(14), seeded()).unique().tolist() == pytest.approx([0.8])


def test_a_search_chooses_from_15_operations_without_the_identity() -> None:
    assert len(SEARCHED) == 15
    assert IDENTITY not in SEARCHED
    assert {OPERATIONS[each] for each in SEARCHED} | {"Identity"} == set(OPERATIONS)


# What methods share


class Given(SubPolicyMethod[Hyperparameters]):
    """A method with a fixed policy and rates that are given."""

    given_rates: Tensor

    def draw(self, count: int, generator: torch.Generator) -> list[Application]:
        """Draw from the policy above."""
        return policy().draw(count, symmetric_mapping(CPU), generator)

    def rates(self) -> Tensor:
        """Return what was given."""
        return self.given_rates


@pytest.fixture
def method() -> Given:
    """Make the method for a tenth of the digits."""
    return make_method(Given)


def test_learned_numbers_are_the_probabilities_that_a_draw_contains_an_operation(method: Given) -> None:
    method.given_rates = torch.zeros(2, 2, len(OPERATIONS))
    method.given_rates[0, 0, index("Rotate")] = 0.5
    method.given_rates[0, 1, index("Rotate")] = 0.2
    method.given_rates[1, 1, index("Rotate")] = 0.1
    method.given_rates[1, 0, index("Invert")] = 1.0
    learned = method.learned()
    assert list(learned) == [f"probability/{OPERATIONS[each]}" for each in SEARCHED]
    assert learned.pop("probability/Rotate") == pytest.approx(((1 - 0.5 * 0.8) + 0.1) / 2)
    assert learned.pop("probability/Invert") == pytest.approx(0.5)
    assert set(learned.values()) == {0.0}
