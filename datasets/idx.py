"""Data sets that are published in MNIST's four files: MNIST and Fashion-MNIST."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from augbench.bench.data.downloads import RemoteFile
from augbench.bench.data.prepared import Arrays
from augbench.bench.data.source_files import SourceFile
from augbench.datasets.digits import PreparedDigits


class IdxDigits(PreparedDigits):
    """Base of data sets that come as four `.gz` files of the idx format, which torchvision knows and reads.

    Attributes:
        torchvision_name: Name of torchvision's class, which has the names, addresses and md5s of the `.gz` files.
        files: Name and md5 of each unpacked file, and size of its `.gz` file in bytes: training images, training
            labels, test images, test labels.
        more_mirrors: Addresses, ending in a slash, that torchvision does not have.
    """

    torchvision_name: ClassVar[str]
    files: ClassVar[tuple[tuple[str, str, int], ...]]
    more_mirrors: ClassVar[tuple[str, ...]]
    classes = 10

    @classmethod
    def sources(cls) -> tuple[SourceFile, ...]:
        """Return the four files."""
        from torchvision import datasets  # here, since it takes seconds and is seldom needed

        theirs = getattr(datasets, cls.torchvision_name)
        folder, packed_md5 = f"{cls.torchvision_name}/raw", dict(theirs.resources)
        sources = []
        for name, md5, size in cls.files:
            urls = tuple(f"{mirror}{name}.gz" for mirror in (*theirs.mirrors, *cls.more_mirrors))
            packed = RemoteFile(f"{folder}/{name}.gz", packed_md5[f"{name}.gz"], size, urls)
            sources.append(SourceFile(f"{folder}/{name}", md5, packed))
        return tuple(sources)

    def read(self, files: Mapping[str, Path]) -> Arrays:
        """Read the four files."""
        from torchvision.datasets.mnist import read_image_file, read_label_file

        images, labels, test_images, test_labels = files.values()
        return Arrays(
            read_image_file(images)[:, None].numpy(),
            read_label_file(labels).numpy(),
            read_image_file(test_images)[:, None].numpy(),
            read_label_file(test_labels).numpy(),
        )
