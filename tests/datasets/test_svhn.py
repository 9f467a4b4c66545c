"""SVHN with and without its extra digits: small files of the same format."""

from pathlib import Path

import numpy as np
import pytest
import torchvision.datasets
from data_files import md5
from numpy.typing import NDArray
from scipy.io import savemat

from augbench.bench.data.dataset import ImageData
from augbench.bench.data.prepared import PreparedOptions
from augbench.bench.data.source_files import FileResolver
from augbench.datasets.svhn import Svhn
from augbench.datasets.svhn_extra import SvhnExtra

COUNTS = {"train": 20, "extra": 30, "test": 11}
Arrays = dict[str, NDArray[np.uint8]]


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Arrays]:
    """Write small files; torchvision's table is made to say that they are the originals."""
    theirs = torchvision.datasets.SVHN.split_list
    table, made = {}, {}
    for seed, (part, count) in enumerate(COUNTS.items()):
        random = np.random.RandomState(seed)
        labels = np.concatenate([np.arange(1, 11), random.randint(1, 11, count - 10)]).astype(np.uint8)[:, None]
        made[part] = {"X": random.randint(0, 256, (32, 32, 3, count)).astype(np.uint8), "y": labels}
        url, name, _ = theirs[part]
        savemat(tmp_path / name, made[part], do_compression=part != "test")
        table[part] = [url, name, md5((tmp_path / name).read_bytes())]
    monkeypatch.setattr(torchvision.datasets.SVHN, "split_list", table)
    return made


def prepare(source: Svhn, root: Path) -> ImageData:
    source.prepare(FileResolver(root, offline=True))
    return source.load(PreparedOptions(), root)


def test_digits_are_read_with_and_without_the_extra_ones(parts: dict[str, Arrays], tmp_path: Path) -> None:
    for source, wanted in ((Svhn(), ["train"]), (SvhnExtra(), ["train", "extra"])):  # both beside each other
        data = prepare(source, tmp_path)
        for split, names in ((data.train, wanted), (data.test, ["test"])):
            images = [image for name in names for image in np.moveaxis(parts[name]["X"], 3, 0)]
            labels = [int(label) for name in names for label in parts[name]["y"].ravel()]
            for found, image in zip(split.images.numpy(), images, strict=True):
                assert all(np.array_equal(found[channel], image[:, :, channel]) for channel in range(3))
            assert split.labels.tolist() == [0 if label == 10 else label for label in labels]
        assert data.classes == 10
    assert len(prepare(Svhn(), tmp_path).train) == 20
