"""Planted symmetries against plain NumPy, their seeds and identity, and mistakes in their options."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_files import error_of, has
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from augbench.bench.augmentation.affine_space import shared_space, shrink
from augbench.bench.augmentation.transform_distribution import PlantedDistribution, decompose
from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import DatasetOptions, DatasetSource, ImageData, Split
from augbench.bench.data.prepared import NotPreparedError
from augbench.bench.experiment.catalogues import dataset_and_options
from augbench.bench.experiment.spec import Component, dataset_component
from augbench.bench.registry.registry import Catalogue, Entry
from augbench.datasets.digits import DigitOptions
from augbench.datasets.mnist5k import Mnist5k
from augbench.datasets.planted import PLANTING_SEED, Planted, draw

SPACE = shared_space(28)


@pytest.fixture(scope="module")
def digits() -> ImageData:
    return Mnist5k().load(DigitOptions(), Path())


def component(**options: Any) -> Component:
    return dataset_component("planted", options, "a test")


def load(**options: Any) -> ImageData:
    source, resolved = dataset_and_options("planted", component(**options).all_settings)
    return source.load(resolved, Path())


def planted_coordinates(law: PlantedDistribution, count: int = 5000) -> NDArray[np.float64]:
    """Transforms of the training images and then of the test images, in coordinates."""
    random = np.random.RandomState(PLANTING_SEED)
    draws = [draw(number, law, SPACE, random) for number in (4000, 1000)]
    return np.concatenate([decompose(SPACE.matrices(part)) for part in draws])[:count]


def images_of(data: ImageData) -> Tensor:
    return torch.cat((data.train.images, data.test.images))


@pytest.mark.parametrize("options", [{}, {"base_options": {"size": 14}}])
def test_without_a_law_images_are_those_of_the_base(options: dict[str, Any]) -> None:
    data = load(**options)
    base = Mnist5k().load(DigitOptions.model_validate(options.get("base_options", {})), Path())
    assert torch.equal(images_of(data), images_of(base))
    assert data.planted == PlantedDistribution()
    assert data.classes == 10


def test_all_blocks_together_are_one_warp_of_plain_numpy(digits: ImageData) -> None:
    options: dict[str, Any] = {"rotation": 30.0, "x_scale": 0.4, "y_scale": 0.2, "x_shear": 0.5, "flip": 0.5}
    data, coordinates = load(**options), planted_coordinates(PlantedDistribution(**options))
    for index in range(0, 5000, 50):
        turn, x_scale, y_scale, shear, flip, *_ = coordinates[index]
        cosine, sine = math.cos(turn), math.sin(turn)
        rotation = np.array([[cosine, -sine], [sine, cosine]])
        sheared = np.diag(np.exp([x_scale, y_scale])) @ [[1, shear], [0, 1]] @ np.diag([1 - 2 * flip, 1])
        image = images_of(digits)[index : index + 1].double() / 255
        expected = 255 * warped(image[0, 0].numpy(), np.linalg.inv(rotation @ sheared))
        assert abs(images_of(data)[index, 0].numpy() - expected).max() < 0.6


def warped(image: NDArray[np.float64], inverse: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bilinear warp about the centre by an inverse matrix, in plain NumPy; black outside."""
    rows, columns = np.indices(image.shape) - 13.5
    x = inverse[0, 0] * columns + inverse[0, 1] * rows + 13.5
    y = inverse[1, 0] * columns + inverse[1, 1] * rows + 13.5
    padded, left, top = np.pad(image, 40), np.floor(x).astype(int), np.floor(y).astype(int)
    result = np.zeros_like(image)
    for right, below in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight = (1 - abs(x - left - right)) * (1 - abs(y - top - below))
        result += weight * padded[top + below + 40, left + right + 40]
    return result


