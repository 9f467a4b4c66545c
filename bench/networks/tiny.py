"""Networks for the demo, for short comparisons and for the tests."""

from torch import nn

from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry.registry import register


@register("tiny")
class Tiny(NetworkSource):
    """Four convolutions of 16 to 64 channels, pooled twice, then averaged over the plane."""

    title = "4 convolutions and 1 linear layer; 26,394 parameters for grey images and 10 classes"

    def build(self, channels: int, classes: int) -> nn.Module:
        """Build the network."""
        return nn.Sequential(*_convolution(channels, 16), *_after_the_first(classes))


@register("tiny-stride2")
class TinyStride2(NetworkSource):
    """`tiny` with a first convolution of 5×5 pixels and stride 2: a quarter of the work, for images of 28 pixels up."""

    title = "4 convolutions and 1 linear layer; 27,450 parameters for colour images and 10 classes"

    def build(self, channels: int, classes: int) -> nn.Module:
        """Build the network."""
        return nn.Sequential(*_convolution(channels, 16, kernel=5, stride=2), *_after_the_first(classes))


def _after_the_first(classes: int) -> tuple[nn.Module, ...]:
    return (
        *_convolution(16, 16),
        nn.MaxPool2d(2),
        *_convolution(16, 32),
        nn.MaxPool2d(2),
        *_convolution(32, 64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )


def _convolution(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
