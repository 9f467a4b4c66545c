"""Deep ensembles (Lakshminarayanan, Pritzel and Blundell, NeurIPS 2017) whose members share a learner."""

from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from augbench.bench.predictors.base import Predictor
from augbench.bench.predictors.layers import log_mean_probabilities
from augbench.bench.predictors.members import MemberSettings
from augbench.bench.predictors.sngp import SNGP, SNGPSettings
from augbench.bench.registry.registry import register

E = TypeVar("E", bound=MemberSettings)


class _ScaledGradient(torch.autograd.Function):
    """The values as they are, and their gradient times a factor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.factor, None


class Together(nn.Module):
    """Networks that learn side by side, each as if it were alone.

    The loss is a mean over members, so that their gradients are multiplied with the number of members on the way back,
    and divided by it again where they go on to the images.
    """

    def __init__(self, networks: list[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, images: Tensor) -> Tensor:
        """Map images (N, C, H, W) to the logits of each member, in training, or to log mean probabilities."""
        if not self.training:
            return log_mean_probabilities(network(images) for network in self.networks)
        count = len(self.networks)
        seen = _scaled(images, 1 / count) if images.requires_grad else images
        return _scaled(torch.cat([network(seen) for network in self.networks]), count)


def _scaled(values: Tensor, factor: float) -> Tensor:
    scaled: Tensor = _ScaledGradient.apply(values, factor)
    return scaled


class Ensembled(Predictor[E], Generic[E]):
    """Several networks from different initial weights, each with a predictor of its own."""

    @property
    def members(self) -> int:
        """K."""
        return self.settings.members

    def new_member(self) -> Predictor[Any]:
        """Make what converts the network of a member."""
        return Predictor(self.settings, self.context)

    def convert(self, network: nn.Module) -> nn.Module:
        """Build the other networks; the first member starts as the single network does."""
        self._each = [self.new_member() for _ in range(self.members)]
        networks = [network, *(self.context.build() for _ in self._each[1:])]
        return Together([one.convert(own) for one, own in zip(self._each, networks, strict=True)])

    def start_epoch(self) -> None:
        """Start the epoch of each member."""
        for one in self._each:
            one.start_epoch()


@register("ensemble")
class Ensemble(Ensembled[MemberSettings]):
    """Networks from different initial weights, whose probabilities are averaged.

    They see the same augmented images in the same order and share one learner, whose gradient is the mean over members.
    `ensemble-4` has 4 members. Runs of several seeds, each with a learner of its own, make ensembles without another
    run: `augbench calibrate`.
    """

    title = "4 networks from different initial weights; their mean probability"
    paper = "Lakshminarayanan et al., Simple and Scalable Predictive Uncertainty Estimation, NeurIPS 2017"
    deviations = ("members share the order of the images, their copies and the learner; no adversarial images",)
    settings_type = MemberSettings


class SNGPEnsembleSettings(MemberSettings, SNGPSettings):
    """Settings of an ensemble of spectral-normalised neural Gaussian processes."""


@register("sngp-ensemble")
class SNGPEnsemble(Ensembled[SNGPEnsembleSettings]):
    """Networks of bounded spectral norm with Gaussian processes, each with random features of its own."""

    title = "4 networks as with sngp, from different initial weights; their mean probability"
    paper = SNGP.paper
    deviations = (*SNGP.deviations, *Ensemble.deviations)
    settings_type = SNGPEnsembleSettings

    def new_member(self) -> Predictor[Any]:
        """Make what converts the network of a member."""
        return SNGP(self.settings, self.context)
