"""All of MNIST: 60,000 training and 10,000 test digits."""

from collections.abc import Mapping
from pathlib import Path

from augbench.bench.data.prepared import Arrays
from augbench.bench.data.source_files import SourceFile
from augbench.bench.registry.registry import register
from augbench.datasets.digits import PreparedDigits
from augbench.datasets.idx import idx_sources, read_idx_data

FOLDER = "MNIST/raw"  # torchvision's layout
UNPACKED_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
SIZES = {
    "train-images-idx3-ubyte.gz": 9_912_422,
    "train-labels-idx1-ubyte.gz": 28_881,
    "t10k-images-idx3-ubyte.gz": 1_648_877,
    "t10k-labels-idx1-ubyte.gz": 4_542,
}
MORE_MIRRORS = ["https://storage.googleapis.com/cvdf-datasets/mnist/"]  # the same bytes, by their sha256


def mnist_sources() -> tuple[SourceFile, ...]:
    """Return the four files as torchvision knows them."""
    from torchvision.datasets import MNIST  # here, since it takes seconds and is seldom needed

    return idx_sources(FOLDER, UNPACKED_MD5, dict(MNIST.resources), SIZES, MNIST.mirrors + MORE_MIRRORS)


@register("mnist")
class Mnist(PreparedDigits):
    """MNIST as published: 60,000 digits to train on, 10,000 to test on, 10 classes, 28×28 pixels, grey."""

    title = "MNIST: 60,000 train, 10,000 test"
    checksum = "md5:f85aa589f05f099f408a1805d8a18637"
    classes = 10

    @classmethod
    def sources(cls) -> tuple[SourceFile, ...]:
        """Return MNIST's four files."""
        return mnist_sources()

    def read(self, files: Mapping[str, Path]) -> Arrays:
        """Read MNIST's four files."""
        return read_idx_data(files)
