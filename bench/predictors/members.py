"""Members that share weights: what BatchEnsemble and Rank-1 networks have in common."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from pydantic import Field
from torch import Tensor, nn

from augbench.bench.predictors.base import Predictor, PredictorSettings
from augbench.bench.predictors.layers import (
    Averaged,
    Draws,
    OwnRate,
    Weighted,
    check_layers,
    replace_layer,
    weighted_layers,
)


class MemberSettings(PredictorSettings):
    """Settings of predictors with members."""

    members: int = Field(4, ge=2, le=64, description="members K")


M = TypeVar("M", bound=MemberSettings)


class MemberLayer(nn.Module):
    """A convolution or linear layer of K members: (x ∘ α) · W ∘ γ + b, for a batch (K·N, …) member by member.

    Attributes:
        layer: The layer, whose weight W the members share.
        alpha: Makes the factors of the inputs of N images; (K·N, inputs).
        gamma: Makes the factors of their outputs; (K·N, outputs).
        bias: Bias of each member, (K, outputs), where the layer had one.
    """

    def __init__(self, layer: Weighted, members: int, alpha: nn.Module, gamma: nn.Module) -> None:
        super().__init__()
        self.members = members
        self.layer = layer
        self.alpha = alpha
        self.gamma = gamma
        self.bias = None if layer.bias is None else nn.Parameter(layer.bias.detach().repeat(members, 1))
        layer.register_parameter("bias", None)

    def forward(self, features: Tensor) -> Tensor:
        """Map features (K·N, inputs, H, W), or (K·N, …, inputs) of a linear layer, to outputs in their place."""
        images = len(features) // self.members
        output: Tensor = self.layer(features * self._spread(self.alpha(images), features.ndim))
        output = output * self._spread(self.gamma(images), features.ndim)
        if self.bias is None:
            return output
        return output + self._spread(self.bias.repeat_interleave(images, 0), features.ndim)

    def _spread(self, values: Tensor, dimensions: int) -> Tensor:
        """Give values (K·N, C) as many dimensions as the features that they act on."""
        ones = (1,) * (dimensions - 2)
        size = (*ones, values.shape[1]) if isinstance(self.layer, nn.Linear) else (values.shape[1], *ones)
        return values.view(len(values), *size)


class SharedWeights(Predictor[M], ABC, Generic[M]):
    """A predictor whose members share the weights and have vectors of their own in every layer."""

    @property
    def members(self) -> int:
        """K."""
        return self.settings.members

    @property
    def samples(self) -> int:
        """Samples of each member in prediction."""
        return 1

    @property
    def evaluation_passes(self) -> int:
        """Every sample of every member."""
        return self.members * self.samples

    @abstractmethod
    def factors(self, size: int, draws: Draws) -> OwnRate:
        """Make what draws or holds the vectors of a layer, of `size` numbers each."""

    def convert(self, network: nn.Module) -> nn.Module:
        """Give every convolution and linear layer the vectors and biases of the members."""
        check_layers(network, self.name, self.context)
        draws = Draws(self.context.seed)
        for name, layer in weighted_layers(network):
            inputs, outputs = (
                layer.weight.shape[1] * (layer.groups if isinstance(layer, nn.Conv2d) else 1),
                len(layer.weight),
            )
            alpha, gamma = self.factors(inputs, draws), self.factors(outputs, draws)
            replace_layer(network, name, MemberLayer(layer, self.members, alpha, gamma))
        return Averaged(network, draws, self.members, self.samples)
