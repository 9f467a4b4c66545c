"""CIFAR-10."""

from collections.abc import Mapping
from pathlib import Path

from augbench.bench.data.prepared import Arrays, PreparedSource
from augbench.bench.data.source_files import SourceFile
from augbench.bench.registry.registry import register
from augbench.datasets.cifar import cifar_sources, read_batches

SIZE = 170_498_071  # bytes of the archive


@register("cifar10")
class Cifar10(PreparedSource):
    """CIFAR-10 as published: 50,000 photographs to train on, 10,000 to test on, 10 classes, 32×32 pixels, colour."""

    title = "CIFAR-10: 50,000 train, 10,000 test"
    checksum = "md5:3e7f702b20246354ed5e48a0be410009"
    classes = 10

    @classmethod
    def sources(cls) -> tuple[SourceFile, ...]:
        """Return the six batch files."""
        from torchvision.datasets import CIFAR10  # here, since it takes seconds and is seldom needed

        return cifar_sources(CIFAR10, SIZE)

    def read(self, files: Mapping[str, Path]) -> Arrays:
        """Read the batches, the last of which is to test on."""
        *train, test = files.values()
        return Arrays(*read_batches(train, "labels"), *read_batches([test], "labels"))
