"""What identifies data sets and where their published files lie, which no change may touch."""

import pytest
from torchvision.datasets import CIFAR10, CIFAR100, MNIST, SVHN, FashionMNIST

from augbench.bench.data.prepared import PreparedSource
from augbench.bench.data.source_files import combined_md5
from augbench.bench.experiment.catalogues import datasets
from augbench.datasets import rotmnist12k

MNIST_FILES = "md5:f85aa589f05f099f408a1805d8a18637"
DIGITS = "sha256:167bbe5fc3dfbce27f9a4c6c1814964f3367677ee226d9811d79cbd41fd5d053"
IDENTITIES = {
    "mnist5k": (1, DIGITS),
    "rotmnist5k": (2, DIGITS),
    "mnist": (1, MNIST_FILES),
    "rotmnist": (1, MNIST_FILES),
    "rotmnist-12k": (1, "md5:bd614c2b001cfc6908275763214eb0c4"),
    "fashionmnist": (1, "md5:4472cc9bf98ecb6e389ca9544c9d9233"),
    "cifar10": (1, "md5:3e7f702b20246354ed5e48a0be410009"),
    "cifar100": (1, "md5:6b7f52fbab23748d7ffba0ded5c38fa3"),
    "svhn": (1, "md5:ac41b93185526ecafd48461bf6e17f64"),
    "svhn-extra": (1, "md5:26bdea76a2439560166f68acba69b298"),
}
MNISTS = "train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte".split()
BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
PLACES = {  # torchvision's
    "mnist": [(f"MNIST/raw/{name}", f"MNIST/raw/{name}.gz") for name in MNISTS],
    "rotmnist": [(f"MNIST/raw/{name}", f"MNIST/raw/{name}.gz") for name in MNISTS],
    "fashionmnist": [(f"FashionMNIST/raw/{name}", f"FashionMNIST/raw/{name}.gz") for name in MNISTS],
    "cifar10": [(f"cifar-10-batches-py/{name}", "cifar-10-python.tar.gz") for name in BATCHES],
    "cifar100": [(f"cifar-100-python/{name}", "cifar-100-python.tar.gz") for name in ("train", "test")],
    "svhn": [(f"{part}_32x32.mat", f"{part}_32x32.mat") for part in ("train", "test")],
    "svhn-extra": [(f"{part}_32x32.mat", f"{part}_32x32.mat") for part in ("train", "extra", "test")],
    "rotmnist-12k": [
        (f"mnist_all_rotation_normalized_float_{part}.amat", "mnist_rotation_new.zip")
        for part in ("train_valid", "test")
    ],
}


def test_identities_stay() -> None:
    found = {entry.name: (entry.target.version, getattr(entry.target, "checksum", None)) for entry in datasets()}
    assert found == IDENTITIES | {"planted": (2, None), "own": (1, None)}


def test_the_split_of_larochelle_and_others_stays() -> None:
    assert (rotmnist12k.TRAIN_ROWS, rotmnist12k.HELD_OUT_ROWS, rotmnist12k.TEST_ROWS) == (12_000, 2_000, 50_000)


def test_files_come_first_from_where_torchvision_takes_them() -> None:
    expected = {
        "mnist": (MNIST.mirrors[0] + MNIST.resources[0][0], MNIST.resources[0][1]),
        "fashionmnist": (FashionMNIST.mirrors[0] + FashionMNIST.resources[0][0], FashionMNIST.resources[0][1]),
        "cifar10": (CIFAR10.url, CIFAR10.tgz_md5),
        "cifar100": (CIFAR100.url, CIFAR100.tgz_md5),
        "svhn": (SVHN.split_list["train"][0], SVHN.split_list["train"][2]),
    }
    for name, of_torchvision in expected.items():
        source = datasets().get(name)
        assert issubclass(source, PreparedSource)
        first = source.sources()[0].published
        assert (first.urls[0], first.md5) == of_torchvision


@pytest.mark.parametrize("name", PLACES)
def test_published_files_lie_where_torchvision_looks_for_them(name: str) -> None:
    source = datasets().get(name)
    assert issubclass(source, PreparedSource)
    files = source.sources()
    assert [(file.path, file.published.path) for file in files] == PLACES[name]
    assert source.checksum == combined_md5(files)
    for published in {file.published for file in files}:
        assert published.size or name == "rotmnist-12k"
        assert all(url.endswith(f"/{published.name}") and url.startswith("http") for url in published.urls)
