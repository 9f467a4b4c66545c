"""The rotated MNIST of Larochelle et al. (2007), with 12,000 images to train on."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError
from augbench.bench.data.downloads import RemoteFile
from augbench.bench.data.prepared import Arrays
from augbench.bench.data.source_files import SourceFile
from augbench.bench.registry.registry import register
from augbench.datasets.digits import PreparedDigits

ARCHIVE = RemoteFile(
    "mnist_rotation_new.zip",
    "0f9a947ff3d30e95cd685462cbf3b847",
    None,
    ("http://www.iro.umontreal.ca/~lisa/icml2007data/mnist_rotation_new.zip",),
)
TRAIN = "mnist_all_rotation_normalized_float_train_valid.amat"
TEST = "mnist_all_rotation_normalized_float_test.amat"
TRAIN_ROWS, HELD_OUT_ROWS, TEST_ROWS = 12_000, 2_000, 50_000
SIDE = 28
LEVELS = 256  # a pixel in the file is its grey level over this


@register("rotmnist-12k")
class RotMnist12k(PreparedDigits):
    """MNIST-rot, digits turned by angles from the whole circle: 12,000 to train on, the last 2,000 of them held out.

    The split is that of Larochelle et al., "An Empirical Evaluation of Deep Architectures on Problems with Many Factors
    of Variation", ICML 2007, in the corrected files. Pixels are read row by row, as other readers in Python do.
    """

    title = "MNIST-rot of Larochelle et al.: 12,000 train, 50,000 test"
    checksum = "md5:bd614c2b001cfc6908275763214eb0c4"
    classes = 10

    @classmethod
    def sources(cls) -> tuple[SourceFile, ...]:
        """Return both files of the archive; nobody has published their own md5s."""
        return tuple(SourceFile(name, None, ARCHIVE) for name in (TRAIN, TEST))

    def read(self, files: Mapping[str, Path]) -> Arrays:
        """Read both files."""
        held_out = np.arange(TRAIN_ROWS) >= TRAIN_ROWS - HELD_OUT_ROWS
        return Arrays(*read_amat(files[TRAIN], TRAIN_ROWS), *read_amat(files[TEST], TEST_ROWS), held_out)


def read_amat(path: Path, rows: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read images (N, 1, 28, 28) and labels (N,) from a text file: 784 pixels in [0, 1) and a label in each row.

    Raises:
        UserError: If it has another number of rows, or other numbers.
    """
    values = np.loadtxt(path, dtype=np.float32, ndmin=2)
    levels, labels = np.round(values[:, :-1] * LEVELS), values[:, -1]
    wrong = ""
    if values.shape != (rows, SIDE**2 + 1):
        wrong = f"it has {values.shape[0]}×{values.shape[1]} numbers, not {rows}×{SIDE**2 + 1}"
    elif not (0 <= levels.min() and levels.max() < LEVELS and (labels == np.round(labels)).all()):
        wrong = "its pixels are not in [0, 1), or its labels are not whole numbers"
    if wrong:
        raise UserError(f"{path.name} is not what it should be: {wrong}. Put the original archive in its place.")
    return levels.astype(np.uint8).reshape(-1, 1, SIDE, SIDE), labels.astype(np.int64)
