"""Archives of arrays: names, axes, types and labels, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_files import error_of, has
from numpy.typing import NDArray
from own_images import class_names, counts_of, nothing_left, prepared

from augbench.bench.data.own import arrays as reader
from augbench.bench.data.own.stored import load_own

RANDOM = np.random.RandomState(0)
COLOUR = RANDOM.randint(0, 256, (12, 8, 8, 3)).astype(np.uint8)
GREY = COLOUR[..., 0]
LABELS = np.arange(12) % 3


def saved(tmp_path: Path, **arrays: Any) -> Path:
    np.savez_compressed(tmp_path / "mine.npz", **arrays)
    return tmp_path / "mine.npz"


def refused(path: Path, **settings: Any) -> str:
    text = error_of(prepared, "arrays", path, path.parent / "refused", **settings)
    assert nothing_left(path.parent / "refused")
    return text


def both_of(made: Any, root: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """All images and labels, those to test on last."""
    data = load_own(made.prepared, root)
    images, labels = (
        [getattr(part, kind).numpy() for part in (data.train, data.test)] for kind in ("images", "labels")
    )
    return np.concatenate(images), np.concatenate(labels)


@pytest.mark.parametrize("shape", [(12,), (12, 1)])
@pytest.mark.parametrize("images", [COLOUR, GREY])
def test_names_of_medmnist(images: NDArray[Any], shape: tuple[int, ...], tmp_path: Path) -> None:
    arrays: dict[str, Any] = {}
    for number, part in enumerate(("train", "val", "test")):
        arrays |= {f"{part}_images": np.roll(images, number, 1), f"{part}_labels": LABELS.reshape(shape)}
    made = prepared("arrays", saved(tmp_path, **arrays), tmp_path)
    assert made.prepared.startswith("mine-")
    assert counts_of(made) == {str(label): (8, 4, 4) for label in range(3)}
    expected = [arrays[f"{part}_images"] for part in ("train", "val", "test")]
    first = [one[:, None] if one.ndim == 3 else one.transpose(0, 3, 1, 2) for one in expected]
    images, labels = both_of(made, tmp_path)
    assert np.array_equal(images, np.concatenate(first))
    assert np.array_equal(labels, np.tile(LABELS, 3))
    assert load_own(made.prepared, tmp_path).validation_mask().tolist() == [False] * 12 + [True] * 12


def test_test_images_are_split_off(tmp_path: Path) -> None:
    made = prepared("arrays", saved(tmp_path, images=COLOUR, labels=LABELS), tmp_path, test_share=0.5)
    assert counts_of(made) == {str(label): (2, 0, 2) for label in range(3)}
    by_content = {image.tobytes(): label for image, label in zip(COLOUR.transpose(0, 3, 1, 2), LABELS, strict=True)}
    images, labels = both_of(made, tmp_path)
    assert [by_content.pop(image.tobytes()) for image in images] == labels.tolist()
    assert not by_content


def test_given_names(tmp_path: Path) -> None:
    path = saved(tmp_path, a=COLOUR, b=LABELS, c=COLOUR[:6], d=LABELS[:6])
    assert has(refused(path), "has no train_images and train_labels, but a, b, c, d", "--array train_images=NAME")
    pairs = (("train_images", "a"), ("train_labels", "b"), ("test_images", "c"), ("test_labels", "d"))
    assert counts_of(prepared("arrays", path, tmp_path, arrays=pairs))["0"] == (4, 0, 2)
    assert has(refused(path, arrays=(("train_image", "a"),)), "no array for --array 'train_image'", "train_images")
    assert has(refused(path, arrays=(("train_images", "x"),)), "no array in", "'x'", "a, b, c, d")
    assert has(refused(path, arrays=pairs[:3]), "has no test_labels")


def test_names_of_keras_and_several_that_fit(tmp_path: Path) -> None:
    arrays = {"x_train": GREY, "y_train": LABELS, "x_test": GREY[:6], "y_test": LABELS[:6]}
    assert counts_of(prepared("arrays", saved(tmp_path, **arrays), tmp_path))["0"] == (4, 0, 2)
    path = saved(tmp_path, **arrays, train_images=GREY)
    assert has(refused(path), "has train_images and x_train", "--array train_images=train_images")


def test_channels_first_or_last(tmp_path: Path) -> None:
    last = prepared("arrays", saved(tmp_path, images=COLOUR, labels=LABELS), tmp_path)
    first = prepared("arrays", saved(tmp_path, images=COLOUR.transpose(0, 3, 1, 2), labels=LABELS), tmp_path)
    assert first.prepared == last.prepared
    either = np.stack([COLOUR[:, :3, :3]])[0]
    path = saved(tmp_path, images=either, labels=LABELS)
    assert has(
        refused(path), "(12, 3, 3, 3)", "both the second axis and the last", "--channels first or --channels last"
    )
    made = [both_of(prepared("arrays", path, tmp_path, channels=way), tmp_path)[0] for way in ("first", "last")]
    assert np.array_equal(made[0].transpose(0, 2, 3, 1).transpose(0, 2, 3, 1).transpose(0, 2, 3, 1), made[0])
    assert {image.tobytes() for image in made[0]} == {np.ascontiguousarray(image).tobytes() for image in either}
    assert {image.tobytes() for image in made[1]} == {image.transpose(2, 0, 1).tobytes() for image in either}
    odd = saved(tmp_path, images=np.zeros((12, 8, 8, 5), np.uint8), labels=LABELS)
    assert has(refused(odd), "neither the second axis nor the last", "1, 3 or 4")
    assert "neither" in refused(saved(tmp_path, images=COLOUR, labels=LABELS), channels="first")


def test_transparency_becomes_black(tmp_path: Path) -> None:
    images = np.concatenate([COLOUR, np.full((12, 8, 8, 1), 255, np.uint8)], 3)
    images[:, 0, 0, 3] = 0
    made = prepared("arrays", saved(tmp_path, images=images, labels=LABELS), tmp_path)
    found, _ = both_of(made, tmp_path)
    assert found.shape == (12, 3, 8, 8)
    assert not found[:, :, 0, 0].any()
    assert {image[:, 1:].tobytes() for image in found} == {
        np.ascontiguousarray(image.transpose(2, 0, 1)[:, 1:]).tobytes() for image in COLOUR
    }


def test_sixteen_bits(tmp_path: Path) -> None:
    images = RANDOM.randint(0, 65_536, (12, 8, 8)).astype(np.uint16)
    found, _ = both_of(prepared("arrays", saved(tmp_path, images=images, labels=LABELS), tmp_path), tmp_path)
    assert {image.tobytes() for image in found} == {
        np.round(image / 65_535 * 255).astype(np.uint8).tobytes() for image in images
    }


def test_images_stored_column_by_column_and_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = prepared("arrays", saved(tmp_path, images=COLOUR, labels=LABELS), tmp_path)
    by_column = prepared("arrays", saved(tmp_path, images=np.asfortranarray(COLOUR), labels=LABELS), tmp_path)
    monkeypatch.setattr(reader, "PIECE", COLOUR[0].nbytes * 5)
    in_pieces = prepared("arrays", saved(tmp_path, images=COLOUR, labels=LABELS), tmp_path)
    assert whole.prepared == by_column.prepared == in_pieces.prepared


def test_sizes(tmp_path: Path) -> None:
    wide = saved(tmp_path, images=COLOUR[:, :, :6], labels=LABELS)
    assert has(refused(wide), "not squares of one size", "(12, 8, 6, 3)", "--side")
    made = prepared("arrays", wide, tmp_path, side=4)
    assert both_of(made, tmp_path)[0].shape == (12, 3, 4, 4)
    different = {
        "train_images": COLOUR,
        "train_labels": LABELS,
        "test_images": COLOUR[:, :5, :5],
        "test_labels": LABELS,
    }
    assert "not squares of one size" in refused(saved(tmp_path, **different))
    grey = prepared("arrays", saved(tmp_path, images=COLOUR, labels=LABELS), tmp_path, grey=True)
    assert (grey.report.side, grey.report.channels) == (8, 1)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array([10, 2, -1] * 4), ["-1", "2", "10"]),
        (np.array([1.0, 0.0, 2.0] * 4), ["0", "1", "2"]),
        (np.array(["b/c", "a", "[red]"] * 4), ["[red]", "a", "b/c"]),
        (np.array([True, False] * 6), ["False", "True"]),
        (np.arange(3, dtype=np.uint8).repeat(4), ["0", "1", "2"]),
    ],
)
def test_labels(labels: NDArray[Any], names: list[str], tmp_path: Path) -> None:
    made = prepared("arrays", saved(tmp_path, images=COLOUR, labels=labels), tmp_path)
    assert class_names(made, tmp_path) == names
    assert list(counts_of(made)) == names
    assert "at least two" in refused(tmp_path / "mine.npz", leave_out=tuple(names[1:]))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.array([0.5, 1, 2] * 4), ["labels", "such as 0.5", "whole numbers or texts"]),
        (np.array([np.nan, 1, 2] * 4), ["such as nan"]),
        (np.eye(12), ["(12, 12)", "(12,) or (12, 1)", "Several labels"]),
        (LABELS[:5], ["(5,)", "(12,) or (12, 1)"]),
        (np.zeros(12, int), ["at least two classes", "only one, 0"]),
        (LABELS.astype(complex), ["complex128"]),
        (LABELS.astype(object), ["Object arrays cannot be loaded", "refused"]),
    ],
)
def test_labels_that_cannot_be_used(labels: NDArray[Any], words: list[str], tmp_path: Path) -> None:
    assert has(refused(saved(tmp_path, images=COLOUR, labels=labels)), *words)


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (COLOUR / 255, ["float64", "uint8", "uint16"]),
        (COLOUR.astype(object), ["object"]),
        (COLOUR[0], ["(8,) or (8, 1)"]),
        (COLOUR[0, 0], ["(8, 3)", "N×H×W"]),
        (COLOUR[:0], ["(0, 8, 8, 3)"]),
    ],
)
def test_images_that_cannot_be_used(images: NDArray[Any], words: list[str], tmp_path: Path) -> None:
    assert has(refused(saved(tmp_path, images=images, labels=LABELS)), *words)


def test_files_that_are_no_archives(tmp_path: Path) -> None:
    path = saved(tmp_path, images=COLOUR, labels=LABELS)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert has(refused(path), "cannot be read as an .npz file", "numpy.savez")
    damaged = bytearray(content)
    damaged[200:260] = bytes(60)
    path.write_bytes(damaged)
    assert "cannot be read as an .npz file" in refused(path)
    path.write_bytes(b"hello")
    assert "cannot be read as an .npz file" in refused(path)
    assert "is a folder" in refused(tmp_path)


def test_many_classes(tmp_path: Path) -> None:
    images = RANDOM.randint(0, 256, (20_000, 2, 2)).astype(np.uint8)
    made = prepared("arrays", saved(tmp_path, images=images, labels=np.arange(20_000) % 10_000), tmp_path)
    data = load_own(made.prepared, tmp_path)
    assert (data.classes, len(data.train), len(data.test)) == (10_000, 10_000, 10_000)
