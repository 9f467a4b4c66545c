"""Checks of a data set: what `augbench check dataset` examines, with the user's own files."""

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from augbench.bench.conformance.outcome import Check, ConformanceError, DoesNotApplyError, Outcome, Report, go_through
from augbench.bench.data.dataset import DatasetOptions, DatasetSource, ImageData
from augbench.bench.data.dataset_checks import load_checked
from augbench.bench.training.process_state import put_back


class LoadedTwice:
    """A data set that is loaded at most twice for all checks.

    Attributes:
        source: The data set.
        options: Its options.
        root: Folder of the data.
        seconds: How long the first load took.
        changed: What loading has changed in the process.
    """

    def __init__(self, source: DatasetSource, options: DatasetOptions, root: Path) -> None:
        self.source, self.options, self.root = source, options, root
        self.seconds = 0.0
        self.changed: list[str] = []
        self._loaded: list[ImageData] = []

    def load(self, number: int = 0) -> ImageData:
        """Return what the first or the second load has given."""
        while len(self._loaded) <= number:
            begun = time.perf_counter()
            with put_back(self.changed.extend):
                self._loaded.append(load_checked(self.source, self.options, self.root))
            self.seconds = self.seconds or time.perf_counter() - begun
        return self._loaded[number]


def load(data: LoadedTwice) -> str:
    """Arrays have the types, shapes and values that runs can use."""
    found = data.load()
    images = f"{len(found.train)} training and {len(found.test)} test images"
    return f"{images} of {found.channels}×{found.image_size}×{found.image_size}, {found.classes} classes"


def again(data: LoadedTwice) -> None:
    """A second load gives the same images and labels."""
    for name, first, second in _pairs(data.load(), data.load(1)):
        if first.shape != second.shape or not torch.equal(first, second):
            raise ConformanceError(
                f"`{name}` differs when the data set is loaded again.",
                "Draw with a generator of a fixed seed, and sort what a folder lists.",
            )


def _pairs(first: ImageData, second: ImageData) -> list[tuple[str, Tensor, Tensor]]:
    return [
        (f"{split}.{kind}", getattr(getattr(first, split), kind), getattr(getattr(second, split), kind))
        for split in ("train", "test")
        for kind in ("images", "labels")
    ]


def splits(data: LoadedTwice) -> str:
    """Test images are no training images."""
    found = data.load()
    train = {image.numpy().tobytes() for image in found.train.images}
    shared = sum(image.numpy().tobytes() in train for image in found.test.images)
    if shared == len(found.test):
        raise ConformanceError("Every test image is a training image, too.", "Keep some images for the test alone.")
    twice = len(found.train) - len(train)
    return f"{shared} test images are in the training set as well; {twice} training images are there twice"


def identity(data: LoadedTwice) -> str:
    """Its checksum says which files it is read from."""
    checksum = data.source.source_checksum(data.options)
    if not checksum:
        raise ConformanceError("`checksum` is empty.", "Set it to a checksum of the files that the images come from.")
    return checksum


def process(data: LoadedTwice) -> None:
    """Loading leaves the process as it was."""
    data.load()
    if data.changed:
        raise ConformanceError(
            f"Loading changes settings of the whole process: {', '.join(data.changed)}.",
            "Undo it at the end of `load`.",
        )


def cost(data: LoadedTwice) -> str:
    """What a load costs each run."""
    found = data.load()
    size = sum(part.images.nbytes for part in (found.train, found.test))
    if not data.seconds:
        raise DoesNotApplyError("it was not loaded")
    return f"{data.seconds:.2f} s, {size / 1e6:,.0f} MB of images"


CHECKS = (
    Check("load", load),
    *(Check(examine.__name__, examine, ("load",)) for examine in (again, splits, identity, process, cost)),
)


def check_dataset(
    source: DatasetSource, options: DatasetOptions, root: Path, begin: Callable[[str], None] = lambda name: None
) -> Report:
    """Check whether runs can use a data set.

    Args:
        source: The data set.
        options: Its options.
        root: Folder of the data.
        begin: Called with the name of each check when it begins.
    """
    data = LoadedTwice(source, options, root)
    outcomes: dict[str, Outcome] = {}
    go_through(CHECKS, data, outcomes, begin)
    return Report(source.name, tuple(outcomes.values()))
