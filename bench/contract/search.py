"""What a method may use in a search phase before training, and how it draws batches there."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from augbench.bench.augmentation.base import BaseAugmentation
from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import Split, class_shares_mask

REDUCED_SEED = 0


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
    """What a search phase may use: the training images, part of them held out. Test images never get here.

    ::

        images (N)  ├── train        to fit networks on
                    └── validation   held out, to judge policies by

    Images are copied when they are asked for. The run records which ones a search asked for.

    Attributes:
        images: All training images.
        held_out: Which of them are held out from training for the search; fixed for a data set; (N,) bool.
        build_network: Makes a freshly initialised network.
        generator: Source of randomness on the device.
        count_passes: Call it with the number of images after each pass through a network; it may interrupt the search.
        base: The base of the run's budget, for images that networks are fitted on: `base.before` what the policy does,
            `base.after` it. It does nothing where the budget has none.
    """

    images: Split
    held_out: Tensor
    build_network: BuildNetwork
    generator: torch.Generator
    count_passes: Callable[[int], None]
    base: BaseAugmentation = field(default_factory=BaseAugmentation)
    _asked_for: list[Tensor] = field(default_factory=list, init=False, repr=False)

    @cached_property
    def train(self) -> Split:
        """Images to fit networks on."""
        return self._take(self._fitted)

    @cached_property
    def validation(self) -> Split:
        """Images held out from training."""
        return self._take(self._validation)

    def reduced(self, count: int) -> Split:
        """Choose about `count` of all images, class shares kept, the same for every seed of a run.

        At least one of each class, where `count` is not below the number of classes.

        Raises:
            UserError: If fewer than two are left.
        """
        chosen = self._choose(torch.cat([self._fitted, self._validation]), count)
        if len(chosen) < 2:
            raise UserError(
                f"A search on {count} of {len(self.images)} images has too few of each class. Raise `search_images` in "
                "the suite to several images of each class."
            )
        return self._take(chosen)

    def reduced_halves(self, count: int) -> tuple[Split, Split]:
        """Choose the images to fit on and those held out, `count` / 2 of each, the same for every seed of a run.

        Class shares are kept as by `reduced`; where there are no more, all are chosen.

        Raises:
            UserError: If either would be empty.
        """
        parts = [self._choose(part, count // 2) for part in (self._fitted, self._validation)]
        if not all(map(len, parts)):
            raise UserError(
                f"The method's search_images = {count} leaves no image of any class to fit on or to hold out, since "
                "class shares are kept. Raise it in the suite to at least four images of each class."
            )
        fitted, validation = map(self._take, parts)
        return fitted, validation

    def asked_for(self) -> dict[str, Any]:
        """Say which images were asked for: how many, and a checksum of their indices among the training images."""
        indices = torch.cat([self.held_out.new_zeros(0, dtype=torch.long), *self._asked_for]).unique().cpu()
        return {"images": len(indices), "sha256": hashlib.sha256(indices.numpy().astype("<i8").tobytes()).hexdigest()}

    @property
    def _fitted(self) -> Tensor:
        return (~self.held_out).nonzero()[:, 0]

    @property
    def _validation(self) -> Tensor:
        return self.held_out.nonzero()[:, 0]

    def _choose(self, indices: Tensor, count: int) -> Tensor:
        if count >= len(indices):
            return indices
        labels = self.images.labels[indices]
        least = int(count >= len(labels.unique()))  # one of each class may otherwise be more than `count`
        return indices[class_shares_mask(labels, count / len(indices), REDUCED_SEED, least)]

    def _take(self, indices: Tensor) -> Split:
        self._asked_for.append(indices)
        return self.images.subset(indices)


def shuffled_batches(split: Split, size: int, generator: torch.Generator) -> Iterator[Split]:
    """Yield batches of `size` images without end, each pass over the images in a new order.

    The last batch of a pass may be smaller.
    """
    while True:
        order = torch.randperm(len(split), device=split.labels.device, generator=generator)
        for batch in order.split(size):
            yield split.subset(batch)
