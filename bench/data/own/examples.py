"""What every reader of a data set of one's own returns: labels and parts of all images, and their content in turn."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TRAIN, HELD_OUT, TEST = range(3)
"""Parts of a data set; held-out images are training images that tuning validates on."""

PARTS = {
    **dict.fromkeys(("train", "training"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "dev"), HELD_OUT),
    **dict.fromkeys(("test", "testing"), TEST),
}
"""Parts by what folders, files and columns call them, in lower case."""

Content = Path | bytes | NDArray[np.uint8] | str
"""An image file, the bytes of one, pixels (H, W) or (H, W, C), or why there is none, as a predicate."""


@dataclass(frozen=True)
class Unreadable:
    """An image that cannot be used, and the reason, as a predicate of it."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} {self.reason}"


@dataclass(frozen=True)
class Examples:
    """The images of a data set, none of which is read yet.

    Attributes:
        labels: Index into `class_names`; (N,).
        class_names: Names of the classes, in the order of their labels.
        parts: `TRAIN`, `HELD_OUT` or `TEST`; (N,). If none is `TEST`, test images are split off.
        contents: Yields all images in order.
        name_of: Returns what messages call an image, by its index.
        side: Height and width in pixels if all images are squares of one size, else None.
        channels: 1 or 3 if that is known, else None.
        groups: Number of the group of each image; (N,).
        unreadable: What was found to be wrong with others, which are not among the N.
        remarks: Sentences on what was passed over, for the report.
    """

    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    parts: NDArray[np.int8]
    contents: Callable[[], Iterator[Content]]
    name_of: Callable[[int], str]
    side: int | None = None
    channels: int | None = None
    groups: NDArray[np.int64] | None = None
    unreadable: Sequence[Unreadable] = ()
    remarks: Sequence[str] = field(default=())

    def __len__(self) -> int:
        return len(self.labels)


def names_of_rows(names: Sequence[str], counts: Sequence[int]) -> Callable[[int], str]:
    """Return a function that names a row of several arrays or files, counted through: `test_images[12]`."""
    starts = np.concatenate(([0], np.cumsum(counts)))

    def name_of(row: int) -> str:
        which = int(np.searchsorted(starts, row, side="right")) - 1
        return f"{names[which]}[{row - starts[which]}]"

    return name_of
