"""SCALE's estimators of the gradient in π against exact expectations, found by enumerating the blocks' activations."""

import itertools
from dataclasses import dataclass
from functools import cache
from typing import get_args

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from augbench.methods.scale import ScaleHyperparameters
from augbench.methods.scale_estimators import Estimator, probability_gradient

UNBIASED: tuple[Estimator, ...] = ("pooled", "per-image", "rloo")


def _patterns(bits: int) -> Tensor:
    """All patterns of so many bits; (2^bits, bits) bool."""
    return torch.tensor(list(itertools.product([False, True], repeat=bits)))


def _weights(patterns: Tensor, probabilities: Tensor) -> Tensor:
    """Probability of each pattern of independent blocks; (…)."""
    return torch.where(patterns, probabilities, 1 - probabilities).prod(-1)


def _index(patterns: Tensor) -> Tensor:
    """Position of each pattern in `_patterns`."""
    return (patterns.long() * 2 ** torch.arange(patterns.shape[-1] - 1, -1, -1)).sum(-1)


@dataclass(frozen=True)
class Problem:
    """Losses that depend on nothing but the image and the blocks in its copy.

    Attributes:
        copies: Copies M of each image.
        table: Loss of each image under each pattern of blocks; (B, 2^K).
        probabilities: π; (K,).
    """

    copies: int
    table: Tensor
    probabilities: Tensor

    @property
    def blocks(self) -> int:
        """Number K of blocks."""
        return len(self.probabilities)

    def losses(self, active: Tensor) -> Tensor:
        """Losses (M, B) of copies with blocks (M, B, K)."""
        return self.table[torch.arange(len(self.table)), _index(active)]

    def expected_loss(self, probabilities: Tensor) -> Tensor:
        """Mean loss over images and activations, a scalar; differentiable in π."""
        return (self.table.mean(0) * _weights(_patterns(self.blocks), probabilities)).sum()

    def conditional(self, block: int, present: bool) -> Tensor:
        """Exact E[l | t = present] of a block."""
        patterns = _patterns(self.blocks)
        weights = _weights(patterns, self.probabilities) * (patterns[:, block] == present)
        return (self.table.mean(0) * weights).sum() / weights.sum()

    def gradient(self) -> Tensor:
        """Exact E[l | t = 1] − E[l | t = 0]; (K,)."""
        pairs = [(self.conditional(block, True), self.conditional(block, False)) for block in range(self.blocks)]
        return torch.stack([present - absent for present, absent in pairs])


def _problem(blocks: int, copies: int, batch: int, seed: int = 0) -> Problem:
    source = torch.Generator().manual_seed(seed)
    table = 2 + torch.randn(batch, 2**blocks, generator=source, dtype=torch.float64)
    probabilities = torch.empty(blocks, dtype=torch.float64).uniform_(0.05, 0.95, generator=source)
    return Problem(copies, table, probabilities)


@cache
def _exact_moments(problem: Problem, estimator: Estimator) -> tuple[Tensor, Tensor]:
    """E[value·informative] and P(informative) over every activation of every block of every copy; (K,) each."""
    batch = len(problem.table)
    total = torch.zeros(problem.blocks, dtype=torch.float64)
    informed = torch.zeros_like(total)
    for bits in _patterns(problem.copies * batch * problem.blocks):
        active = bits.view(problem.copies, batch, problem.blocks)
        estimate = probability_gradient(problem.losses(active), active, problem.probabilities, estimator)
        weight = _weights(active, problem.probabilities).prod()
        assert torch.all(estimate.value[~estimate.informative] == 0)
        total += weight * estimate.value * estimate.informative
        informed += weight * estimate.informative
    return total, informed


PROBLEMS = [
    pytest.param(_problem(blocks=3, copies=2, batch=1), id="K=3 M=2 B=1"),
    pytest.param(_problem(blocks=2, copies=2, batch=2), id="K=2 M=2 B=2"),
    pytest.param(_problem(blocks=1, copies=4, batch=1), id="K=1 M=4 B=1"),
    pytest.param(_problem(blocks=1, copies=3, batch=3), id="K=1 M=3 B=3"),
]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_difference_of_conditional_means_is_the_gradient_of_the_expected_loss(problem: Problem) -> None:
    probabilities = problem.probabilities.clone().requires_grad_()
    problem.expected_loss(probabilities).backward()
    assert problem.gradient().abs().min() > 0.01
    torch.testing.assert_close(probabilities.grad, problem.gradient())


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("estimator", UNBIASED)
def test_estimators_are_unbiased_given_that_they_are_informative(problem: Problem, estimator: Estimator) -> None:
    # with several images the pooled groups mix them, yet each image has the same share of either group on average
    total, informed = _exact_moments(problem, estimator)
    assert informed.min() > 0.05
    torch.testing.assert_close(total / informed, problem.gradient())


