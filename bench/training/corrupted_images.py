"""Corrupted test images: the original ones where they are prepared, else recomputed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from torch import Tensor

from augbench.bench.augmentation.corruptions.corrupt import SETS, corrupt, offered
from augbench.bench.data.dataset import Split
from augbench.bench.data.original_corruptions import original_arrays, original_corruptions

ORIGINAL, RECOMPUTED = "original", "recomputed"


@dataclass(frozen=True)
class CorruptedImages:
    """A set of corruptions of test images.

    Attributes:
        test: The images without any, and their labels.
        name: One of the `SETS` of corruptions.
        images: `ORIGINAL` or `RECOMPUTED`.
        extra: The corruptions, and whether they count in no mean.
        corrupted: From a corruption and a severity to the images; uint8 (N, C, H, W).
    """

    test: Split
    name: str
    images: str
    extra: Mapping[str, bool]
    corrupted: Callable[[str, int], Tensor]

    def of_some(self, rows: Tensor) -> "CorruptedImages":
        """Return the corruptions of the test images with these indices, (K,); recomputed ones have other noise."""
        some = self.test.subset(rows)
        if self.images == RECOMPUTED:
            return recomputed_images(some, self.name)
        return replace(self, test=some, corrupted=lambda *which: self.corrupted(*which).index_select(0, rows))


def corrupted_images(test: Split, name: str, root: Path) -> CorruptedImages:
    """Find the original images of a set below the folder of data sets, or recompute them.

    Raises:
        DamagedDataError: If the original ones are damaged.
    """
    arrays = original_arrays(name, test, root)
    if arrays is None:
        return recomputed_images(test, name)

    def original(corruption: str, severity: int) -> Tensor:
        rows = arrays[corruption][(severity - 1) * len(test) : severity * len(test)]
        return rows.permute(0, 3, 1, 2).contiguous().to(test.images.device)

    extra = {corruption: extra for corruption, extra in original_corruptions(name).items() if corruption in arrays}
    return CorruptedImages(test, name, ORIGINAL, extra, original)


def recomputed_images(test: Split, name: str) -> CorruptedImages:
    """Recompute the corruptions of a set that are offered for the images."""
    here = offered(test.images.shape[1], name)
    extra = {corruption: SETS[name][corruption].extra for corruption in here}
    return CorruptedImages(test, name, RECOMPUTED, extra, partial(corrupt, test.images))
