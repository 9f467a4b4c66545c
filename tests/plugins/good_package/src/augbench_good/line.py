"""A network of one linear layer."""

from torch import nn

from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry.registry import register


@register("line")
class Line(NetworkSource):
    """One linear layer on the average over blocks of pixels."""

    title = "one linear layer"

    def build(self, channels: int, classes: int) -> nn.Module:
        """Build the network."""
        return nn.Sequential(nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(49 * channels, classes))
