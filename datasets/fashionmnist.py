"""Fashion-MNIST."""

from augbench.bench.registry.registry import register
from augbench.datasets.idx import IdxDigits


@register("fashionmnist")
class FashionMnist(IdxDigits):
    """Fashion-MNIST as published: 60,000 pictures of clothes to train on, 10,000 to test on, 10 classes, grey."""

    title = "Fashion-MNIST: 60,000 train, 10,000 test"
    checksum = "md5:4472cc9bf98ecb6e389ca9544c9d9233"
    torchvision_name = "FashionMNIST"
    files = (
        ("train-images-idx3-ubyte", "f4a8712d7a061bf5bd6d2ca38dc4d50a", 26_421_880),
        ("train-labels-idx1-ubyte", "9018921c3c673c538a1fc5bad174d6f9", 29_515),
        ("t10k-images-idx3-ubyte", "8181f5470baa50b63fa0f6fddb340f0a", 4_422_102),
        ("t10k-labels-idx1-ubyte", "15d484375f8d13e6eb1aabb0c3f46965", 5_148),
    )
    more_mirrors = ("https://storage.googleapis.com/tensorflow/tf-keras-datasets/",)
