"""All of MNIST: 60,000 training and 10,000 test digits."""

from augbench.bench.registry.registry import register
from augbench.datasets.idx import IdxDigits


@register("mnist")
class Mnist(IdxDigits):
    """MNIST as published: 60,000 digits to train on, 10,000 to test on, 10 classes, 28×28 pixels, grey."""

    title = "MNIST: 60,000 train, 10,000 test"
    checksum = "md5:f85aa589f05f099f408a1805d8a18637"
    torchvision_name = "MNIST"
    files = (
        ("train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb", 9_912_422),
        ("train-labels-idx1-ubyte", "a25bea736e30d166cdddb491f175f624", 28_881),
        ("t10k-images-idx3-ubyte", "2646ac647ad5339dbf082846283269ea", 1_648_877),
        ("t10k-labels-idx1-ubyte", "27ae3e4e09519cfbb04c329615203637", 4_542),
    )
    more_mirrors = ("https://storage.googleapis.com/cvdf-datasets/mnist/",)  # the same bytes, by their sha256
