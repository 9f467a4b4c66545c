"""Networks: built by name for the images and classes of a data set."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
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


@dataclass(frozen=True)
class NetworkInput:
    """What a network takes behind its normalisation: images (x − mean)/deviation in channels-last memory order.

    Attributes:
        mean: Mean of each channel, of images in [0, 1]; (C,).
        deviation: Standard deviation of each channel; (C,).
        dtype: Type of the normalised images.
    """

    mean: Tensor
    deviation: Tensor
    dtype: torch.dtype


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
