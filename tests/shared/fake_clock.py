"""A clock for tests, and a network that takes as long by that clock as a test says."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from augbench.bench.experiment.catalogues import networks
from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry.registry import Entry

TICKING = "ticking"


class FakeClock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.seconds

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


@contextmanager
def ticking_network(clock: FakeClock, seconds: list[float]) -> Iterator[None]:
    """Register a network, `TICKING`, that takes so many seconds for an image: in training, and in evaluation."""

    class Ticking(nn.Module):
        def __init__(self, channels: int, classes: int) -> None:
            super().__init__()
            self.network = networks().get("tiny")().build(channels, classes)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            clock.passes(seconds[not self.training] * len(images))
            logits: torch.Tensor = self.network(images)
            return logits

    class Source(NetworkSource):
        name = TICKING

        def build(self, channels: int, classes: int) -> nn.Module:
            return Ticking(channels, classes)

    with networks().holding(Entry(TICKING, Source, "a test")):
        yield
