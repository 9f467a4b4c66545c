"""Networks that train in few passes, in the manner of airbench (Jordan 2024, arXiv 2404.00498), without augmentation.

What makes them fast is how they begin: the first layer whitens patches of 2×2 pixels of the training images and stays
as it is, and later convolutions begin by passing on their inputs. Flips, translations and cutout are augmentation: here
they belong to the base of a comparison. Unlike in the published code, patches are centred before they are whitened, the
biases of the first layer learn to the end, and batch normalisation forgets as fast in all three sizes.
"""

from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry.registry import register

PATCH = 2  # pixels a side of the patches that are whitened
MOST_PATCHES = 1_000_000  # that the covariance is estimated from
FLOOR = 5e-4  # added to the variances of whitened patches, as in airbench
LOGIT_SCALE = 1 / 9
NORM_MOMENTUM = 0.4  # of the new batch; airbench calls it 0.6, of the old ones


class FastCnn(NetworkSource):
    """Whitened patches, then groups of 3×3 convolutions on maps of half, quarter and eighth side.

    Attributes:
        widths: Channels of each group.
        depth: Convolutions of each group; with three, the last one adds to what the first has found.
    """

    widths: ClassVar[tuple[int, ...]]
    depth: ClassVar[int] = 2

    def build(self, channels: int, classes: int) -> nn.Module:
        """Build the network; the whitening is an identity until `prepare` has seen images."""
        whitened = 2 * channels * PATCH**2
        sizes = (whitened, *self.widths)
        groups = [_Group(*pair, self.depth) for pair in pairwise(sizes)]
        head = (nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(self.widths[-1], classes, bias=False))
        return nn.Sequential(_whitening(channels), nn.GELU(), *groups, *head, _Scale(LOGIT_SCALE))

    def prepare(self, network: nn.Module, images: Tensor) -> None:
        """Whiten patches: rows of the first layer are principal axes over their deviations, and their negatives.

        Args:
            network: What `build` has returned.
            images: Some training images, normalised; (N, C, H, W).
        """
        first = network[0]  # type: ignore[index]
        weight = whitening_weight(images.detach().double().cpu())
        with torch.no_grad():
            first.weight.copy_(torch.cat((weight, -weight)))


def whitening_weight(images: Tensor) -> Tensor:
    """Find the convolution that whitens patches of 2×2 pixels: its outputs are uncorrelated, with variance almost 1.

    Args:
        images: (N, C, H, W), float64, on the CPU.

    Returns:
        Principal axes, largest variance last, each over √(variance + 5e-4); (4·C, C, 2, 2).
    """
    channels = images.shape[1]
    patches = images.unfold(2, PATCH, 1).unfold(3, PATCH, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, channels * PATCH**2)
    patches = patches[:: -(-len(patches) // MOST_PATCHES)]
    centred = patches - patches.mean(0)
    variances, axes = torch.linalg.eigh(centred.T @ centred / len(patches))
    signs = axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()  # of the largest entry, which eigh leaves open
    rows: Tensor = (axes * signs / (variances + FLOOR).sqrt()).T
    return rows.reshape(-1, channels, PATCH, PATCH)


def _whitening(channels: int) -> nn.Conv2d:
    """The first layer, whose weights stay what `prepare` makes them; its biases are learned."""
    count = channels * PATCH**2
    layer = nn.Conv2d(channels, 2 * count, PATCH)
    identity = torch.eye(count).reshape(-1, channels, PATCH, PATCH)
    with torch.no_grad():
        layer.weight.copy_(torch.cat((identity, -identity)))
        layer.bias.zero_()  # type: ignore[union-attr]
    layer.weight.requires_grad_(False)
    return layer


class _Group(nn.Module):
    """Two or three convolutions, pooled after the first; with three, what the first has found is added to the last."""

    def __init__(self, inputs: int, outputs: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Sequential(_convolution(inputs, outputs), nn.MaxPool2d(2), _norm(outputs), nn.GELU())
        self.second = nn.Sequential(_convolution(outputs, outputs), _norm(outputs), nn.GELU())
        self.third = nn.Sequential(_convolution(outputs, outputs), _norm(outputs)) if depth == 3 else None

    def forward(self, maps: Tensor) -> Tensor:
        """Map (N, inputs, S, S) to (N, outputs, S/2, S/2)."""
        found = self.first(maps)
        second: Tensor = self.second(found)
        return second if self.third is None else nn.functional.gelu(self.third(second) + found)


def _convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """A convolution whose first outputs are its inputs (Dirac's delta), the others as in torch."""
    layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    with torch.no_grad():
        nn.init.dirac_(layer.weight[:inputs])
    return layer


def _norm(channels: int) -> nn.BatchNorm2d:
    """Batch normalisation that learns its biases; its scales stay 1."""
    layer = nn.BatchNorm2d(channels, eps=1e-12, momentum=NORM_MOMENTUM)
    layer.weight.requires_grad_(False)
    return layer


class _Scale(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, logits: Tensor) -> Tensor:
        """Multiply logits by the factor."""
        return logits * self.factor


@register("fast-cnn-s")
class FastCnnS(FastCnn):
    """Two groups of 24 and 48 channels, for images of 14 to 16 pixels on a CPU."""

    title = "5 convolutions and 1 linear layer; 38,824 parameters for grey images and 10 classes"
    widths = (24, 48)


@register("fast-cnn-m")
class FastCnnM(FastCnn):
    """Three groups of 64, 256 and 256 channels: airbench94."""

    title = "7 convolutions and 1 linear layer; 1,972,792 parameters for colour images and 10 classes"
    widths = (64, 256, 256)


@register("fast-cnn-l")
class FastCnnL(FastCnn):
    """Three groups of three convolutions with 128, 384 and 512 channels: airbench96."""

    title = "10 convolutions and 1 linear layer; 9,918,776 parameters for colour images and 10 classes"
    widths = (128, 384, 512)
    depth = 3
