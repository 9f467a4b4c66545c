"""What every reader of a data set of one's own returns: labels and parts of all images, and their content in turn."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError, check_known, shortened

K = TypeVar("K", int, str)

TRAIN, HELD_OUT, TEST = range(3)
"""Parts of a data set; held-out images are training images that tuning validates on."""

PARTS = {
    **dict.fromkeys(("train", "training"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "dev"), HELD_OUT),
    **dict.fromkeys(("test", "testing"), TEST),
}
"""Parts by what folders, files and columns call them, in lower case."""

Content = Path | bytes | NDArray[np.uint8]
"""An image file, the bytes of one, or pixels (H, W) or (H, W, C)."""


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


def kept_classes(names: Iterable[K], leave_out: Sequence[str]) -> dict[K, int]:
    """Number the classes that are not left out, in rising order.

    Args:
        names: The class of each image, or all classes.
        leave_out: Classes to leave out, as text.

    Raises:
        UserError: If one of those does not exist, or fewer than two classes are left.
    """
    found = sorted(set(names))
    check_known("class for --leave-out", leave_out, map(str, found))
    kept = [name for name in found if str(name) not in leave_out]
    if len(kept) < 2:
        which = f"only one, {shortened(str(kept[0]))}" if kept else "none"
        raise UserError(f"A data set needs at least two classes; here there is {which}.")
    return {name: number for number, name in enumerate(kept)}
