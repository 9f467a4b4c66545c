"""CIFAR-10."""

from augbench.bench.registry.registry import register
from augbench.datasets.cifar import Cifar


@register("cifar10")
class Cifar10(Cifar):
    """CIFAR-10 as published: 50,000 photographs to train on, 10,000 to test on, 10 classes, 32×32 pixels, colour."""

    title = "CIFAR-10: 50,000 train, 10,000 test"
    checksum = "md5:3e7f702b20246354ed5e48a0be410009"
    classes = 10
    torchvision_name = "CIFAR10"
    archive_size = 170_498_071
    label = "labels"
