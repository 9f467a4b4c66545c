"""BatchEnsemble (Wen et al., ICLR 2020): members that share all weights but two vectors for each layer."""

import torch
from pydantic import Field
from torch import Tensor, nn

from augbench.bench.predictors.layers import Draws, OwnRate
from augbench.bench.predictors.members import MemberSettings, SharedWeights
from augbench.bench.registry.registry import register


class BatchEnsembleSettings(MemberSettings):
    """Settings of BatchEnsemble."""

    deviation: float = Field(0.5, ge=0, le=2, description="standard deviation around 1 of the factors at the start")
    rate_factor: float = Field(
        0.5, gt=0, le=10, description="learning rate of the factors as a multiple of the budget's"
    )


class Factors(OwnRate):
    """A vector for each member, (K, C), that starts from N(1, deviation²)."""

    def __init__(self, members: int, size: int, deviation: float, rate_factor: float) -> None:
        super().__init__()
        self.rate_factor = rate_factor
        self.mean = nn.Parameter(1 + deviation * torch.randn(members, size))

    def forward(self, images: int) -> Tensor:
        """Return the factors of a batch, member by member; (K·images, C)."""
        return self.mean.repeat_interleave(images, 0)


@register("batch-ensemble")
class BatchEnsemble(SharedWeights[BatchEnsembleSettings]):
    """K networks in one: y_k = ((x ∘ α_k) · W) ∘ γ_k + b_k in every convolution and linear layer.

    The members share W and the normalisation layers, over a batch that has every image once for each member. Their
    losses are averaged in training, their probabilities in prediction. With all factors 1 and equal biases it is the
    plain network.
    """

    title = "4 members that share weights, with vectors of their own in each layer"
    paper = "Wen et al., BatchEnsemble, ICLR 2020; constants of Nado et al., Uncertainty Baselines, 2021"
    deviations = (
        "epochs, steps and weight decay are those of the budget; the published ones are its recipe `batch-ensemble`; α "
        "and γ do not decay, as published",
    )
    settings_type = BatchEnsembleSettings

    def factors(self, size: int, draws: Draws) -> OwnRate:
        """Make α or γ of a layer."""
        return Factors(self.members, size, self.settings.deviation, self.settings.rate_factor)
