"""All of MNIST, each digit turned once."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from augbench.bench.data.prepared import REQUIRED, Arrays
from augbench.bench.registry.registry import register
from augbench.datasets.digits import rotation_angles, turn
from augbench.datasets.mnist import Mnist


@register("rotmnist")
class RotMnist(Mnist):
    """MNIST, each digit turned once by an angle drawn uniformly from the circle with a fixed seed.

    The angles come from one frozen stream: first those of the 60,000 training images, then those of the test images.
    """

    title = "RotMNIST: the digits of mnist, each turned once by a seeded angle"
    required = REQUIRED | {"upright_test_images"}  # or probes would turn digits that are turned already

    def read(self, files: Mapping[str, Path]) -> Arrays:
        """Read MNIST's files and turn every image by its own angle."""
        digits = super().read(files)
        angles = rotation_angles(len(digits.train_images) + len(digits.test_images))
        train, test = np.split(angles, [len(digits.train_images)])
        return replace(
            digits,
            train_images=_turned(digits.train_images, train),
            test_images=_turned(digits.test_images, test),
            upright_test_images=digits.test_images,
        )


def _turned(images: NDArray[np.uint8], angles: NDArray[np.float64]) -> NDArray[np.uint8]:
    turned: NDArray[np.uint8] = turn(torch.from_numpy(images), angles).numpy()
    return turned
