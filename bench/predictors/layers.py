"""What predictors share: finding and replacing layers, and averaging over passes of the same images."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from augbench.bench.common.errors import UserError
from augbench.bench.common.randomness import generator
from augbench.bench.networks.base import NORMS
from augbench.bench.predictors.base import PredictorContext

Weighted = nn.Conv2d | nn.Linear


class OwnRate(nn.Module):
    """A module whose own parameters do not decay, and are stepped with a multiple of the network's learning rate.

    Attributes:
        rate_factor: The multiple.
    """

    rate_factor: float = 1.0


def weighted_layers(network: nn.Module) -> list[tuple[str, Weighted]]:
    """Name the convolutions and linear layers in the order in which they are registered."""
    return [(name, module) for name, module in network.named_modules() if isinstance(module, nn.Conv2d | nn.Linear)]


def hidden_places(network: nn.Module) -> list[tuple[str, Weighted]]:
    """Name the layers whose input is hidden: linear layers and convolutions of more than one pixel, but for the first.

    Convolutions of one pixel project the shortcuts of residual networks, which are left alone.
    """
    return [
        (name, layer)
        for name, layer in weighted_layers(network)[1:]
        if not isinstance(layer, nn.Conv2d) or max(layer.kernel_size) > 1
    ]


def replace_layer(network: nn.Module, name: str, layer: nn.Module) -> None:
    """Put a layer in the place of the one with a name."""
    parent, _, own = name.rpartition(".")
    setattr(network.get_submodule(parent), own, layer)


def check_layers(network: nn.Module, predictor: str, context: PredictorContext) -> None:
    """Make sure that all weights are in layers that predictors with members can carry.

    Raises:
        UserError: Naming the first layer with other weights.
    """
    for name, module in network.named_modules():
        owns = next(module.parameters(recurse=False), None) is not None
        if owns and type(module) not in (nn.Conv2d, nn.Linear) and not isinstance(module, NORMS):
            raise not_carried(
                predictor,
                context,
                f"its layer {name or 'at the top'!r} is a {type(module).__name__} with weights of its own; only "
                "Conv2d, Linear and normalisation layers can be carried",
            )


def not_carried(predictor: str, context: PredictorContext, why: str) -> UserError:
    """Say that a network cannot be used with a predictor."""
    return UserError(
        f"The network {context.network!r} cannot be used with the predictor {predictor!r}: {why}. Choose another "
        "network (`augbench list networks`) or another predictor (`augbench list predictors`) in the suite."
    )


class Draws:
    """The source of what layers draw in evaluation; all layers of a network share it.

    Attributes:
        seed: Seed of the run.
        source: The generator of the present sample.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.source = torch.Generator()

    def begin(self, sample: int, device: torch.device) -> None:
        """Begin a sample, counted from 0: the same one draws the same again."""
        self.source = generator(self.seed, f"prediction/{sample}", device)


class Dropout(nn.Module):
    """Dropout that is on in evaluation too, with one mask for all images of a sample.

    Kept values are scaled by 1 / (1 − rate), as in torch.
    """

    def __init__(self, rate: float, draws: Draws) -> None:
        super().__init__()
        self.rate = rate
        self.draws = draws

    def forward(self, features: Tensor) -> Tensor:
        """Map features (N, …) to features of the same shape."""
        if self.training or not self.rate:
            return nn.functional.dropout(features, self.rate, self.training)
        one = torch.ones_like(features[:1])
        kept = one.bernoulli_(1 - self.rate, generator=self.draws.source)
        return features * (kept / (1 - self.rate))


class Averaged(nn.Module):
    """A network whose prediction is a mean of probabilities, over members within a pass and over passes.

    Attributes:
        network: From images (K·N, C, H, W), member by member, to logits (K·N, classes).
        members: K.
        passes: Passes in evaluation.
        draws: What layers draw from in evaluation.
    """

    def __init__(self, network: nn.Module, draws: Draws, members: int = 1, passes: int = 1) -> None:
        super().__init__()
        self.network = network
        self.draws = draws
        self.members = members
        self.passes = passes

    def forward(self, images: Tensor) -> Tensor:
        """Map images (N, C, H, W) to the logits of each member, in training, or to log mean probabilities."""
        if self.training:
            logits: Tensor = self.network(self._tiled(images))
            return logits
        return log_mean_probabilities(self._passes(images))

    def _passes(self, images: Tensor) -> Iterator[Tensor]:
        for sample in range(self.passes):
            self.draws.begin(sample, images.device)
            yield from self.network(self._tiled(images)).view(self.members, len(images), -1)

    def _tiled(self, images: Tensor) -> Tensor:
        return images if self.members == 1 else images.repeat(self.members, 1, 1, 1)


def log_mean_probabilities(logits: Iterator[Tensor]) -> Tensor:
    """Logarithm of the mean over logits (N, classes) of their softmax; a single one is returned as it is."""
    first, *others = logits
    if not others:
        return first
    every = torch.stack([first, *others]).log_softmax(-1)
    return every.logsumexp(0) - math.log(len(every))
