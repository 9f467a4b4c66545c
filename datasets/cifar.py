"""CIFAR's batch files, which are pickles: only arrays and plain values are read from them, nothing is executed."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError
from augbench.bench.data.downloads import RemoteFile
from augbench.bench.data.source_files import SourceFile

if TYPE_CHECKING:
    from torchvision.datasets import CIFAR10

ARRAY_PARTS = {
    "_reconstruct": np.empty(0).__reduce__()[0],  # it has moved between versions of numpy
    "ndarray": np.ndarray,
    "dtype": np.dtype,
}
ARRAY_MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
MORE_MIRRORS = ("https://cave.cs.toronto.edu/kriz/",)  # where the authors' address leads today
SIDE = 32


def cifar_sources(kind: "type[CIFAR10]", size: int) -> tuple[SourceFile, ...]:
    """Describe the batch files, first those to train on, as torchvision knows them.

    Args:
        kind: torchvision's class.
        size: Size of the archive in bytes.
    """
    urls = (kind.url, *(mirror + kind.filename for mirror in MORE_MIRRORS))
    archive = RemoteFile(kind.filename, kind.tgz_md5, size, urls)
    return tuple(
        SourceFile(f"{kind.base_folder}/{name}", md5, archive) for name, md5 in (*kind.train_list, *kind.test_list)
    )


def read_batches(paths: Sequence[Path], label: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read images (N, 3, 32, 32) and labels (N,) of several batch files.

    Args:
        paths: The files.
        label: What the labels are called in them.

    Raises:
        UserError: If something else is in a file.
    """
    batches = [_read_batch(path) for path in paths]
    try:
        images = np.concatenate([batch["data"].reshape(-1, 3, SIDE, SIDE) for batch in batches])
        labels = np.concatenate([np.array(batch[label], dtype=np.int64) for batch in batches])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        names = ", ".join(path.name for path in paths)
        raise UserError(f"{names} hold no images with {label} ({error}). Put the originals in their place.") from None
    return images, labels


def _read_batch(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        try:
            content = _ArraysOnly(file, encoding="latin1").load()
        except (pickle.UnpicklingError, EOFError) as error:
            raise UserError(f"{path} is no batch of CIFAR: {error}. Put the original in its place.") from None
    return content if isinstance(content, dict) else {}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in ARRAY_MODULES and name in ARRAY_PARTS:
            return ARRAY_PARTS[name]
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is refused")
