"""CIFAR-100."""

from augbench.bench.registry.registry import register
from augbench.datasets.cifar import Cifar


@register("cifar100")
class Cifar100(Cifar):
    """CIFAR-100 as published: 50,000 photographs to train on, 10,000 to test on, 100 classes, 32×32 pixels, colour.

    Its labels are the fine ones; the 20 groups of classes are not used.
    """

    title = "CIFAR-100: 50,000 train, 10,000 test, 100 classes"
    checksum = "md5:6b7f52fbab23748d7ffba0ded5c38fa3"
    classes = 100
    torchvision_name = "CIFAR100"
    archive_size = 169_001_437
    label = "fine_labels"
