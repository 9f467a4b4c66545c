"""All of MNIST, each digit turned once."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from augbench.bench.data.prepared import REQUIRED, Arrays
from augbench.bench.data.source_files import SourceFile
from augbench.bench.registry.registry import register
from augbench.datasets.digits import PreparedDigits, rotation_angles, turn
from augbench.datasets.idx import read_idx_data
from augbench.datasets.mnist import mnist_sources


@register("rotmnist")
class RotMnist(PreparedDigits):
    """MNIST, each digit turned once by an angle drawn uniformly from the circle with a fixed seed.

    The angles come from one frozen stream: first those of the 60,000 training images, then those of the test images.
    """

    title = "RotMNIST: the digits of mnist, each turned once by a seeded angle"
    checksum = "md5:f85aa589f05f099f408a1805d8a18637"  # MNIST's
    classes = 10
    required = REQUIRED | {"upright_test_images"}  # or probes would turn digits that are turned already

    @classmethod
    def sources(cls) -> tuple[SourceFile, ...]:
        """Return MNIST's four files."""
        return mnist_sources()

    def read(self, files: Mapping[str, Path]) -> Arrays:
        """Read MNIST's files and turn every image by its own angle."""
        digits = read_idx_data(files)
        angles = rotation_angles(len(digits.train_images) + len(digits.test_images))
        train, test = np.split(angles, [len(digits.train_images)])
        return Arrays(
            _turned(digits.train_images, train),
            digits.train_labels,
            _turned(digits.test_images, test),
            digits.test_labels,
            upright_test_images=digits.test_images,
        )


def _turned(images: NDArray[np.uint8], angles: NDArray[np.float64]) -> NDArray[np.uint8]:
    turned: NDArray[np.uint8] = turn(torch.tensor(images), angles).numpy()
    return turned
