"""Augerino: widths of uniform distributions over six Lie-algebra generators, pushed up by a norm reward."""

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import resample, to_unit_interval
from augbench.bench.augmentation.generators import GENERATORS, exponential, generator_matrices
from augbench.bench.augmentation.policy_description import AffinePolicy
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Method, Policy, RunContext, repeat
from augbench.bench.contract.search_space import tunable
from augbench.bench.registry.registry import register


class WidthHyperparameters(Hyperparameters):
    """Hyperparameters of every learner of widths.

    Rates to be tried: from a tenth of what the author advises to what his script has.
    """

    learning_rate: float = tunable(
        0.01, low=0.001, high=0.1, log=True, gt=0, le=1, description="rate of Adam for the widths"
    )
    initial_width: float = Field(0.0067, gt=0, lt=10, description="full width of every uniform law at the start")
    initial_rotation_width: float = Field(1.313, gt=0, lt=10, description="the same for the rotation, in radians")
    translation_scale: float = Field(0.1, gt=0, le=1, description="factor on both translations, half images per unit")


class AugerinoHyperparameters(WidthHyperparameters):
    """Hyperparameters of Augerino.

    Weights to be tried: the authors' code and notebooks have 0.001 to 0.1; smaller data ask for more.
    """

    regularisation: float = tunable(
        0.05, low=0.001, high=0.5, log=True, ge=0, le=10, description="weight λ of the norm reward"
    )
    cut_off: float = Field(10.0, gt=0, description="the reward stops as soon as any width reaches this")


W = TypeVar("W", bound=WidthHyperparameters)

WIDTHS_DEVIATIONS: tuple[str, ...] = (
    "Learns in its own space, the six generators of the authors' code, and not in the shared one. Widths start "
    "where the authors' script for rotated digits has them: softplus(1) for the rotation, softplus(−5) otherwise.",
    "Images are resampled before they are normalised, black outside, with align_corners=False, as for every other "
    "method here; the authors' code resamples normalised images, with align_corners=True.",
    "One copy of each image in training, as in the authors' code, unless the budget asks for more.",
    "Test-time augmentation averages probabilities, as for every other method; the authors' code averages "
    "log-probabilities.",
    "The widths have a learning rate of their own; the authors' code shares the network's. The default 0.01 is the "
    "author's advice; his script has 0.1.",
)


class LearnedWidths(Method[W]):
    """Learns the full width w of a uniform distribution U[−w/2, w/2] for each generator by reparametrisation.

    A draw is one matrix exponential of the weighted sum of the generators, and w = softplus(raw width). Subclasses
    decide what pushes the widths up.
    """

    def __init__(self, hyperparameters: W, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        width = torch.full((len(GENERATORS),), hyperparameters.initial_width, device=context.device)
        width[GENERATORS.index("rotation")] = hyperparameters.initial_rotation_width
        self.raw_width = inverse_softplus(width).requires_grad_()
        self.generators = generator_matrices(hyperparameters.translation_scale, context.device)
        self.learnable = {"raw_width": self.raw_width}
        self.optimizers = {"widths": torch.optim.Adam([self.raw_width], lr=hyperparameters.learning_rate)}

    @property
    def width(self) -> Tensor:
        """Full widths of the uniform distributions; (6,)."""
        return F.softplus(self.raw_width)

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Make the augmented copies, differentiable in the widths."""
        return AugmentedBatch(self._transform(repeat(images, self.copies), generator))

    def _transform(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return resample(to_unit_interval(images), self._draw_matrices(len(images), generator))

    def _draw_matrices(self, count: int, generator: torch.Generator) -> Tensor:
        """Matrices from output to input coordinates; (N, 2, 3)."""
        uniform = torch.rand(count, len(GENERATORS), device=self.width.device, generator=generator)
        coefficients = self.width * (uniform - 0.5)
        sums = torch.einsum("ng,gij->nij", coefficients, self.generators)
        return exponential(sums)[:, :2]

    def after_backward(self, losses: Tensor, copies: AugmentedBatch) -> None:
        """Step the widths."""
        self.optimizers["widths"].step()
        self.optimizers["widths"].zero_grad()

    def test_policy(self) -> Policy:
        """Draw from the learned distribution."""
        return self._transform

    def sample_transforms(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw from the learned distribution, which is the same for a transform and its inverse."""
        return self._draw_matrices(count, generator).detach()

    def describe_policy(self) -> AffinePolicy:
        """The learned distribution."""
        return self.policy_of(self.learned())

    def policy_of(self, learned: Mapping[str, float]) -> AffinePolicy:
        """Describe the distribution with these learned numbers, as `learned` names them."""
        half_widths: Any = {name: learned[f"range/{name}"] for name in GENERATORS}
        return AffinePolicy(generators=half_widths)

    def learned(self) -> dict[str, float]:
        """Half-widths of the uniform distributions; translations in half images."""
        scale = {"x-translation": self.hyperparameters.translation_scale}
        scale["y-translation"] = self.hyperparameters.translation_scale
        widths = zip(GENERATORS, self.width.tolist(), strict=True)
        return {f"range/{name}": scale.get(name, 1.0) * width / 2 for name, width in widths}


@register("augerino")
class Augerino(LearnedWidths[AugerinoHyperparameters]):
    """Learns widths of uniform distributions over six generators of affine maps; the objective is the loss − λ‖w‖₂."""

    title = "uniform law over six generators, norm reward"
    paper = "Benton et al., Learning Invariances in Neural Networks from Training Data (NeurIPS 2020)"
    deviations = (
        *WIDTHS_DEVIATIONS,
        "The default weight 0.05 is the middle one of the authors' notebooks; their scripts have 0.1 and 0.01.",
    )
    hyperparameters_type = AugerinoHyperparameters

    def regulariser(self) -> Tensor:
        """Norm reward −λ‖w‖₂, switched off while any width is at the cut-off or above."""
        within = (self.width.detach() < self.hyperparameters.cut_off).all()
        reward: Tensor = self.hyperparameters.regularisation * self.width.norm() * within
        return -reward


def inverse_softplus(width: Tensor) -> Tensor:
    """Solve w = log(1 + eʳ) for r; widths must be positive."""
    return torch.where(width > 20, width, width.expm1().log())  # torch's softplus is the identity above 20
