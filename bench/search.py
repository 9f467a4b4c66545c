"""What a method may use in a search phase before training, and how it draws batches there."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from augbench.bench.dataset import Split


class BuildNetwork(Protocol):
    """Makes a freshly initialised network that takes images in [0, 1], normalisation inside."""

    def __call__(self, name: str | None = None, outputs: int | None = None) -> nn.Module:
        """Build a network.

        Args:
            name: A registered network, the run's own by default.
            outputs: Outputs for each image, as many as classes by default.
        """


@dataclass(frozen=True)
class SearchProblem:
    """What a search phase may use: training images only, some of them held out. Test images never get here.

    Attributes:
        train: Images to fit networks on.
        validation: Images held out from training for the search; fixed for a data set.
        build_network: Makes a freshly initialised network.
        generator: Source of randomness on the device.
        count_passes: To be told how many images went through a network, step by step: this is also where a
            search can be interrupted.
    """

    train: Split
    validation: Split
    build_network: BuildNetwork
    generator: torch.Generator
    count_passes: Callable[[int], None]


def shuffled_batches(split: Split, size: int, generator: torch.Generator) -> Iterator[Split]:
    """Yield batches without end, each pass over the images in a new order; passes end with a smaller batch.

    Args:
        split: The images.
        size: Images in a batch.
        generator: Source of randomness on the images' device.
    """
    while True:
        order = torch.randperm(len(split), device=split.labels.device, generator=generator)
        for batch in order.split(size):
            yield split.subset(batch)
