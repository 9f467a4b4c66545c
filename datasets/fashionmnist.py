"""Fashion-MNIST."""

from collections.abc import Mapping
from pathlib import Path

from augbench.bench.data.prepared import Arrays
from augbench.bench.data.source_files import SourceFile
from augbench.bench.registry.registry import register
from augbench.datasets.digits import PreparedDigits
from augbench.datasets.idx import idx_sources, read_idx_data

FOLDER = "FashionMNIST/raw"  # torchvision's layout
UNPACKED_MD5 = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}
SIZES = {
    "train-images-idx3-ubyte.gz": 26_421_880,
    "train-labels-idx1-ubyte.gz": 29_515,
    "t10k-images-idx3-ubyte.gz": 4_422_102,
    "t10k-labels-idx1-ubyte.gz": 5_148,
}
MORE_MIRRORS = ["https://storage.googleapis.com/tensorflow/tf-keras-datasets/"]


@register("fashionmnist")
class FashionMnist(PreparedDigits):
    """Fashion-MNIST as published: 60,000 pictures of clothes to train on, 10,000 to test on, 10 classes, grey."""

    title = "Fashion-MNIST: 60,000 train, 10,000 test"
    checksum = "md5:4472cc9bf98ecb6e389ca9544c9d9233"
    classes = 10

    @classmethod
    def sources(cls) -> tuple[SourceFile, ...]:
        """Return the four files."""
        from torchvision.datasets import FashionMNIST  # here, since it takes seconds and is seldom needed

        packed = dict(FashionMNIST.resources)
        return idx_sources(FOLDER, UNPACKED_MD5, packed, SIZES, FashionMNIST.mirrors + MORE_MIRRORS)

    def read(self, files: Mapping[str, Path]) -> Arrays:
        """Read the four files."""
        return read_idx_data(files)
