"""The network of Augerino's experiments on rotated digits."""

from torch import nn

from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry.registry import register


@register("smallnet")
class SmallNet(NetworkSource):
    """Five convolutions of 128 to 256 channels with dropout, pooled twice, then averaged over the plane."""

    title = "5 convolutions and 1 linear layer; 1,628,810 parameters for grey images and 10 classes"

    def build(self, channels: int, classes: int) -> nn.Module:
        """Build the network."""
        return nn.Sequential(
            *_convolution(channels, 128),
            *_convolution(128, 128),
            *_convolution(128, 256),
            nn.MaxPool2d(2),
            nn.Dropout2d(0.3),
            *_convolution(256, 256),
            nn.MaxPool2d(2),
            nn.Dropout2d(0.3),
            *_convolution(256, 256),
            nn.Dropout2d(0.3),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(256, classes),
        )


def _convolution(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
