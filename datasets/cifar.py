"""CIFAR's batch files, which are pickles: only arrays and plain values are read from them, nothing is executed."""

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import DatasetOptions, ImageData
from augbench.bench.data.downloads import RemoteFile
from augbench.bench.data.prepared import Arrays, PreparedOptions, PreparedSource, with_test_images
from augbench.bench.data.source_files import SourceFile
from augbench.datasets.digits import shrunk

ARRAY_PARTS = {
    "_reconstruct": np.empty(0).__reduce__()[0],  # it has moved between versions of numpy
    "ndarray": np.ndarray,
    "dtype": np.dtype,
}
ARRAY_MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
MORE_MIRRORS = ("https://cave.cs.toronto.edu/kriz/",)  # where the authors' address leads today
SIDE = 32


class CifarOptions(PreparedOptions):
    """Options of CIFAR, such as those that leave less to compute."""

    test_images: int | None = Field(
        None,
        ge=1,
        description="test images, chosen by a fixed seed, class shares kept but no class lost; all by default",
    )
    size: Literal[32, 16] = Field(32, description="side in pixels; 16 averages squares of 2×2 pixels")


class Cifar(PreparedSource):
    """Base of CIFAR-10 and CIFAR-100: an archive of batches, the last of which is to test on.

    Attributes:
        torchvision_name: Name of torchvision's class, which has the names, addresses and md5s.
        archive_size: Size of the archive in bytes.
        label: What the labels are called in a batch.
    """

    torchvision_name: ClassVar[str]
    archive_size: ClassVar[int]
    label: ClassVar[str]
    options_type = CifarOptions

    @classmethod
    def sources(cls) -> tuple[SourceFile, ...]:
        """Return the batch files."""
        from torchvision import datasets  # here, since it takes seconds and is seldom needed

        theirs = getattr(datasets, cls.torchvision_name)
        urls = (theirs.url, *(mirror + theirs.filename for mirror in MORE_MIRRORS))
        archive = RemoteFile(theirs.filename, theirs.tgz_md5, cls.archive_size, urls)
        batches = (*theirs.train_list, *theirs.test_list)
        return tuple(SourceFile(f"{theirs.base_folder}/{name}", md5, archive) for name, md5 in batches)

    def read(self, files: Mapping[str, Path]) -> Arrays:
        """Read the batches."""
        *train, test = files.values()
        return Arrays(*self._read(train), *self._read([test]))

    def apply(self, options: DatasetOptions, data: ImageData) -> ImageData:
        """Choose images and shrink all but the test images that probes transform."""
        chosen = CifarOptions.model_validate(options.model_dump())
        data = with_test_images(self.name, super().apply(options, data), chosen.test_images)
        return data if chosen.size == data.image_size else shrunk(data, chosen.size)

    def _read(self, paths: Sequence[Path]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        batches = [read_batch(path) for path in paths]
        images = np.concatenate([batch["data"].reshape(-1, 3, SIDE, SIDE) for batch in batches])
        return images, np.concatenate([np.array(batch[self.label], dtype=np.int64) for batch in batches])


def read_batch(path: Path) -> dict[str, Any]:
    """Read a batch file.

    Raises:
        UserError: If it asks for anything but arrays.
    """
    with path.open("rb") as file:
        batch: dict[str, Any] = _ArraysOnly(file, encoding="latin1").load()
        return batch


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in ARRAY_MODULES and name in ARRAY_PARTS:
            return ARRAY_PARTS[name]
        raise UserError(
            f"A batch file of CIFAR asks for {module}.{name}, which is refused. Put the original in its place."
        )
