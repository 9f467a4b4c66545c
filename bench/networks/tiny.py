"""A network for the demo and the tests."""

from torch import nn

from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry.registry import register


@register("tiny")
class Tiny(NetworkSource):
    """Four convolutions of 16 to 64 channels, pooled twice, then averaged over the plane."""

    title = "4 convolutions and 1 linear layer; 26,394 parameters for grey images and 10 classes"

    def build(self, channels: int, classes: int) -> nn.Module:
        """Build the network."""
        return nn.Sequential(
            *_convolution(channels, 16),
            *_convolution(16, 16),
            nn.MaxPool2d(2),
            *_convolution(16, 32),
            nn.MaxPool2d(2),
            *_convolution(32, 64),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, classes),
        )


def _convolution(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
