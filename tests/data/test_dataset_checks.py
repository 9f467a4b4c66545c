"""What a data set may return: each mistake is named with its array, what that is and what it must be."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_files import error_of, has
from torch import Tensor

from augbench.bench.conformance.problem import CLASSES, COLOUR, GREY, TEST_IMAGES, TRAIN_IMAGES
from augbench.bench.data.dataset import DatasetOptions, DatasetSource, ImageData, Split
from augbench.bench.data.dataset_checks import (
    NamedArray,
    UnusableDataError,
    check_arrays_fit,
    check_for_tuning,
    check_loaded,
    load_checked,
)

GOOD = GREY.data()
IMAGES, LABELS = GOOD.train.images, GOOD.train.labels


def train(images: Any = IMAGES, labels: Any = LABELS, **more: Any) -> ImageData:
    return replace(GOOD, train=Split(images, labels), **more)


def upright(change: Callable[[Tensor], Tensor] = lambda images: images, labels: Any = GOOD.test.labels) -> ImageData:
    return replace(GOOD, upright_test=Split(change(GOOD.test.images), labels))


def larger(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda images: torch.nn.functional.interpolate(images, scale_factor=factor)


def refuses(data: Any, *words: str) -> bool:
    text = error_of(check_loaded, "dots", data, kind=UnusableDataError)
    assert text.startswith("The data set 'dots' cannot be used: ")
    return has(text, *words)


@pytest.mark.parametrize(
    "data",
    [
        GOOD,
        COLOUR.data(),
        train(held_out=torch.arange(TRAIN_IMAGES) < 9),
        upright(),
        upright(larger(2)),
        replace(GOOD, test=GOOD.test.subset(torch.tensor([0]))),  # four classes have no test image
        train(torch.cat([IMAGES, 255 - IMAGES], 1), test=Split(GOOD.test.images.repeat(1, 2, 1, 1), GOOD.test.labels)),
        train(IMAGES[:CLASSES], LABELS[:CLASSES]),
    ],
)
def test_what_runs_can_use_is_let_through(data: ImageData) -> None:
    check_loaded("dots", data)


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (IMAGES.numpy(), ["is of type ndarray", "torch.Tensor"]),
        (None, ["is of type NoneType", "torch.Tensor"]),
        (IMAGES / 255, ["is float32", "must be uint8"]),
        (IMAGES.to(torch.uint16), ["is uint16", "must be uint8"]),
        (IMAGES[:, 0], ["has the shape (120, 14, 14)", "(N, C, H, W)", "`[:, None]`"]),
        (IMAGES[:0], ["has the shape (0, 1, 14, 14)", "at least one image"]),
        (IMAGES[:, :0], ["has the shape (120, 0, 14, 14)"]),
        (IMAGES[..., :12], ["14×12 pixels", "must be square"]),
        (IMAGES[..., :10, :], ["10×14 pixels", "must be square"]),
        (IMAGES.permute(0, 2, 3, 1), ["(120, 14, 14, 1)", "If channels come last, `.permute(0, 3, 1, 2)`"]),
        (COLOUR.data().train.images.permute(0, 2, 3, 1), ["(120, 16, 16, 3)", "`.permute(0, 3, 1, 2)`"]),
        (torch.cat([IMAGES, 0 * IMAGES + 255], 1), ["value 255 everywhere in channel 2 of 2", "alpha", "choose more"]),
        (torch.zeros_like(IMAGES), ["value 0 everywhere in channel 1 of 1"]),
        (IMAGES // 128, ["no value above 1", "from 0 to 255"]),
    ],
)
def test_training_images_that_no_run_can_use(images: Any, words: list[str]) -> None:
    both = Split(images, LABELS)
    assert refuses(replace(GOOD, train=both, test=both), "`train.images`", "Correct its `load`", *words)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (LABELS.numpy(), ["is of type ndarray"]),
        (LABELS.int(), ["is int32", "must be int64", "`.long()`"]),
        (LABELS.float(), ["is float32", "must be int64"]),
        (LABELS[:-1], ["has the shape (119,)", "(120,)"]),
        (LABELS[:, None], ["has the shape (120, 1)", "(120,)"]),
        (LABELS + 1, ["values from 1 to 5", "from 0 to 4", "Subtract 1"]),
        (LABELS - 1, ["values from -1 to 3", "from 0 to 4"]),
        (LABELS.clamp(max=2), ["no image of 2 of the 5 classes (3, 4)", "of which `test.labels` has 16"]),
    ],
)
def test_training_labels_that_no_run_can_use(labels: Any, words: list[str]) -> None:
    assert refuses(train(labels=labels), "`train.labels`", *words)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, ["what `load` returns is of type NoneType", "ImageData"]),
        (replace(GOOD, train=(IMAGES, LABELS)), ["`train` is of type tuple", "Split"]),  # type: ignore[arg-type]
        (replace(GOOD, test=Split(IMAGES[:0], LABELS[:0])), ["`test.images`", "(0, 1, 14, 14)"]),
        (replace(GOOD, test=COLOUR.data().test), ["`test.images`", "(40, 3, 16, 16)", "`train.images`, (1, 14, 14)"]),
        (replace(GOOD, test=Split(GOOD.test.images, GOOD.test.labels + 1)), ["`test.labels`", "from 1 to 5"]),
        (replace(GOOD, classes=1), ["`classes` is 1", "at least 2"]),
        (replace(GOOD, classes=5.0), ["`classes` is 5.0"]),  # type: ignore[arg-type]
        (replace(GOOD, classes=LABELS.max() + 1), ["`classes` is tensor(5)"]),  # type: ignore[arg-type]
        (replace(GOOD, classes=6), ["`train.labels` has no image of 1 of the 6 classes (5)"]),
        (replace(GOOD, provenance=Path("x")), ["`provenance`", "str"]),  # type: ignore[arg-type]
        (replace(GOOD, planted={}), ["`planted` is of type dict", "PlantedDistribution"]),  # type: ignore[arg-type]
        (train(held_out=torch.zeros(TRAIN_IMAGES)), ["`held_out` is float32", "bool"]),
        (train(held_out=torch.zeros(3, dtype=torch.bool)), ["`held_out` has the shape (3,)", "(120,)"]),
        (replace(GOOD, upright_test=GOOD.test.images), ["`upright_test` is of type Tensor", "Split"]),  # type: ignore[arg-type]
        (upright(larger(1.5)), ["`upright_test.images`", f"({TEST_IMAGES}, 1, S, S)", "multiple of 14"]),
        (upright(lambda images: images[..., :7, :7]), ["`upright_test.images`", "multiple of 14"]),
        (upright(lambda images: images[:9]), ["`upright_test.images`", "(9, 1, 14, 14)"]),
        (upright(lambda images: images.float()), ["`upright_test.images` is float32"]),
        (upright(labels=GOOD.test.labels.flip(0)), ["`upright_test.labels` differs from `test.labels`"]),
    ],
)
def test_other_mistakes(data: Any, words: list[str]) -> None:
    assert refuses(data, *words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"train_images": [[0]]}, ["`train_images` is of type list", "numpy.ndarray"]),
        ({"train_images": IMAGES.permute(0, 2, 3, 1).numpy()}, ["(120, 14, 14, 1)", "`.transpose(0, 3, 1, 2)`"]),
        ({"test_labels": GOOD.test.labels.int().numpy()}, ["`test_labels` is int32", "`.astype('int64')`"]),
        ({"held_out": np.zeros(9, dtype=bool)}, ["`held_out` has the shape (9,)", "(120,)"]),
        ({"upright_test_images": GOOD.test.images[..., :9, :9].numpy()}, ["`upright_test_images`", "multiple of 14"]),
    ],
)
def test_arrays_of_numpy_are_checked_alike(change: dict[str, Any], words: list[str]) -> None:
    values = {"train_images": IMAGES, "train_labels": LABELS} | {f"test_{n}": v for n, v in vars(GOOD.test).items()}
    arrays: dict[str, Any] = {name: value.numpy() for name, value in values.items()}
    good, bad = (
        {name: NamedArray("dots", name, value, np.ndarray) for name, value in some.items()}
        for some in (arrays, arrays | change)
    )
    check_arrays_fit("dots", good, CLASSES)
    assert has(error_of(check_arrays_fit, "dots", bad, CLASSES, kind=UnusableDataError), *words)


class Returning(DatasetSource):
    """Returns what it is told to."""

    name = "returning"
    value: Any = GOOD

    def load(self, options: DatasetOptions, root: Path) -> ImageData:
        """Return it."""
        data: ImageData = self.value
        return data


def test_what_is_loaded_is_checked_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_checked(Returning(), DatasetOptions(), Path()) is GOOD
    monkeypatch.setattr(Returning, "value", train(labels=LABELS.int()))
    assert has(error_of(load_checked, Returning(), DatasetOptions(), Path()), "'returning'")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (train(IMAGES[:10], LABELS[:10]), ["0 of its 10 training images", "5 of its 5 classes"]),  # two of each class
        (train(held_out=LABELS == 3), ["24 of its 120", "`held_out`", "4 of its 5 classes"]),
        (train(held_out=LABELS >= 0), ["120 of its 120", "0 of its 5 classes"]),
        (train(held_out=LABELS < 0), ["0 of its 120", "`held_out`"]),
    ],
)
def test_what_values_cannot_be_tuned_on(data: ImageData, words: list[str]) -> None:
    check_loaded("dots", data)
    assert has(error_of(check_for_tuning, "dots", data), "'dots'", "three of each class", *words)


@pytest.mark.parametrize("held_out", [None, torch.arange(TRAIN_IMAGES) < 5])
def test_what_values_can_be_tuned_on(held_out: Tensor | None) -> None:
    check_for_tuning("dots", train(held_out=held_out))
    check_for_tuning("dots", train(IMAGES[:15], LABELS[:15]))
