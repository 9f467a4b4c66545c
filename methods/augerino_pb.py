"""Augerino's widths with SCALE's PAC-Bayes regulariser."""

import torch
from torch import Tensor

from augbench.bench.augmentation.affine_space import Space
from augbench.bench.augmentation.generators import GENERATORS
from augbench.bench.contract.method import AugmentedBatch, RunContext
from augbench.bench.contract.search_space import tunable
from augbench.bench.registry.registry import register
from augbench.methods.augerino import (
    WIDTHS_DEVIATIONS,
    LearnedWidths,
    WidthHyperparameters,
    inverse_softplus,
)


class AugerinoPacBayesHyperparameters(WidthHyperparameters):
    """Hyperparameters of Augerino with the PAC-Bayes regulariser; its weights to be tried are those of SCALE."""

    regularisation: float = tunable(
        0.006, low=0.001, high=0.1, log=True, ge=0, le=10, description="weight λ_reg of the PAC-Bayes regulariser"
    )


@register("augerino-pb")
class AugerinoPacBayes(LearnedWidths[AugerinoPacBayesHyperparameters]):
    """Learns Augerino's widths; the objective is the loss + λ_reg·Σ_g log(A_g/α_g), with α = w/2 ≤ A.

    This is theorem 3.1 for coefficients that are always drawn (π = 1). There K_g = −log(1−β) + log(A_g/α_g): the first
    term is a constant, left out, and so is log A_g as far as gradients go, which are −1/α_g for every generator. A
    maximum acts only as the bound that α_g is projected onto after each step.
    """

    title = "uniform law over six generators, PAC-Bayes regulariser"
    paper = "Learning Augmentation Distributions using Transformed Risk Minimization (TMLR 2023), ablation"
    deviations = (
        *WIDTHS_DEVIATIONS,
        "The paper specifies only Augerino's parametrisation with the PAC-Bayes regulariser, without flips. Widths "
        "start and step as Augerino's do, by Adam, and are then projected as in SCALE's algorithm.",
        "The paper states no maxima: they are those of the affine space, and for the translations the largest shift of "
        "its crop.",
    )
    hyperparameters_type = AugerinoPacBayesHyperparameters

    def __init__(self, hyperparameters: AugerinoPacBayesHyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.maxima = _maxima(context.space, hyperparameters.translation_scale).to(context.device)
        self.largest_raw_width = inverse_softplus(2 * self.maxima)
        self._project()

    def regulariser(self) -> Tensor:
        """λ_reg·Σ_g log(A_g/α_g), at least 0."""
        divergence = (self.maxima / (self.width / 2)).log().sum()
        return self.hyperparameters.regularisation * divergence

    def after_backward(self, losses: Tensor, copies: AugmentedBatch) -> None:
        """Step the widths and project them."""
        super().after_backward(losses, copies)
        self._project()

    @torch.no_grad()
    def _project(self) -> None:
        self.raw_width.copy_(torch.minimum(self.raw_width, self.largest_raw_width))


def _maxima(space: Space, translation_scale: float) -> Tensor:
    """Largest coefficient A of each generator, in the order of GENERATORS; (6,)."""
    shift = 2 * space.padding / space.image_size  # the image is 2 wide
    maxima = {
        "x-translation": shift / translation_scale,
        "y-translation": shift / translation_scale,
        "rotation": space.maximum_rotation,
        "uniform-scale": space.maximum_log_scale,
        "stretch": space.maximum_log_scale,
        "symmetric-shear": space.maximum_shear,
    }
    return torch.tensor([maxima[name] for name in GENERATORS])
