"""Random numbers of corrupted images: a stream for each image, so that it does not matter which ones come together."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from augbench.bench.common.randomness import derived_seed


@dataclass(frozen=True)
class ImageStreams:
    """Random streams of N images that follow one another in a data set.

    Numbers are drawn on the CPU, so that they are the same on every device. A purpose is the name of a stream, so that
    two draws of an image do not depend on each other's length.

    Attributes:
        seed: Seed of all streams.
        corruption: Name of the corruption.
        first: Position of the first image in the data set.
        count: N.
        device: Where the numbers are needed.
    """

    seed: int
    corruption: str
    first: int
    count: int
    device: torch.device

    def normal(self, purpose: str, shape: tuple[int, ...]) -> Tensor:
        """Draw standard normal numbers; (N, *shape)."""
        return self._filled(purpose, torch.empty(self.count, *shape), lambda row, source: row.normal_(generator=source))

    def uniform(self, purpose: str, lowest: float, highest: float, shape: tuple[int, ...] = ()) -> Tensor:
        """Draw numbers uniformly between two bounds; (N, *shape)."""
        empty = torch.empty(self.count, *shape)
        return self._filled(purpose, empty, lambda row, source: row.uniform_(lowest, highest, generator=source))

    def integers(self, purpose: str, lowest: int, above: int, shape: tuple[int, ...]) -> Tensor:
        """Draw whole numbers from `lowest` up, below `above`; (N, *shape) long."""
        empty = torch.empty(self.count, *shape, dtype=torch.int64)
        return self._filled(purpose, empty, lambda row, source: row.random_(lowest, above, generator=source))

    def poisson(self, purpose: str, rates: Tensor) -> Tensor:
        """Draw Poisson numbers of N arrays of rates; (N, …)."""
        return self._filled(purpose, rates.cpu(), lambda row, source: torch.poisson(row, generator=source))

    def _filled(self, purpose: str, rows: Tensor, draw: Callable[[Tensor, torch.Generator], Tensor]) -> Tensor:
        source = torch.Generator()
        drawn = [draw(row, source.manual_seed(self._seed(purpose, index))) for index, row in enumerate(rows)]
        return torch.stack(drawn).to(self.device)

    def _seed(self, purpose: str, index: int) -> int:
        return derived_seed(self.seed, f"{self.corruption}/{purpose}/{self.first + index}")
