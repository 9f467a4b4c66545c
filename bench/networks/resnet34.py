"""ResNet-34 (He et al., CVPR 2016) for images of 32 pixels instead of 224."""

from torch import nn

from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry.registry import register


@register("resnet34")
class ResNet34(NetworkSource):
    """torchvision's network but for its stem: a 3×3 convolution of stride 1, and no pooling after it.

    The four groups of blocks then work on maps of full, half, quarter and eighth side. The three projections are not
    among the 34 layers of its name.
    """

    title = "36 convolutions and 1 linear layer; 21,282,122 parameters for colour images and 10 classes"

    def build(self, channels: int, classes: int) -> nn.Module:
        """Build the network."""
        from torchvision.models import resnet34  # here, since it takes seconds and few runs need it

        network: nn.Module = resnet34(num_classes=classes)
        network.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        network.maxpool = nn.Identity()
        return network
