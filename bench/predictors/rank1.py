"""Rank-1 Bayesian networks (Dusenberry et al., ICML 2020): BatchEnsemble with random vectors."""

import math

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from augbench.bench.predictors.layers import Draws, OwnRate
from augbench.bench.predictors.members import MemberSettings, SharedWeights
from augbench.bench.registry.registry import register


class Rank1Settings(MemberSettings):
    """Settings of Rank-1 Bayesian networks."""

    samples: int = Field(1, ge=1, le=1000, description="samples of each member in prediction")
    deviation: float = Field(0.0316, gt=0, le=1, description="standard deviation of the factors at the start")
    prior_deviation: float = Field(0.1, gt=0, le=10, description="standard deviation of the prior, whose mean is 1")
    annealed: float = Field(0.8, ge=0, le=1, description="share of the training in which the weight of KL rises to 1")
    rate_factor: float = Field(
        1.0, gt=0, le=10, description="learning rate of the factors as a multiple of the budget's"
    )


class RandomFactors(OwnRate):
    """A normal distribution N(μ, σ²) for each member's factors; μ and ρ are (K, C), with σ = softplus(ρ).

    μ starts at 1 or −1 with equal probability.
    """

    def __init__(self, members: int, size: int, deviation: float, rate_factor: float, draws: Draws) -> None:
        super().__init__()
        self.rate_factor = rate_factor
        self.draws = draws
        self.mean = nn.Parameter(2 * torch.randint(2, (members, size)).float() - 1)
        self.rho = nn.Parameter(torch.full((members, size), math.log(math.expm1(deviation))))

    @property
    def deviation(self) -> Tensor:
        """Standard deviations σ; (K, C)."""
        return F.softplus(self.rho)

    def forward(self, images: int) -> Tensor:
        """Draw factors, member by member: for each image in training, else one for all images; (K·images, C)."""
        if self.training:
            mean, deviation = (one.repeat_interleave(images, 0) for one in (self.mean, self.deviation))
            return mean + deviation * torch.randn_like(mean)
        noise = torch.empty_like(self.mean).normal_(generator=self.draws.source)
        return (self.mean + self.deviation * noise).repeat_interleave(images, 0)

    def divergence(self, prior_deviation: float) -> Tensor:
        """KL(N(μ, σ²) ‖ N(1, prior²)), summed over members and factors, in nats; a scalar."""
        ratio = self.deviation / prior_deviation
        distance = (self.mean - 1) / prior_deviation
        return 0.5 * (ratio.square() + distance.square() - 1 - 2 * ratio.log()).sum()


@register("rank-1")
class Rank1(SharedWeights[Rank1Settings]):
    """BatchEnsemble whose vectors are drawn from N(μ, σ²), for each member and image anew.

    The loss has KL(q ‖ prior) of all vectors, divided by the number of training images, with a weight that rises
    linearly. As σ goes to 0 it is BatchEnsemble with vectors μ.
    """

    title = "BatchEnsemble with vectors from normal distributions that are learned"
    paper = "Dusenberry et al., Efficient and Scalable Bayesian Neural Nets with Rank-1 Factors, ICML 2020"
    deviations = (
        "epochs, steps and weight decay are those of the budget; the published ones are its recipe `rank-1`; μ and σ "
        "do not decay, as published, and KL is annealed over the same share of the training, 200 of 250 epochs",
        "in prediction the vectors of a sample are the same for all images, so that one depends on no other",
    )
    settings_type = Rank1Settings

    @property
    def samples(self) -> int:
        """Samples of each member in prediction."""
        return self.settings.samples

    def factors(self, size: int, draws: Draws) -> OwnRate:
        """Make the distribution of α or γ of a layer."""
        return RandomFactors(self.members, size, self.settings.deviation, self.settings.rate_factor, draws)

    def convert(self, network: nn.Module) -> nn.Module:
        """Give every convolution and linear layer the distributions and biases of the members."""
        changed = super().convert(network)
        self._random = [module for module in changed.modules() if isinstance(module, RandomFactors)]
        return changed

    def regulariser(self, progress: float) -> Tensor:
        """Return the weighted KL of all vectors, divided by the number of images as the losses are."""
        weight = min(1.0, progress / self.settings.annealed) if self.settings.annealed else 1.0
        divergences = [factors.divergence(self.settings.prior_deviation) for factors in self._random]
        return torch.stack(divergences).sum() * (weight / self.context.train_size)
