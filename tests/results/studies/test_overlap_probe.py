"""Probes of overlap: against NumPy on a linear network, learners that cannot be probed, and missing runs."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from method_factories import make_method, seeded, some_images
from numpy.typing import NDArray
from paragraphs import fails_in_one_paragraph
from torch import Tensor, nn

from augbench.bench.augmentation.corruptions.corrupt import corrupt
from augbench.bench.common.randomness import generator
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Method, repeat
from augbench.bench.runs.run_folder import RunFolder
from augbench.bench.training.trained import load_network
from augbench.methods.fixed import FixedAugmentation
from augbench.methods.none import NoAugmentation
from augbench.methods.scale import Scale
from augbench.methods.trivialaugment_wide import TrivialAugmentWide
from augbench.results.studies import overlap_probe
from augbench.results.studies.overlap_probe import smallest_distances, transform_features

CommandLine = Callable[..., tuple[int, str, str]]
IMAGES = some_images(5)


def linear() -> tuple[nn.Module, Callable[[Tensor], NDArray[np.float64]]]:
    """A network whose features are linear in the pixels, and the mean features of images by NumPy."""
    torch.manual_seed(0)
    body = nn.Linear(14 * 14, 7)
    weight, bias = body.weight.detach().double().numpy(), body.bias.detach().double().numpy()

    def mean_features(images: Tensor) -> NDArray[np.float64]:
        flat = images.double().numpy().reshape(len(images), -1)
        found: NDArray[np.float64] = np.mean([weight @ row + bias for row in flat], axis=0)
        return found

    return nn.Sequential(nn.Flatten(), body, nn.Linear(7, 2)), mean_features


def test_distances_are_those_of_numpy() -> None:
    network, mean_features = linear()
    found = transform_features(network, make_method(FixedAugmentation), IMAGES, 6, seed=3)
    assert found is not None
    draw = make_method(FixedAugmentation).draw(6, generator(3, "overlap"))
    padded = np.pad(IMAGES.numpy() / 255, ((0, 0), (0, 0), (2, 2), (2, 2)))
    expected = []
    for (row, column), flipped in zip(draw.offsets.tolist(), draw.flip.tolist(), strict=True):
        moved = padded[:, :, row : row + 14, column : column + 14]
        expected.append(mean_features(torch.from_numpy(moved[..., ::-1].copy() if flipped else moved)))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    corrupted = np.stack([mean_features(corrupt(IMAGES, "fog", severity) / 255) for severity in (1, 5)])
    by_hand = [min(np.sqrt(((one - other) ** 2).sum()) for one in expected) for other in corrupted]
    np.testing.assert_allclose(smallest_distances(found, corrupted), by_hand, atol=1e-5)


def test_no_augmentation_is_as_far_as_unchanged_images() -> None:
    network, mean_features = linear()
    found = transform_features(network, make_method(NoAugmentation, copies=2), IMAGES, 9, seed=0)
    assert found is not None
    np.testing.assert_allclose(found, [mean_features(IMAGES / 255)], atol=1e-5)


class Darkened(Method[Hyperparameters]):
    """Gives half of the copies less contrast, exactly as a corruption does."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Draw a coin for each image."""
        coins = torch.rand(len(images), 1, 1, 1, generator=generator) < 0.5
        return AugmentedBatch(torch.where(coins, corrupt(images, "contrast", 3), images) / 255)


def test_a_learner_that_draws_the_corruption_is_at_no_distance() -> None:
    network, mean_features = linear()
    found = transform_features(network, make_method(Darkened), IMAGES, 20, seed=0)
    assert found is not None
    near, far = smallest_distances(
        found, np.stack([mean_features(corrupt(IMAGES, "contrast", severity) / 255) for severity in (3, 5)])
    )
    assert near < 1e-5 < 1e-2 < far


class Mixed(Method[Hyperparameters]):
    """Mixes each image with another one of the batch."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Draw a permutation."""
        order = torch.randperm(len(images), generator=generator)
        return AugmentedBatch((images / 255 + images[order] / 255) / 2)


def test_a_learner_that_mixes_images_has_no_distance() -> None:
    assert transform_features(linear()[0], make_method(Mixed), IMAGES, 4, seed=0) is None


@pytest.mark.parametrize("kind", [Scale, TrivialAugmentWide])
def test_all_images_get_the_same_transforms(kind: type[Method[Hyperparameters]]) -> None:
    network, mean_features = linear()
    found = transform_features(network, make_method(kind), IMAGES, 6, seed=1)
    assert found is not None and found.shape == (6, 7)
    copies = make_method(kind).copies
    made = [
        make_method(kind).augment(repeat(image[None], -(-6 // copies)), generator(1, "overlap")) for image in IMAGES
    ]
    first = torch.stack([one.images.detach()[2] for one in made])
    np.testing.assert_allclose(found[2], mean_features(first), atol=1e-5)
    alone = make_method(kind).augment(IMAGES, seeded()).images.detach()[: len(IMAGES)]
    assert not np.allclose(found[0], mean_features(alone), atol=1e-3), "draws of their own"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take ten test images."""
    monkeypatch.setattr(overlap_probe, "IMAGES", 10)


def test_the_command_measures_each_corruption_of_both_sets(
    few: None, finished: Callable[..., RunFolder], tmp_path: Path, augbench: CommandLine
) -> None:
    none, fixed = finished("none"), finished("fixed")
    to = tmp_path / "probes"
    given = ("--kind", "overlap", "--out", to, "--device", "cpu")
    said = augbench("probe", fixed.path, *given)
    assert fails_in_one_paragraph(said, "No finished run of `none` is given for mnist5k (size=14) (seed 0)")
    code, text, errors = augbench("probe", fixed.path, none.path, *given)
    assert (code, errors) == (0, "") and str(to / "probe-overlap.csv") in text
    with (to / "probe-overlap.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["label"] for row in rows] == ["none"] * 125 + ["fixed"] * 125  # grey: 16 and 9 corruptions
    trained = load_network(none, tmp_path, torch.device("cpu"))
    images = trained.data.test.images[torch.linspace(0, 99, 10).round().long()]
    trained.network.network = trained.network.network[:-1]  # type: ignore[index]
    with torch.no_grad():
        plain, foggy = (trained.network(some / 255).mean(0) for some in (images, corrupt(images, "fog", 5)))
    expected = float((foggy - plain).norm())
    by_key = {(row["label"], row["corruption"], row["severity"]): row for row in rows}
    assert float(by_key["none", "fog", "5"]["distance"]) == pytest.approx(expected, rel=1e-4)
    assert all(float(row["distance"]) == pytest.approx(float(row["identity"]), abs=1e-5) for row in rows[:125])
    assert {row["transforms"] for row in rows} == {"1000"} and {row["test_images"] for row in rows} == {"10"}
    ratio = [float(by_key["fixed", "fog", "5"][name]) for name in ("distance", "identity")]
    assert 0 < ratio[0] < ratio[1] * 1.2
    assert any(line.split("│")[1:4] == [" none   ", "     1 ", " 100.0 "] for line in text.splitlines()), text


def test_too_few_test_images_are_refused(
    finished: Callable[..., RunFolder], tmp_path: Path, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished("none")
    monkeypatch.setattr(overlap_probe, "FEWEST_IMAGES", 101)
    said = augbench("probe", run.path, "--kind", "overlap", "--out", tmp_path / "probes", "--device", "cpu")
    assert fails_in_one_paragraph(said, "mnist5k (size=14) has 100 test images", "at least 101")
