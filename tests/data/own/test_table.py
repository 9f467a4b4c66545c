"""Parquet tables: columns, parts, labels and groups are found or named, and what is refused."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_files import error_of, has
from own_images import class_names, counts_of, encoded, noise, nothing_left, prepared

from augbench.bench.data.own.stored import load_own

LABELS = ["b", "a"] * 5


def images(count: int = 10, seed: int = 0) -> list[bytes]:
    return [encoded(noise(seed + number)) for number in range(count)]


def structs(contents: Sequence[bytes | None]) -> list[dict[str, Any]]:
    return [{"bytes": content, "path": f"{number}.png"} for number, content in enumerate(contents)]


def saved(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, path, **options)
    return path


def refused(path: Path, **settings: Any) -> str:
    root = path.parent / "refused"
    text = error_of(prepared, "table", path, root, **settings)
    assert nothing_left(root)
    return text


@pytest.mark.parametrize("content", [images(), structs(images()), pa.array(images(), pa.large_binary())])
def test_a_file_with_images_and_labels(content: Any, tmp_path: Path) -> None:
    path = saved(tmp_path / "My Pets.parquet", {"image": content, "label": LABELS}, row_group_size=3)
    made = prepared("table", path, tmp_path, side=8)
    assert made.prepared.startswith("my-pets-")
    assert counts_of(made) == {"a": (4, 0, 1), "b": (4, 0, 1)}
    data = load_own(made.prepared, tmp_path)
    expected = {}
    for number, label in enumerate(LABELS):
        square = noise(number).resize((8, 8), 3, (5, 0, 35, 30))
        expected[b"".join(band.tobytes() for band in square.split())] = "ab".index(label)
    for part in (data.train, data.test):
        assert [expected.pop(image.numpy().tobytes()) for image in part.images] == part.labels.tolist()
    assert not expected


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([10, 2] * 5, ["2", "10"]),
        ([1.0, 0.0] * 5, ["0", "1"]),
        (["a/b", "../[red]"] * 5, ["../[red]", "a/b"]),
        ([True, False] * 5, ["False", "True"]),
        (pa.array(LABELS).dictionary_encode(), ["a", "b"]),
        (pa.array(LABELS, pa.large_string()), ["a", "b"]),
        (pa.array([0, 1] * 5, pa.uint8()), ["0", "1"]),
    ],
)
def test_labels(labels: Any, names: list[str], tmp_path: Path) -> None:
    made = prepared("table", saved(tmp_path / "x.parquet", {"image": images(), "label": labels}), tmp_path)
    assert class_names(made, tmp_path) == names
    assert {train + test for train, _, test in counts_of(made).values()} == {5}


@pytest.mark.parametrize("missing", [[None, "a", "b"] * 4, [None, 0, 1] * 4, [float("nan"), 0.0, 1.0] * 4])
def test_missing_labels_are_damage(missing: list[Any], tmp_path: Path) -> None:
    path = saved(tmp_path / "x.parquet", {"image": images(12), "label": missing})
    assert has(refused(path), "4 images of 12", "x.parquet[0] has no label", "x.parquet[3]", "--skip-damaged")
    made = prepared("table", path, tmp_path, skip_damaged=True)
    assert sum(train + test for train, _, test in counts_of(made).values()) == 8
    assert len(made.report.unreadable) == 4


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([0.5, 1.0] * 5, ["such as 0.5", "--label-column"]),
        ([None] * 10, ["--label-column"]),
        ([["a"], ["b"]] * 5, ["of type", "--label-column"]),
        (["a"] * 10, ["at least two classes"]),
    ],
)
def test_labels_that_cannot_be_used(labels: Any, words: list[str], tmp_path: Path) -> None:
    assert has(refused(saved(tmp_path / "x.parquet", {"image": images(), "label": labels})), *words)


def test_names_of_classes_from_hugging_face(tmp_path: Path) -> None:
    features = {
        "image": {"_type": "Image"},
        "kind": {"names": ["zebra", "ant", "[b]"], "_type": "ClassLabel"},
        "label": {"dtype": "int64", "_type": "Value"},
    }
    table = pa.table({"image": structs(images()), "label": list(range(10)), "kind": [0, 1, 2, 0, 1] * 2})
    about = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    made = prepared("table", saved(tmp_path / "x.parquet", table.replace_schema_metadata(about)), tmp_path)
    assert class_names(made, tmp_path) == ["zebra", "ant", "[b]"]
    hidden = table.set_column(2, "kind", pa.array([0, 1, -1, 0, 1] * 2)).replace_schema_metadata(about)
    text = refused(saved(tmp_path / "y.parquet", hidden))
    assert has(text, "2 images of 10", "y.parquet[2] has no label")
    left = prepared("table", tmp_path / "x.parquet", tmp_path, leave_out=("ant",))
    assert class_names(left, tmp_path) == ["zebra", "[b]"]
    damaged = table.replace_schema_metadata({b"huggingface": b"{]"})
    assert "at least two" not in refused(saved(tmp_path / "z.parquet", damaged), label_column="label", test_share=2.0)


def test_parts_by_the_names_of_files(tmp_path: Path) -> None:
    folder = tmp_path / "pets"
    for number, name in enumerate(("train-00000-of-00002", "train-00001-of-00002", "validation-0", "test-0")):
        saved(folder / "data" / f"{name}.parquet", {"image": images(4, 10 * number), "label": ["a", "b"] * 2})
    assert counts_of(prepared("table", folder, tmp_path)) == {"a": (6, 2, 2), "b": (6, 2, 2)}
    saved(folder / ".hidden.parquet", {"x": [1]})
    saved(folder / ".cache" / "train.parquet", {"x": [1]})
    prepared("table", folder, tmp_path)
    saved(folder / "more.parquet", {"image": images(4, 50), "label": ["a", "b"] * 2})
    assert has(refused(folder), "more.parquet", "train, validation or test")
    saved(folder / "more.parquet", {"image": images(4, 50), "labels": ["a", "b"] * 2})
    assert has(refused(folder), "more.parquet has other columns")


def test_parts_by_the_names_of_folders(tmp_path: Path) -> None:
    for number, name in enumerate(("train", "test")):
        columns = {"image": images(4, 10 * number), "label": ["a", "b"] * 2}
        saved(tmp_path / "pets" / "default" / name / "0000.parquet", columns)
    assert counts_of(prepared("table", tmp_path / "pets", tmp_path)) == {"a": (2, 0, 2), "b": (2, 0, 2)}


def test_the_name_of_the_chosen_folder_is_no_part(tmp_path: Path) -> None:
    for name in ("x", "y"):
        saved(tmp_path / "test-pets" / f"{name}.parquet", {"image": images(4), "label": ["a", "b"] * 2})
    assert counts_of(prepared("table", tmp_path / "test-pets", tmp_path)) == {"a": (3, 0, 1), "b": (3, 0, 1)}


def test_files_without_parts_are_one(tmp_path: Path) -> None:
    for number in range(2):
        saved(tmp_path / "pets" / f"{number}.parquet", {"image": images(5, 10 * number), "label": LABELS[:5]})
    assert counts_of(prepared("table", tmp_path / "pets", tmp_path)) == {"a": (3, 0, 1), "b": (5, 0, 1)}


def test_parts_by_a_column(tmp_path: Path) -> None:
    parts = ["train", "train", "Train", "train", "val", "val", "test", "test", "test", "test"]
    path = saved(tmp_path / "x.parquet", {"image": images(), "label": LABELS, "split": parts})
    assert counts_of(prepared("table", path, tmp_path)) == {"a": (3, 1, 2), "b": (3, 1, 2)}
    path = saved(tmp_path / "x.parquet", {"image": images(), "label": LABELS, "fold": parts})
    assert counts_of(prepared("table", path, tmp_path, label_column="label", split_column="fold"))["a"] == (3, 1, 2)
    wrong = [*parts[:9], "later"]
    path = saved(tmp_path / "x.parquet", {"image": images(), "label": LABELS, "split": wrong})
    assert has(refused(path), "in the column split 'later'", "validation")
    assert has(
        refused(saved(tmp_path / "x.parquet", {"image": images(), "label": LABELS, "split": ["test"] * 10})), "a, b"
    )


def test_groups(tmp_path: Path) -> None:
    patients = [number // 4 for number in range(40)]
    path = saved(tmp_path / "x.parquet", {"image": images(40), "label": LABELS * 4, "patient": patients})
    made = prepared("table", path, tmp_path, group_column="patient")
    assert counts_of(made) == {"a": (16, 0, 4), "b": (16, 0, 4)}
    tested = {image.tobytes() for image in load_own(made.prepared, tmp_path).test.images.numpy()}
    whole = prepared("table", path, tmp_path, test_share=0.5)  # to find the images of each patient
    assert whole.prepared != made.prepared
    sides = {0: 0, 4: 0}
    for patient in range(10):
        pictures = [noise(4 * patient + i).resize((32, 32), 3, (5, 0, 35, 30)) for i in range(4)]
        sides[sum(b"".join(band.tobytes() for band in one.split()) in tested for one in pictures)] += 1
    assert sides == {0: 8, 4: 2}
    path = saved(tmp_path / "x.parquet", {"image": images(), "label": LABELS, "patient": [None, *range(9)]})
    assert has(refused(path, group_column="patient"), "1 row without a value in the group column patient")


def test_columns_that_leave_it_open(tmp_path: Path) -> None:
    columns = {
        "front": images(),
        "back": images(seed=50),
        "colour": LABELS,
        "breed": [*LABELS[1:], "c"],
        "when": [0.5] * 10,
    }
    path = saved(tmp_path / "x.parquet", columns)
    assert has(refused(path), "2 columns that may be the images", "--image-column NAME", "front, back, colour, breed")
    assert has(refused(path, image_column="front"), "columns that may be the labels", "--label-column NAME")
    assert has(refused(path, image_column="frnt"), "no column for --image-column 'frnt'", "Did you mean 'front'?")
    made = prepared("table", path, tmp_path, image_column="back", label_column="breed")
    assert class_names(made, tmp_path) == ["a", "b", "c"]
    assert has(refused(saved(tmp_path / "y.parquet", {"label": LABELS})), "0 columns that may be the images")
    only = saved(tmp_path / "z.parquet", {"image": images(), "breed": LABELS})
    assert class_names(prepared("table", only, tmp_path), tmp_path) == ["a", "b"]


def test_cells_that_hold_no_image(tmp_path: Path) -> None:
    content = structs([None, b"hello", *images(10)])
    path = saved(tmp_path / "x.parquet", {"image": content, "label": ["a", "b"] * 6})
    text = refused(path)
    assert has(text, "2 images of 12", "x.parquet[0] holds no image file", "x.parquet[1] is no image in JPEG")
    assert counts_of(prepared("table", path, tmp_path, skip_damaged=True))["a"] == (4, 0, 1)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.parquet", {"image": images(), "label": LABELS})
    content = path.read_bytes()
    path.write_bytes(content[:500])
    assert "cannot be read as Parquet" in refused(path)
    path.write_bytes(content[:200] + bytes(300) + content[500:])
    assert has(refused(path), "x.parquet")
    (tmp_path / "empty").mkdir()
    assert has(refused(tmp_path / "empty"), "has no .parquet files in it")
    none = saved(tmp_path / "none.parquet", {"image": pa.array([], pa.binary()), "label": pa.array([], pa.string())})
    assert "no labels" in refused(none)
