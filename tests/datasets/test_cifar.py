"""CIFAR-10 and CIFAR-100: small files of the same format, what their pickles may not do, and the real CIFAR-10."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.datasets
from data_files import error_of, has, md5, tar
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import ImageData
from augbench.bench.data.prepared import PreparedOptions, PreparedSource
from augbench.bench.data.source_files import FileResolver
from augbench.datasets.cifar import read_batch
from augbench.datasets.cifar10 import Cifar10
from augbench.datasets.cifar100 import Cifar100

Batch = dict[str, Any]
BATCHES = {"cifar10": 6, "cifar100": 2}


def batch(seed: int, classes: int) -> Batch:
    random = np.random.RandomState(seed)
    labels = random.permutation(classes).tolist()
    pixels = random.randint(0, 256, (classes, 3072)).astype(np.uint8)
    if classes == 10:
        return {"data": pixels, "labels": labels, "batch_label": f"batch {seed}"}
    return {"data": pixels, "fine_labels": labels, "coarse_labels": [0] * classes}


def expected(batches: list[Batch]) -> tuple[NDArray[np.uint8], list[int]]:
    """Images channel by channel: a row holds 1,024 red, then green, then blue levels, row by row."""
    rows = [row for one in batches for row in one["data"]]
    images = np.zeros((len(rows), 3, 32, 32), np.uint8)
    for number, row in enumerate(rows):
        for channel in range(3):
            for y in range(32):
                images[number, channel, y] = row[1024 * channel + 32 * y : 1024 * channel + 32 * (y + 1)]
    return images, [label for one in batches for label in one.get("labels") or one["fine_labels"]]


@pytest.fixture(params=[Cifar10, Cifar100], ids=["cifar10", "cifar100"])
def source(request: pytest.FixtureRequest) -> PreparedSource:
    """Return a data set."""
    made: PreparedSource = request.param()
    return made


def torchvisions(source: PreparedSource) -> Any:
    return getattr(torchvision.datasets, source.name.upper())


def place(source: PreparedSource, batches: list[Batch], root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an archive with batches into a folder; torchvision's tables are made to say that it is the original."""
    theirs = torchvisions(source)
    names = [name for name, _ in (*theirs.train_list, *theirs.test_list)]
    contents = {f"{theirs.base_folder}/{name}": pickle.dumps(one) for name, one in zip(names, batches, strict=True)}
    entries = [[name, md5(contents[f"{theirs.base_folder}/{name}"])] for name in names]
    packed = tar(contents)
    monkeypatch.setattr(theirs, "tgz_md5", md5(packed))
    monkeypatch.setattr(theirs, "train_list", entries[:-1])
    monkeypatch.setattr(theirs, "test_list", entries[-1:])
    (root / theirs.filename).write_bytes(packed)


def load(source: PreparedSource, root: Path, **options: Any) -> ImageData:
    return source.load(source.options_type.model_validate(options), root)


def test_batches_are_read(source: PreparedSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [batch(seed, source.classes) for seed in range(BATCHES[source.name])]
    place(source, batches, tmp_path, monkeypatch)
    source.prepare(FileResolver(tmp_path, offline=True))
    data = load(source, tmp_path)
    for split, part in ((data.train, batches[:-1]), (data.test, batches[-1:])):
        images, labels = expected(part)
        assert np.array_equal(split.images.numpy(), images)
        assert split.labels.tolist() == labels
    assert data.classes == source.classes


def test_small_images_are_means_of_squares_and_a_part_of_the_test_has_its_classes(
    source: PreparedSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, test = batch(0, source.classes), batch(1, source.classes)
    twice = {**test, "data": np.concatenate([test["data"]] * 2)}
    twice |= {name: test[name] * 2 for name in ("labels", "fine_labels", "coarse_labels") if name in test}
    place(source, [train] * (BATCHES[source.name] - 1) + [twice], tmp_path, monkeypatch)
    source.prepare(FileResolver(tmp_path, offline=True))
    small = load(source, tmp_path, size=16, test_images=source.classes)
    images, _ = expected([train])
    means = images.reshape(-1, 3, 16, 2, 16, 2).mean((3, 5))
    assert np.abs(small.train.images[: len(images)].numpy() - means).max() <= 0.5
    assert sorted(small.test.labels.tolist()) == list(range(source.classes))
    assert small.test.images.shape[-1] == 16
    assert small.probe_images.images.shape[-1] == 32, "probes turn images before they are shrunk"
    assert torch.equal(small.probe_images.labels, small.test.labels)
    assert has(error_of(load, source, tmp_path, test_images=1), "test_images = 1", f"from {source.classes} to")


class Wicked:
    """Whoever unpickles it executes a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def test_a_pickle_that_asks_for_something_else_is_refused(
    source: PreparedSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [batch(seed, source.classes) for seed in range(BATCHES[source.name])]
    batches[0]["labels"] = Wicked(f"touch {tmp_path / 'executed'}")
    place(source, batches, tmp_path, monkeypatch)
    assert has(error_of(source.prepare, FileResolver(tmp_path, offline=True)), "posix.system, which is refused")
    assert not (tmp_path / "executed").exists()
    assert not list((tmp_path / "prepared").glob("cifar*"))


@pytest.mark.parametrize("name", ["eval", "load", "frombuffer", "dtype.type", "_reconstruct.__globals__"])
def test_nothing_but_parts_of_arrays_is_taken_from_numpy(name: str, tmp_path: Path) -> None:
    content = b"\x80\x04\x8c" + bytes([5]) + b"numpy" + b"\x8c" + bytes([len(name)]) + name.encode() + b"\x93."
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UserError, match="refused"):
        read_batch(tmp_path / "x")


# The real files


@pytest.mark.slow
def test_real_photographs(prepared_root: Path, real_files: Path) -> None:
    Cifar10().check(PreparedOptions(), prepared_root)
    data = load(Cifar10(), prepared_root)
    assert data.train.images.shape == (50_000, 3, 32, 32)
    assert data.train.labels.bincount().tolist() == [5000] * 10
    mean, deviation = ([round(value, 4) for value in values.tolist()] for values in data.mean_and_deviation)
    assert mean == [0.4914, 0.4822, 0.4465]
    assert deviation == [0.2470, 0.2435, 0.2616]
    theirs = torchvision.datasets.CIFAR10(real_files, train=False)
    assert np.array_equal(data.test.images.permute(0, 2, 3, 1).numpy(), theirs.data)
    assert data.test.labels.tolist() == theirs.targets
    some = load(Cifar10(), prepared_root, train_images=1000)
    assert some.train.labels.bincount().tolist() == [100] * 10
    assert len(some.test) == 10_000


@pytest.mark.slow
def test_loading_imports_nothing_that_only_preparing_needs(prepared_root: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from augbench.bench.experiment.catalogues import dataset_and_options;"
        "source, options = dataset_and_options('cifar10', {}); root = Path(sys.argv[1]);"
        "source.load(options, root); source.check(options, root); print({'torchvision', 'scipy'} & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code, prepared_root], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"
