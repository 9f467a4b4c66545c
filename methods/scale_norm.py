"""SCALE's distribution with Augerino's norm reward."""

import torch
from torch import Tensor

from augbench.bench.contract.search_space import tunable
from augbench.bench.registry.registry import register
from augbench.methods.scale import DISTRIBUTION_DEVIATIONS, DistributionHyperparameters, LearnedDistribution


class ScaleNormHyperparameters(DistributionHyperparameters):
    """Hyperparameters of SCALE with the norm reward; its weights to be tried are those of Augerino."""

    regularisation: float = tunable(
        0.05, low=0.001, high=0.5, log=True, ge=0, le=10, description="weight λ of the norm reward"
    )


@register("scale-norm")
class ScaleNorm(LearnedDistribution[ScaleNormHyperparameters]):
    """Learns probabilities π and ranges α; the objective is the loss − λ‖(π, α)‖₂."""

    title = "probabilities and ranges of seven blocks, norm reward"
    paper = "Learning Augmentation Distributions using Transformed Risk Minimization (TMLR 2023), ablation"
    deviations = (
        *DISTRIBUTION_DEVIATIONS,
        "The paper specifies only SCALE's parametrisation with Augerino's L2 regulariser, which it calls the negative "
        "norm of the parameters of the distribution. Here these are π and α, both in one norm and α in its own unit "
        "(rad, log factor, shear), as Augerino adds up its widths; a norm of α alone would not change π.",
        "Augerino's cut-off is left out, since π stays below 1 and α below its maximum.",
        "The paper states no weight for this row; the default is Augerino's 0.05.",
    )
    hyperparameters_type = ScaleNormHyperparameters

    def regulariser(self) -> Tensor | None:
        """Norm reward −λ‖(π, α)‖₂, with gradients for both."""
        if self.rate == 0:
            return None
        norm: Tensor = torch.cat((self.probabilities, self.ranges)).norm()
        return -self.hyperparameters.regularisation * norm
