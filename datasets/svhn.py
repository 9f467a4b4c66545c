"""SVHN, house numbers seen from the street: the digits cut out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError
from augbench.bench.data.downloads import RemoteFile
from augbench.bench.data.prepared import Arrays, PreparedSource
from augbench.bench.data.source_files import SourceFile
from augbench.bench.registry.registry import register

SIZES = {"train": 182_040_794, "extra": 1_329_278_602, "test": 64_275_384}  # bytes
SIDE = 32


@register("svhn")
class Svhn(PreparedSource):
    """SVHN's cut-out digits: 73,257 to train on, 26,032 to test on, 10 classes, 32×32 pixels, colour."""

    title = "SVHN: 73,257 train, 26,032 test"
    checksum = "md5:ac41b93185526ecafd48461bf6e17f64"
    classes = 10

    @classmethod
    def parts(cls) -> tuple[str, ...]:
        """Return the published parts, the last of which is to test on."""
        return "train", "test"

    @classmethod
    def sources(cls) -> tuple[SourceFile, ...]:
        """Return a file for each part."""
        from torchvision.datasets import SVHN  # here, since it takes seconds and is seldom needed

        published = [
            RemoteFile(name, md5, SIZES[part], (url,))
            for part in cls.parts()
            for url, name, md5 in [SVHN.split_list[part]]
        ]
        return tuple(SourceFile(file.path, file.md5, file) for file in published)

    def read(self, files: Mapping[str, Path]) -> Arrays:
        """Read the files, the last of which is to test on."""
        *train, test = files.values()
        return Arrays(*read_digits(train), *read_digits([test]))


def read_digits(paths: Sequence[Path]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read images (N, 3, 32, 32) and labels (N,) of several files of MATLAB, one at a time, which bounds the memory.

    Raises:
        UserError: If something else is in a file.
    """
    shapes = [_shape(path) for path in paths]
    images = np.empty((sum(shape[3] for shape in shapes), 3, SIDE, SIDE), dtype=np.uint8)
    labels = np.empty(len(images), dtype=np.int64)
    start = 0
    for path, shape in zip(paths, shapes, strict=True):
        part = slice(start, start + shape[3])
        images[part], labels[part] = _read_file(path)
        start = part.stop
    return images, labels


def _shape(path: Path) -> tuple[int, ...]:
    """Shape of the images, which are not read for that."""
    from scipy.io import whosmat  # here, since it takes a moment and is seldom needed
    from scipy.io.matlab import MatReadError

    try:
        shape = {name: shape for name, shape, _ in whosmat(path)}.get("X", ())
    except (MatReadError, ValueError, NotImplementedError):
        shape = ()
    if shape[:3] != (SIDE, SIDE, 3):
        raise _foreign_error(path)
    return shape


def _read_file(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images, H×W×C×N in the file, and labels, where 10 stands for the digit 0."""
    from scipy.io import loadmat

    content = loadmat(path, variable_names=("X", "y"))
    images, labels = content["X"], content.get("y", np.empty(0)).ravel()
    if images.dtype != np.uint8 or len(labels) != images.shape[3] or not np.isin(labels, range(1, 11)).all():
        raise _foreign_error(path)
    return images.transpose(3, 2, 0, 1), labels.astype(np.int64) % 10


def _foreign_error(path: Path) -> UserError:
    return UserError(
        f"{path} holds no images of {SIDE}×{SIDE} pixels with labels from 1 to 10. Put the original in its place."
    )
