"""SVHN, house numbers seen from the street: the digits cut out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from augbench.bench.data.downloads import RemoteFile
from augbench.bench.data.prepared import Arrays, PreparedSource
from augbench.bench.data.source_files import SourceFile
from augbench.bench.registry.registry import register

SIZES = {"train": 182_040_794, "extra": 1_329_278_602, "test": 64_275_384}  # bytes


@register("svhn")
class Svhn(PreparedSource):
    """SVHN's cut-out digits: 73,257 to train on, 26,032 to test on, 10 classes, 32×32 pixels, colour."""

    title = "SVHN: 73,257 train, 26,032 test"
    checksum = "md5:ac41b93185526ecafd48461bf6e17f64"
    classes = 10
    parts: tuple[str, ...] = ("train", "test")  # published parts, the last of which is to test on

    @classmethod
    def sources(cls) -> tuple[SourceFile, ...]:
        """Return a file for each part."""
        from torchvision.datasets import SVHN  # here, since it takes seconds and is seldom needed

        entries = [(*SVHN.split_list[part], SIZES[part]) for part in cls.parts]
        return tuple(SourceFile(name, md5, RemoteFile(name, md5, size, (url,))) for url, name, md5, size in entries)

    def read(self, files: Mapping[str, Path]) -> Arrays:
        """Read the files."""
        *train, test = files.values()
        return Arrays(*_read(train), *_read([test]))


def _read(paths: Sequence[Path]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    images, labels = zip(*map(_read_file, paths), strict=True)
    return np.concatenate(images), np.concatenate(labels)


def _read_file(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images, H×W×C×N in the file, and labels, where 10 stands for the digit 0."""
    from scipy.io import loadmat  # here, since it takes a moment and is seldom needed

    content = loadmat(path, variable_names=("X", "y"))
    images = np.ascontiguousarray(content["X"].transpose(3, 2, 0, 1))
    return images, content["y"].ravel().astype(np.int64) % 10