@pytest.mark.parametrize(("option", "axes"), [("flip", (-1,)), ("half_turn", (-2, -1))])
def test_flips_and_half_turns_move_whole_pixels(option: str, axes: tuple[int, ...], digits: ImageData) -> None:
    before = images_of(digits)
    assert torch.equal(images_of(load(**{option: 1.0})), before.flip(axes))
    after = images_of(load(**{option: 0.3}))
    changed = (after != before).flatten(1).any(1)
    assert torch.equal(after[changed], before[changed].flip(axes))
    assert stats.binomtest(int(changed.sum()), len(before), 0.3).pvalue > 1e-3


def test_a_share_leaves_the_other_images_as_they_are(digits: ImageData) -> None:
    data = load(rotation=90.0, rotation_share=0.4)
    same = (images_of(data) == images_of(digits)).flatten(1).all(1)
    assert stats.binomtest(int(same.sum()), len(same), 0.6).pvalue > 1e-3
    assert data.planted == PlantedDistribution(rotation=90.0, rotation_share=0.4)
    assert "planted: rotation ±90°" in data.provenance
    angles = planted_coordinates(PlantedDistribution(rotation=90.0, rotation_share=0.4))[:, 0]
    assert stats.kstest(np.degrees(angles[angles != 0]), stats.uniform(-90, 180).cdf).pvalue > 1e-3


def test_train_and_test_images_are_planted_apart_and_labels_stay(digits: ImageData) -> None:
    data = load(rotation=45.0)
    for mine, theirs in ((data.train, digits.train), (data.test, digits.test)):
        assert torch.equal(mine.labels, theirs.labels)
        assert (mine.images != theirs.images).flatten(1).any(1).float().mean() > 0.99
    turn = planted_coordinates(PlantedDistribution(rotation=45.0))[:, 0]
    assert not np.isin(turn[4000:], turn[:4000]).any()


def test_every_load_is_the_same_and_the_stream_is_pinned() -> None:
    first, again = load(rotation=45.0, flip=0.5), load(rotation=45.0, flip=0.5)
    assert torch.equal(images_of(first), images_of(again))
    small, large = (planted_coordinates(PlantedDistribution(rotation=extent))[:, 0] for extent in (10.0, 45.0))
    assert np.degrees(large[:3]) == pytest.approx(
        [29.213451137225963, -39.97608821697837, -39.51479942249786], abs=1e-9
    )
    assert 4.5 * small == pytest.approx(large, abs=1e-9), "each image is turned in proportion"


def test_images_are_planted_at_full_size_and_then_shrunk() -> None:
    large, small = load(rotation=45.0), load(rotation=45.0, shrink=2)
    assert torch.equal(images_of(small), shrink(images_of(large), 14))
    assert torch.equal(large.probe_images.images, load().test.images), "probes see the images as they were before"
    assert torch.equal(small.probe_images.images, load().test.images), "at the size at which they were planted"
    assert torch.equal(small.train.labels, large.train.labels)


# Identity


def test_the_checksum_covers_all_that_identifies_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    checksums = {component().checksum, component(base="rotmnist5k").checksum}
    checksums.add(component(base_options={"size": 14}).checksum)
    monkeypatch.setattr(Mnist5k, "checksum", "sha256:0")
    checksums.add(component().checksum)
    monkeypatch.setattr(Mnist5k, "version", 2)
    checksums.add(component().checksum)
    assert len(checksums) == 5
    assert all(len(checksum) == len("sha256:") + 64 for checksum in checksums)


def test_the_distribution_is_a_setting_and_not_part_of_the_checksum() -> None:
    assert component(rotation=45).checksum == component().checksum
    assert component(rotation=45, shrink=2).settings == {"rotation": 45.0, "shrink": 2}
    assert component(rotation=45).label == "planted (rotation=45.0)"
    assert component(base="mnist5k", base_options={"size": 28}) == component(), "which are the defaults"


