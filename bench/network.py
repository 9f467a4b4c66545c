"""Networks: built by name for the images and classes of a data set."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn


class NetworkSource(ABC):
    """A network that can be built by name.

    Attributes:
        name: The registered name; set by the decorator.
        version: To be raised whenever the network changes; part of a run's identity.
        title: One line for tables and lists.
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


class Normalised(nn.Module):
    """A network that takes images in [0, 1] and normalises them itself; in channels-last memory order, for speed."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, network: nn.Module, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.network = network.to(memory_format=torch.channels_last)
        self.register_buffer("mean", mean.view(-1, 1, 1))
        self.register_buffer("deviation", deviation.view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Map images (N, C, H, W) in [0, 1] to logits (N, classes)."""
        normalised = (images - self.mean) / self.deviation
        logits: Tensor = self.network(normalised.contiguous(memory_format=torch.channels_last))
        return logits
