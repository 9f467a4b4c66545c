"""Networks: built by name for the images and classes of a data set."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from augbench.bench.common.errors import UserError

NORMS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
"""Normalisation layers: batch and instance normalisation are of the first kind."""

LARGEST_TRIED = 64  # pixels a side, to find out whether a network needs larger images


class NetworkSource(ABC):
    """A network that can be built by name.

    Attributes:
        name: The registered name; set by the decorator.
        version: To be raised whenever the network changes; part of a run's identity.
        title: One line for tables and lists.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from augbench import NetworkSource
        >>> class Linear(NetworkSource):
        ...     def build(self, channels, classes):
        ...         return nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * channels, classes))
        >>> Linear().build(channels=3, classes=10)(torch.zeros(8, 3, 32, 32)).shape
        torch.Size([8, 10])
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    title: ClassVar[str] = ""

    @abstractmethod
    def build(self, channels: int, classes: int) -> nn.Module:
        """Build the network, freshly initialised from torch's global generator.

        Args:
            channels: Colour channels of the images.
            classes: Number of outputs.

        Returns:
            A module from normalised images (N, C, H, W) to logits (N, classes).
        """

    def prepare(self, network: nn.Module, images: Tensor) -> None:  # noqa: B027 - most networks need nothing
        """Set what depends on the training images, before the first step; nothing by default.

        Args:
            network: What `build` has returned.
            images: Some training images, normalised; (N, C, H, W), the same for every seed.
        """


class Normalised(nn.Module):
    """A network that takes images in [0, 1] and normalises them itself; in channels-last memory order, for speed.

    Attributes:
        memory_format: Memory order of its weights and of the images that it gets.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, network: nn.Module, mean: Tensor, deviation: Tensor, channels_last: bool = True) -> None:
        super().__init__()
        self.memory_format = torch.channels_last if channels_last else torch.contiguous_format
        self.network = network.to(memory_format=self.memory_format)
        self.register_buffer("mean", mean.view(-1, 1, 1))
        self.register_buffer("deviation", deviation.view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Map images (N, C, H, W) in [0, 1] to logits (N, classes)."""
        return self.on_normalised((images - self.mean) / self.deviation)

    def on_normalised(self, images: Tensor) -> Tensor:
        """Map images (N, C, H, W) that are normalised already to logits (N, classes)."""
        logits: Tensor = self.network(images.contiguous(memory_format=self.memory_format))
        return logits


def build_checked(
    source: NetworkSource, channels: int, side: int, outputs: int, device: torch.device | str = "cpu"
) -> nn.Module:
    """Build a network and pass two black images through it, in evaluation mode, to see that it returns logits.

    Neither the network nor the global random state is changed by the images.

    Args:
        source: What builds it.
        channels: Colour channels of the images.
        side: Height and width of the images, in pixels.
        outputs: Logits for each image.
        device: Where it is to live.

    Raises:
        UserError: If `build` returns no module, the module no logits, or it needs larger images.
    """
    network: object = source.build(channels, outputs)
    if not isinstance(network, nn.Module):
        raise _unusable(source, f"its `build` returned {type(network).__name__}; it must return a torch.nn.Module")
    network.to(device)
    training = network.training
    with torch.random.fork_rng([device] if torch.device(device).type == "cuda" else []), torch.no_grad():
        logits = _logits(source, network.eval(), torch.zeros(2, channels, side, side, device=device))
    network.train(training)
    found = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"type {type(logits).__name__}"
    if found != f"shape {(2, outputs)}":
        text = f"for 2 images it returned something of {found}; it must return logits of shape {(2, outputs)}"
        raise _unusable(source, text)
    return network


def _logits(source: NetworkSource, network: nn.Module, images: Tensor) -> object:
    try:
        return network(images)
    except (RuntimeError, ValueError):  # how torch refuses shapes
        side = images.shape[-1]
        needed = next((larger for larger in range(side + 1, LARGEST_TRIED + 1) if _takes(network, images, larger)), 0)
        if not needed:  # something else is wrong with it
            raise
        raise UserError(
            f"The network {source.name!r} cannot take images of {side}×{side} pixels: it needs at least {needed} "
            "pixels a side. Choose another network (`augbench list networks`) or larger images in the suite."
        ) from None


def _takes(network: nn.Module, images: Tensor, side: int) -> bool:
    try:
        network(images.new_zeros(*images.shape[:2], side, side))
    except (RuntimeError, ValueError):
        return False
    return True


def _unusable(source: NetworkSource, problem: str) -> UserError:
    return UserError(f"The network {source.name!r} cannot be used: {problem}. Correct it, then repeat the command.")
