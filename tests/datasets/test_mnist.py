"""MNIST, upright and turned, and Fashion-MNIST: small files of the same format, and the real ones where they are."""

import gzip
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision.datasets
from data_files import md5
from numpy.typing import NDArray
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as vision

from augbench.bench.data.array_folder import MANIFEST, DamagedDataError
from augbench.bench.data.dataset import ImageData
from augbench.bench.data.prepared import PreparedSource
from augbench.bench.data.source_files import FileResolver
from augbench.datasets.digits import PreparedDigitOptions, rotation_angles, turn
from augbench.datasets.fashionmnist import FashionMnist
from augbench.datasets.mnist import Mnist
from augbench.datasets.rotmnist import RotMnist

Arrays = dict[str, NDArray[np.uint8]]

TRAIN_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
IMAGES, TEST_IMAGES = "train-images-idx3-ubyte", "t10k-images-idx3-ubyte"
FASHION = "FashionMNIST/raw"


def idx(array: NDArray[np.uint8]) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">i4").tobytes()
    return header + array.tobytes()


@pytest.fixture
def arrays() -> Arrays:
    random = np.random.default_rng(0)
    sizes = {"train": 300, "t10k": 7}  # 300 needs two bytes of the header
    images = {f"{part}-images-idx3-ubyte": random.integers(0, 256, (n, 28, 28), np.uint8) for part, n in sizes.items()}
    labels = {f"{part}-labels-idx1-ubyte": random.integers(0, 10, n, np.uint8) for part, n in sizes.items()}
    return images | labels


@pytest.fixture
def root(arrays: Arrays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write small files in place of MNIST's and Fashion-MNIST's; all tables of md5s are theirs."""
    monkeypatch.setenv("AUGBENCH_OFFLINE", "1")
    unpacked = {name: idx(arrays[name]) for name, _, _ in Mnist.files}
    packed = {f"{name}.gz": gzip.compress(content) for name, content in unpacked.items()}
    for source, theirs in ((Mnist, torchvision.datasets.MNIST), (FashionMnist, torchvision.datasets.FashionMNIST)):
        monkeypatch.setattr(source, "files", [(name, md5(content), None) for name, content in unpacked.items()])
        monkeypatch.setattr(theirs, "resources", [(name, md5(content)) for name, content in packed.items()])
        for name, content in packed.items():
            (tmp_path / theirs.__name__ / "raw").mkdir(parents=True, exist_ok=True)
            (tmp_path / theirs.__name__ / "raw" / name).write_bytes(content)
    return tmp_path


def prepare(source: PreparedSource, root: Path) -> ImageData:
    source.prepare(FileResolver(root))
    return load(source, root)


def load(source: PreparedSource, root: Path, size: int = 28) -> ImageData:
    return source.load(PreparedDigitOptions.model_validate({"size": size}), root)


@pytest.mark.parametrize("source", [Mnist(), FashionMnist()])
def test_files_are_read(source: PreparedSource, arrays: Arrays, root: Path) -> None:
    data = prepare(source, root)
    for part, split in (("train", data.train), ("t10k", data.test)):
        assert np.array_equal(split.images.numpy(), arrays[f"{part}-images-idx3-ubyte"][:, None])
        assert np.array_equal(split.labels.numpy(), arrays[f"{part}-labels-idx1-ubyte"])
    assert data.classes == 10
    assert data.held_out is None
    assert source.checksum in data.provenance


def test_size_14_averages_squares_also_of_fewer_images(arrays: Arrays, root: Path) -> None:
    prepare(Mnist(), root)
    small = load(Mnist(), root, size=14)
    for name, split in ((IMAGES, small.train), (TEST_IMAGES, small.test)):
        squares = arrays[name].reshape(-1, 14, 2, 14, 2).mean((2, 4))
        assert np.array_equal(split.images.numpy()[:, 0], squares.round())
    assert len(Mnist().load(PreparedDigitOptions(size=14, train_images=50), root).train) == 50


@pytest.mark.parametrize("options", [{"size": 20}, {"download": True}])
def test_other_sizes_and_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Mnist.options_type.model_validate(options)


def test_each_image_is_turned_by_its_own_angle_of_one_stream(root: Path) -> None:
    upright, turned = prepare(Mnist(), root), prepare(RotMnist(), root)
    images = torch.cat((upright.train.images, upright.test.images))
    angles = np.random.RandomState(20230804).uniform(-math.pi, math.pi, 307)
    found = torch.cat((turned.train.images, turned.test.images))
    for index in [*range(0, 300, 20), *range(300, 307)]:
        image = images[index : index + 1].double() / 255
        expected = 255 * vision.rotate(image, -math.degrees(angles[index]), InterpolationMode.BILINEAR)
        assert (found[index : index + 1] - expected).abs().max() < 0.6  # rounding to whole grey levels
    assert torch.equal(turned.train.labels, upright.train.labels)
    assert torch.equal(turned.test.labels, upright.test.labels)
    assert torch.equal(turned.probe_images.images, upright.test.images)
    for source in (Mnist(), RotMnist()):
        probed = load(source, root, size=14).probe_images.images
        assert torch.equal(probed, upright.test.images), "probes turn them and then shrink them"


def test_turned_digits_without_the_upright_ones_for_probes_are_prepared_again(root: Path) -> None:
    folder = RotMnist().prepare(FileResolver(root))
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["arrays"]["upright_test_images"]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DamagedDataError, match="does not have all arrays"):
        load(RotMnist(), root)
    assert prepare(RotMnist(), root).upright_test is not None


# The real files


@pytest.mark.slow
def test_real_digits(prepared_root: Path) -> None:
    upright, turned = load(Mnist(), prepared_root), load(RotMnist(), prepared_root)
    for source, data in ((Mnist(), upright), (RotMnist(), turned)):
        source.check(PreparedDigitOptions(), prepared_root)
        assert data.train.images.shape == (60_000, 1, 28, 28)
        assert data.test.images.shape == (10_000, 1, 28, 28)
        assert data.train.labels.bincount().tolist() == TRAIN_COUNTS
        assert data.test.labels.bincount().tolist() == TEST_COUNTS
    assert [round(value.item(), 4) for value in upright.mean_and_deviation] == [0.1307, 0.3081]
    train, test = np.split(rotation_angles(70_000), [60_000])
    for part, angles in (("train", train), ("test", test)):
        before, after = getattr(upright, part).images[-50:], getattr(turned, part).images[-50:]
        assert torch.equal(turn(before, angles[-50:]), after)


@pytest.mark.slow
def test_real_clothes(tmp_path: Path) -> None:
    """The md5s of packed files are torchvision's; that the unpacked ones belong to them needs the files."""
    given = Path(os.environ.get("AUGBENCH_DATA", ""))
    if not (given / FASHION).is_dir():
        pytest.skip(f"{given} holds no {FASHION}")
    for file in FashionMnist.sources():
        packed = (given / file.published.path).read_bytes()
        assert (md5(packed), len(packed)) == (file.published.md5, file.published.size)
        assert md5(gzip.decompress(packed)) == file.md5
    FashionMnist().prepare(FileResolver(tmp_path, given, offline=True))
    data = load(FashionMnist(), tmp_path)
    assert data.train.labels.bincount().tolist() == [6000] * 10
    assert data.test.labels.bincount().tolist() == [1000] * 10
    assert [round(value.item(), 4) for value in data.mean_and_deviation] == [0.2860, 0.3530]
