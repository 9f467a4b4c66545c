"""Wide residual networks (Zagoruyko and Komodakis, BMVC 2016), without dropout."""

from typing import ClassVar

from torch import Tensor, nn

from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry.registry import register


class WideResNet(NetworkSource):
    """Three groups of pre-activated blocks on maps of full, half and quarter side, then averaged over the plane.

    Table 1 of the paper with blocks B(3, 3). WRN-d-k has d convolutions: the first, d − 4 in blocks and a projection at
    the head of each group. Convolutions start as in He et al. 2015, scaled by the outputs, the linear layer as in torch
    but with a bias of 0. The original code draws the first scales of batch normalisation from U(0, 1); here they are 1.

    Attributes:
        depth: Number of convolutions d, 4 more than a multiple of 6.
        width: Factor k: the groups have 16k, 32k and 64k channels.
    """

    depth: ClassVar[int]
    width: ClassVar[int]

    def build(self, channels: int, classes: int) -> nn.Module:
        """Build the network."""
        blocks = (self.depth - 4) // 6
        small, medium, large = 16 * self.width, 32 * self.width, 64 * self.width
        linear = nn.Linear(large, classes)
        nn.init.zeros_(linear.bias)
        return nn.Sequential(
            _convolution(channels, 16, kernel=3),
            _group(16, small, blocks, stride=1),
            _group(small, medium, blocks, stride=2),
            _group(medium, large, blocks, stride=2),
            *_activation(large),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            linear,
        )


@register("wrn-16-4")
class WideResNet16x4(WideResNet):
    """WRN-16-4: 2 blocks in each group, 64 to 256 channels."""

    title = "16 convolutions and 1 linear layer; 2,748,890 parameters for colour images and 10 classes"
    depth = 16
    width = 4


@register("wrn-28-10")
class WideResNet28x10(WideResNet):
    """WRN-28-10: 4 blocks in each group, 160 to 640 channels."""

    title = "28 convolutions and 1 linear layer; 36,479,194 parameters for colour images and 10 classes"
    depth = 28
    width = 10


@register("wrn-40-2")
class WideResNet40x2(WideResNet):
    """WRN-40-2: 6 blocks in each group, 32 to 128 channels."""

    title = "40 convolutions and 1 linear layer; 2,243,546 parameters for colour images and 10 classes"
    depth = 40
    width = 2


class _Block(nn.Module):
    """Two convolutions, each after normalisation and ReLU, whose output is added to the block's input.

    Where the shape changes, it is added to a projection of the normalised input after ReLU, as in the original code.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.activation = nn.Sequential(*_activation(inputs))
        self.convolutions = nn.Sequential(
            _convolution(inputs, outputs, kernel=3, stride=stride),
            *_activation(outputs),
            _convolution(outputs, outputs, kernel=3),
        )
        changes = inputs != outputs or stride != 1
        self.projection = _convolution(inputs, outputs, kernel=1, stride=stride) if changes else None

    def forward(self, features: Tensor) -> Tensor:
        """Map features (N, inputs, H, W) to (N, outputs, ⌈H / stride⌉, ⌈W / stride⌉)."""
        activated = self.activation(features)
        shortcut = features if self.projection is None else self.projection(activated)
        combined: Tensor = shortcut + self.convolutions(activated)
        return combined


def _group(inputs: int, outputs: int, blocks: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        _Block(inputs, outputs, stride),
        *(_Block(outputs, outputs, stride=1) for _ in range(blocks - 1)),
    )


def _activation(channels: int) -> tuple[nn.Module, ...]:
    return nn.BatchNorm2d(channels), nn.ReLU(inplace=True)


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return convolution
