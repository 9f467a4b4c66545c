"""The idx format, in which MNIST and Fashion-MNIST are published, and what data sets of that kind have in common."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError
from augbench.bench.data.downloads import RemoteFile
from augbench.bench.data.prepared import Arrays
from augbench.bench.data.source_files import SourceFile

PARTS = ("train", "t10k")


def idx_sources(
    folder: str,
    unpacked_md5: Mapping[str, str],
    packed_md5: Mapping[str, str],
    sizes: Mapping[str, int],
    mirrors: list[str],
) -> tuple[SourceFile, ...]:
    """Describe the four files of such a data set.

    Args:
        folder: Where they belong below the folder of data sets.
        unpacked_md5: md5 of each file by its name, once unpacked.
        packed_md5: md5 of each `.gz` file by its name.
        sizes: Size of each `.gz` file in bytes.
        mirrors: Addresses that end in a slash.
    """
    published = {
        name: RemoteFile(
            f"{folder}/{name}.gz",
            packed_md5[f"{name}.gz"],
            sizes[f"{name}.gz"],
            tuple(f"{mirror}{name}.gz" for mirror in mirrors),
        )
        for name in unpacked_md5
    }
    return tuple(SourceFile(f"{folder}/{name}", md5, published[name]) for name, md5 in unpacked_md5.items())


def read_idx_data(files: Mapping[str, Path]) -> Arrays:
    """Read the four files of such a data set, in the order of `idx_sources`."""
    images, labels, test_images, test_labels = (read_idx(path) for path in files.values())
    return Arrays(images[:, None], labels.astype(np.int64), test_images[:, None], test_labels.astype(np.int64))


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of bytes: two zeros, type (8: uint8), number of dimensions, sizes as big-endian int32, data.

    Raises:
        UserError: If it is something else.
    """
    content = path.read_bytes()
    dimensions = content[3] if content.startswith(bytes([0, 0, 8])) and len(content) > 3 else 0
    start = 4 + 4 * dimensions
    shape = np.frombuffer(content[4:start], dtype=">i4") if dimensions and len(content) >= start else np.empty(0)
    if not len(shape) or len(content) - start != shape.prod():
        raise UserError(f"{path} is no idx file of bytes. Put the original in its place.")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