# Mistakes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"base": "mnst5k"}, ["base: There is no data set 'mnst5k'", "Did you mean 'mnist5k'?"]),
        ({"base": "planted"}, ["cannot be planted again", "both symmetries in one"]),
        ({"base_options": {"sise": 14}}, ["'mnist5k' in base_options", "Did you mean 'size'?"]),
        ({"base_options": {"size": 15}}, ["base_options", "28 or 14"]),
        ({"base_options": 14}, ["base_options", "must be a table"]),
        ({"base": "mnst5k", "base_options": {"sise": 14}}, ["no data set 'mnst5k'"]),
        ({"rotation": 200.0}, ["rotation", "less than or equal to 180"]),
        ({"x_scale": 0.8}, ["x_scale", "less than or equal to 0.693"]),
        ({"x_shear": 2.0}, ["x_shear", "less than or equal to 1"]),
        ({"rotation_share": 0.5}, ["rotation_share changes nothing without rotation"]),
        ({"rotation": math.nan}, ["rotation: Input should be a finite number (given: nan)"]),
        ({"shrink": 3}, ["shrink", "1 or 2"]),
        ({"shrink": True}, ["shrink: must be 1 or 2 (given: True)"]),
        ({"rotaton": 45.0}, ["'rotaton'", "Did you mean 'rotation'?"]),
    ],
)
def test_wrong_options_are_explained_when_the_suite_is_read(options: dict[str, Any], words: list[str]) -> None:
    text = error_of(dataset_component, "planted", options, "suite 'mine'")
    assert has(text, "'planted' in suite 'mine'", *words)
    assert text.count("(given: ") <= 1


def test_a_planted_data_set_is_no_base_to_choose_from() -> None:
    text = error_of(component, base="x")
    assert has(text, "'x'. Valid choices: cifar10, ", "svhn-extra (given: 'x').")
    assert "planted," not in text


class Odd(Mnist5k):
    """Images of an odd size."""

    name = "odd"

    def load(self, options: DatasetOptions, root: Path) -> ImageData:
        """Load images of 5 pixels a side."""
        images = torch.arange(50, dtype=torch.uint8).view(2, 1, 5, 5)
        split = Split(images, torch.arange(2))
        return ImageData(split, split, 2, "a test")

    def check(self, options: DatasetOptions, root: Path) -> None:
        """Miss a file in one place."""
        if root == Path("somewhere"):
            raise UserError(f"{root} lacks a file.")


def test_odd_sizes_cannot_be_shrunk_and_the_base_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"odd": Entry("odd", Odd, "a test"), "planted": Entry("planted", Planted, "a test")}
    catalogue = Catalogue("data set", entries, ())
    for module in ("bench.experiment.catalogues", "bench.experiment.spec", "datasets.planted"):
        monkeypatch.setattr(f"augbench.{module}.datasets", lambda: catalogue)
    whole, halved = (dataset_and_options("planted", component(base="odd", shrink=f).all_settings) for f in (1, 2))
    source, options = whole
    source.check(options, Path())
    assert source.load(options, Path()).image_size == 5
    assert has(error_of(source.check, options, Path("somewhere")), "somewhere lacks a file")
    source, options = halved
    for call in (source.load, source.check):  # the latter before any run starts
        assert has(error_of(call, options, Path()), "'odd' have 5 pixels", "Leave out shrink")


# Prepared data sets beneath


def prepared_source(base: str) -> tuple[DatasetSource, DatasetOptions]:
    options = {"base": base, "base_options": {"train_images": 500}, "rotation": 45.0}
    return dataset_and_options("planted", component(**options).all_settings)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["mnist", "cifar10"])
def test_real_data_sets_are_planted(base: str, prepared_root: Path) -> None:
    source, options = prepared_source(base)
    source.check(options, prepared_root)
    data = source.load(options, prepared_root)
    beneath, base_options = dataset_and_options(base, {"train_images": 500})
    expected = beneath.load(base_options, prepared_root)
    assert torch.equal(data.train.labels, expected.train.labels)
    assert data.train.images.shape == expected.train.images.shape
    assert (data.train.images != expected.train.images).flatten(1).any(1).float().mean() > 0.95


def test_a_base_that_is_not_prepared_is_named(tmp_path: Path) -> None:
    source, options = prepared_source("mnist")
    assert source.base(options) is not None
    for call in (source.check, source.load):
        with pytest.raises(NotPreparedError, match="`augbench data prepare mnist --data"):
            call(options, tmp_path)