@pytest.mark.parametrize("problem", PROBLEMS)
def test_how_often_estimators_are_informative(problem: Problem) -> None:
    copies, batch, pi = problem.copies, len(problem.table), problem.probabilities
    mixed_copies = 1 - pi**copies - (1 - pi) ** copies
    expected: dict[Estimator, Tensor] = {
        "pooled": 1 - pi ** (copies * batch) - (1 - pi) ** (copies * batch),
        "per-image": 1 - (1 - mixed_copies) ** batch,
        "rloo": torch.ones_like(pi),
        "per-image-zero": torch.ones_like(pi),
    }
    assert set(expected) == set(get_args(Estimator))
    for estimator, informed in expected.items():
        torch.testing.assert_close(_exact_moments(problem, estimator)[1], informed)


def test_pooling_is_informative_with_a_single_copy_of_each_image() -> None:
    problem = _problem(blocks=2, copies=1, batch=3)
    total, informed = _exact_moments(problem, "pooled")
    torch.testing.assert_close(total / informed, problem.gradient())
    assert _exact_moments(problem, "per-image")[1].max() == 0


@pytest.mark.parametrize("problem", PROBLEMS)
def test_empty_groups_as_zero_give_the_documented_expectation(problem: Problem) -> None:
    total, _ = _exact_moments(problem, "per-image-zero")
    pi, copies = problem.probabilities, problem.copies
    with_block = torch.stack([problem.conditional(block, True) for block in range(problem.blocks)])
    without_block = torch.stack([problem.conditional(block, False) for block in range(problem.blocks)])
    expected = (1 - (1 - pi) ** copies) * with_block - (1 - pi**copies) * without_block
    torch.testing.assert_close(total, expected)
    assert (total - problem.gradient()).abs().max() > 0.01


@pytest.mark.parametrize(("probability", "push"), [(1 / 7, -1), (0.5, 0), (0.95, 1)])
def test_empty_groups_as_zero_push_towards_one_half_where_the_block_does_nothing(probability: float, push: int) -> None:
    pi = torch.tensor([probability], dtype=torch.float64)
    problem = Problem(copies=4, table=torch.full((1, 2), 2.0, dtype=torch.float64), probabilities=pi)
    biased = float(_exact_moments(problem, "per-image-zero")[0])
    assert biased == pytest.approx(2 * (probability**4 - (1 - probability) ** 4))
    assert biased == pytest.approx(0, abs=1e-12) if push == 0 else push * biased > 0.5
    for estimator in UNBIASED:
        assert float(_exact_moments(problem, estimator)[0]) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("estimator", ["pooled", "per-image"])
@pytest.mark.parametrize("everywhere", [False, True])
def test_a_block_in_all_copies_or_none_says_nothing(estimator: Estimator, everywhere: bool) -> None:
    losses = torch.tensor([[1.0, 5.0], [3.0, 2.0]])
    active = torch.tensor([[[True], [False]], [[False], [True]]])
    active = torch.cat((active, torch.full_like(active, everywhere)), dim=2)
    estimate = probability_gradient(losses, active, torch.tensor([0.4, 0.6]), estimator)
    assert estimate.informative.tolist() == [True, False]
    assert estimate.value.tolist() == [-2.5, 0]


def test_per_image_leaves_out_images_with_an_empty_group() -> None:
    losses = torch.tensor([[1.0, 100.0], [3.0, 50.0], [6.0, 70.0]])
    active = torch.tensor([[[True], [True]], [[False], [True]], [[True], [True]]])
    per_image = probability_gradient(losses, active, torch.tensor([0.5]), "per-image")
    assert per_image.value.tolist() == [0.5]  # (1 + 6) / 2 − 3; the second image has the block in every copy
    pooled = probability_gradient(losses, active, torch.tensor([0.5]), "pooled")
    assert pooled.value.tolist() == pytest.approx([(1 + 6 + 100 + 50 + 70) / 5 - 3])
    as_zero = probability_gradient(losses, active, torch.tensor([0.5]), "per-image-zero")
    assert as_zero.value.tolist() == pytest.approx([(0.5 + 220 / 3) / 2])


def test_leave_one_out_by_hand() -> None:
    losses = torch.tensor([[1.0], [4.0], [7.0]])
    active = torch.tensor([[[True]], [[False]], [[False]]])
    estimate = probability_gradient(losses, active, torch.tensor([0.25]), "rloo")
    # losses less the mean of the other two: −4.5, 0, 4.5; scores: 4, −4/3, −4/3
    assert estimate.value.tolist() == pytest.approx([(-4.5 * 4 - 4.5 * 4 / 3) / 3])


def test_leave_one_out_needs_two_copies() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        probability_gradient(torch.ones(1, 3), torch.ones(1, 3, 2, dtype=torch.bool), torch.full((2,), 0.5), "rloo")
    with pytest.raises(ValidationError, match="at least 2"):
        ScaleHyperparameters(estimator="rloo", copies=1)
    assert ScaleHyperparameters(estimator="pooled", copies=1).copies == 1
