"""Methods, data sets and networks that end, or do not end, where they should not."""

import ctypes
import os
import threading
from pathlib import Path

import torch
from torch import Tensor, nn

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Method, repeat
from augbench.bench.data.dataset import DatasetOptions, DatasetSource, ImageData, Split
from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry.registry import register

FOR_EVER = threading.Event()


class Nothing(Method[Hyperparameters]):
    """Does nothing."""

    title = "nothing"
    paper = "unpublished"


@register("hanging")
class Hanging(Nothing):
    """Waits for ever."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Wait."""
        FOR_EVER.wait()
        return super().augment(images, generator)


@register("leaving")
class Leaving(Nothing):
    """Ends the process."""

    def start_epoch(self, epoch: int) -> None:
        """Leave."""
        os._exit(0)


@register("crashing")
class Crashing(Nothing):
    """Reads where nothing is."""

    def start_epoch(self, epoch: int) -> None:
        """Crash."""
        ctypes.string_at(0)


@register("threaded")
class Threaded(Nothing):
    """Leaves a thread behind."""

    def after_epoch(self, epoch: int) -> None:
        """Start it."""
        threading.Thread(target=FOR_EVER.wait, name="left behind").start()


@register("float64")
class Float64(Nothing):
    """Changes torch's default type after training, and leaves it so."""

    def after_epoch(self, epoch: int) -> None:
        """Change it."""
        torch.set_default_dtype(torch.float64)


@register("interleaved")
class Interleaved(Nothing):
    """Makes its copies in another order."""

    @property
    def copies(self) -> int:
        """Two."""
        return 2

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Repeat image by image."""
        return AugmentedBatch(to_unit_interval(images).repeat_interleave(2, 0))


@register("reversed")
class Reversed(Nothing):
    """Turns the batch round."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Begin with the last image."""
        return AugmentedBatch(to_unit_interval(repeat(images, self.copies)).flip(0))


@register("no-number")
class NoNumber(Nothing):
    """Has a regulariser that is no number."""

    def regulariser(self) -> Tensor:
        """Return none."""
        return torch.tensor(float("nan"))


class DotOptions(DatasetOptions):
    """How the dots misbehave."""

    how: str = ""


@register("dots")
class Dots(DatasetSource):
    """Dots; those of class 1 are brighter."""

    title = "dots"
    checksum = "md5:0"
    options_type = DotOptions
    loads = 0

    def load(self, options: DatasetOptions, root: Path) -> ImageData:
        """Make them, unless they are to misbehave."""
        how = options.model_dump()["how"]
        if how == "leave":
            os._exit(0)
        if how == "hang":
            FOR_EVER.wait()
        Dots.loads += 1
        seed = Dots.loads if how == "change" else 0
        train = _dots(40, seed)
        return ImageData(train, train if how == "same" else _dots(20, seed + 1000), 2, "dots")


def _dots(count: int, seed: int) -> Split:
    labels = torch.arange(count) % 2
    images = torch.randint(0, 100, (count, 1, 14, 14), generator=torch.Generator().manual_seed(seed))
    images[labels == 1] += 100
    return Split(images.to(torch.uint8), labels)


class Linear(nn.Module):
    """A linear network with a layer that nothing reaches, or that looks at the whole batch."""

    def __init__(self, channels: int, classes: int, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.layer = nn.Linear(channels, classes)
        self.unused = nn.Linear(2, 2) if kind == "unused" else None

    def forward(self, images: Tensor) -> Tensor:
        """Look at the mean of each channel."""
        means = images.mean((2, 3))
        logits: Tensor = self.layer(means - means.mean(0) if self.kind == "batch" else means)
        return logits


@register("linear")
class LinearSource(NetworkSource):
    """A network that is as it should be."""

    kind = ""

    def build(self, channels: int, classes: int) -> nn.Module:
        """Build it."""
        return Linear(channels, classes, self.kind)


@register("unused")
class UnusedSource(LinearSource):
    """Has parameters that nothing uses."""

    kind = "unused"


@register("batchwise")
class BatchwiseSource(LinearSource):
    """Looks at the whole batch also in evaluation."""

    kind = "batch"
