"""CIFAR-100."""

from collections.abc import Mapping
from pathlib import Path

from augbench.bench.data.prepared import Arrays, PreparedSource
from augbench.bench.data.source_files import SourceFile
from augbench.bench.registry.registry import register
from augbench.datasets.cifar import cifar_sources, read_batches

SIZE = 169_001_437  # bytes of the archive
LABEL = "fine_labels"


@register("cifar100")
class Cifar100(PreparedSource):
    """CIFAR-100 as published: 50,000 photographs to train on, 10,000 to test on, 100 classes, 32×32 pixels, colour.

    Its labels are the fine ones; the 20 groups of classes are not used.
    """

    title = "CIFAR-100: 50,000 train, 10,000 test, 100 classes"
    checksum = "md5:6b7f52fbab23748d7ffba0ded5c38fa3"
    classes = 100

    @classmethod
    def sources(cls) -> tuple[SourceFile, ...]:
        """Return the two batch files."""
        from torchvision.datasets import CIFAR100  # here, since it takes seconds and is seldom needed

        return cifar_sources(CIFAR100, SIZE)

    def read(self, files: Mapping[str, Path]) -> Arrays:
        """Read both batches."""
        train, test = files.values()
        return Arrays(*read_batches([train], LABEL), *read_batches([test], LABEL))
