"""Residual networks (He et al., CVPR 2016) for images of 32 pixels instead of 224."""

from typing import ClassVar

from torch import nn

from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry.registry import register


class ResNet(NetworkSource):
    """torchvision's network but for its stem: a 3×3 convolution of stride 1, and no pooling after it.

    The four groups of blocks then work on maps of full, half, quarter and eighth side. The three projections are not
    among the layers of its name.

    Attributes:
        depth: The number in the name of torchvision's function.
    """

    depth: ClassVar[int]

    def build(self, channels: int, classes: int) -> nn.Module:
        """Build the network."""
        from torchvision import models  # here, since it takes seconds and few runs need it

        network: nn.Module = getattr(models, f"resnet{self.depth}")(num_classes=classes)
        network.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        network.maxpool = nn.Identity()
        return network


@register("resnet18")
class ResNet18(ResNet):
    """ResNet-18: 2 blocks in each group, 64 to 512 channels."""

    title = "20 convolutions and 1 linear layer; 11,173,962 parameters for colour images and 10 classes"
    depth = 18


@register("resnet34")
class ResNet34(ResNet):
    """ResNet-34: 3, 4, 6 and 3 blocks in the groups, 64 to 512 channels."""

    title = "36 convolutions and 1 linear layer; 21,282,122 parameters for colour images and 10 classes"
    depth = 34
