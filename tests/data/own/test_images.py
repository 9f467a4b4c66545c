"""Folders of images: what counts as a class, a part, an image, and what is passed over or refused."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_files import error_of, has
from own_images import class_names, counts_of, encoded, noise, nothing_left, prepared, write_images

from augbench.bench.data.own.settings import kind_of, name_from
from augbench.bench.data.own.stored import load_own

Harm = Callable[[Path], Any]


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Write ten cats and five dogs."""
    return write_images(tmp_path / "My Pets", {"cat": 10, "dog": 5})


def refused(folder: Path, **settings: Any) -> str:
    """Prepare what must fail and leave nothing."""
    root = folder.parent / "refused"
    text = error_of(prepared, "images", folder, root, **settings)
    assert nothing_left(root)
    return text


def test_a_folder_for_each_class(pets: Path, tmp_path: Path) -> None:
    made = prepared("images", pets, tmp_path / "data")
    assert made.prepared.startswith("my-pets-")
    assert counts_of(made) == {"cat": (8, 0, 2), "dog": (4, 0, 1)}
    data = load_own(made.prepared, tmp_path / "data")
    assert (data.classes, data.held_out, data.train.images.shape) == (2, None, (12, 3, 32, 32))
    files = {one.tobytes() for split in (data.train, data.test) for one in split.images.numpy()}
    assert len(files) == 15


def test_parts_in_folders(tmp_path: Path) -> None:
    folder = tmp_path / "split"
    for number, part in enumerate(("Train", "val", "test")):
        write_images(folder / part, {"a": 4 - number, "b": 5 - number}, seed=100 * number)
    made = prepared("images", folder, tmp_path / "data", side=8)
    assert counts_of(made) == {"a": (7, 3, 2), "b": (9, 4, 3)}
    data = load_own(made.prepared, tmp_path / "data")
    assert data.held_out is not None
    held_out = data.train.images[data.held_out]
    expected = [
        noise(100 + 1000 * label + i).resize((8, 8), 3, (5, 0, 35, 30)) for label in (0, 1) for i in range(3 + label)
    ]
    assert np.array_equal(held_out.numpy(), np.stack([np.asarray(one).transpose(2, 0, 1) for one in expected]))
    assert data.validation_mask() is data.held_out


def test_held_out_images_stay_held_out_if_test_images_are_split_off(tmp_path: Path) -> None:
    folder = tmp_path / "split"
    write_images(folder / "train", {"a": 10, "b": 10})
    write_images(folder / "valid", {"a": 2, "b": 2}, seed=500)
    assert counts_of(prepared("images", folder, tmp_path / "data")) == {"a": (10, 2, 2), "b": (10, 2, 2)}


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "vehicles", {"train": 4, "bus": 4})
    assert list(counts_of(prepared("images", folder, tmp_path / "data"))) == ["bus", "train"]


def test_a_split_with_a_folder_beside_it_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "split"
    for number, part in enumerate(("train", "test")):
        write_images(folder / part, {"a": 3, "b": 3}, seed=100 * number)
    write_images(folder, {"docs": 1})
    assert has(refused(folder), "test and train", "docs", "Move that elsewhere")


def test_what_is_no_regular_file_is_passed_over(pets: Path, tmp_path: Path) -> None:
    os.mkfifo(pets / "cat" / "pipe.png")
    assert counts_of(prepared("images", pets, tmp_path / "data")) == {"cat": (8, 0, 2), "dog": (4, 0, 1)}


def test_the_kind_is_that_of_class_folders_first(pets: Path, tmp_path: Path) -> None:
    for name in ("meta.parquet", ".cache/x.parquet"):
        (pets / name).parent.mkdir(exist_ok=True)
        (pets / name).touch()
    assert kind_of(pets) == "images"
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "x.parquet").touch()
    assert kind_of(tmp_path / "table") == "table"


def test_a_lost_picture_is_drawn_again(pets: Path, tmp_path: Path) -> None:
    made = prepared("images", pets, tmp_path / "data")
    made.sheet.unlink()
    again = prepared("images", pets, tmp_path / "data")
    assert again.prepared == made.prepared and again.sheet.is_file()


def test_names_of_any_kind(tmp_path: Path) -> None:
    names = ["a b", "[bold]x", "Käse", "犬", "<script>", "x\x1b[31m"]
    folder = write_images(tmp_path / "pets", dict.fromkeys(names, 2))
    bad = os.fsencode(folder) + b"/\xff\xfe"
    os.rename(os.fsencode(folder / "犬"), bad)  # noqa: PTH104 - no Path has such a name
    made = prepared("images", folder, tmp_path / "data")
    assert class_names(made, tmp_path / "data") == [*sorted([*names[:3], names[4], names[5]]), "\\xff\\xfe"]


def test_a_name_that_is_written_in_two_ways_is_one_class(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "pets", {"K\u00e4se": 3, "Ka\u0308se": 4, "dog": 2})
    assert class_names(prepared("images", folder, tmp_path / "data"), tmp_path / "data") == ["K\u00e4se", "dog"]


def test_endings_and_what_systems_leave(pets: Path, tmp_path: Path) -> None:
    (pets / "cat" / "more" / "deeper").mkdir(parents=True)
    (pets / "cat" / "more" / "deeper" / "X.JPEG").write_bytes(encoded(noise(77), "JPEG"))
    (pets / "cat" / "notes.txt").write_text("notes")
    (pets / "cat" / "list").write_text("list")
    (pets / "loose.PNG").write_bytes(encoded(noise(79)))
    for name in (".ipynb_checkpoints", "@eaDir", "__MACOSX"):
        for place in (pets / name, pets / "dog" / name):
            place.mkdir()
            (place / "0.png").write_bytes(encoded(noise(78)))
    for name in ("Thumbs.db", ".DS_Store", "._0.png", "desktop.ini"):
        (pets / "dog" / name).write_bytes(b"x")
    made = prepared("images", pets, tmp_path / "data")
    assert counts_of(made) == {"cat": (9, 0, 2), "dog": (4, 0, 1)}
    assert list(made.report.remarks) == [
        "2 files with other endings ignored (.txt, no ending).",
        "1 image outside the class folders ignored (loose.PNG).",
    ]


def test_links_out_of_the_folder_and_loops_are_passed_over(pets: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(encoded(noise(79)))
    (pets / "cat" / "out.png").symlink_to(tmp_path / "secret.png")
    (pets / "cat" / "broken.png").symlink_to(tmp_path / "nowhere.png")
    (pets / "dog" / "in.png").symlink_to(pets / "cat" / "0.png")
    (pets / "dog" / "loop").symlink_to(pets)
    (pets / "linked").symlink_to(tmp_path)
    made = prepared("images", pets, tmp_path / "data")
    assert counts_of(made) == {"cat": (8, 0, 2), "dog": (5, 0, 1)}
    (remark,) = made.report.remarks
    assert has(remark, "4 symbolic links not followed", "linked", "out.png", "broken.png", "dog/loop")
    assert len(made.report.contradicting) == 1  # a cat that is a dog as well


def test_the_folder_itself_may_be_a_link(pets: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(pets)
    assert len(counts_of(prepared("images", tmp_path / "link", tmp_path / "data", name="x"))) == 2


def test_classes_are_left_out(pets: Path, tmp_path: Path) -> None:
    write_images(pets, {"fish": 4}, seed=7000)
    made = prepared("images", pets, tmp_path / "data", leave_out=("cat",))
    assert list(counts_of(made)) == ["dog", "fish"]
    assert has(refused(pets, leave_out=("cats",)), "no class for --leave-out 'cats'", "Did you mean 'cat'?")
    assert "at least two classes" in refused(pets, leave_out=("cat", "dog"))


def empty(folder: Path) -> None:
    for file in folder.rglob("*.png"):
        file.unlink()


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (empty, ["no images in its class folders", ".jpg"]),
        (lambda folder: [*map(os.unlink, (folder / "dog").iterdir())], ["at least two classes", "only one, cat"]),
        (lambda folder: (folder / "dog").rename(folder.parent / "dog"), ["at least two classes", "only one, cat"]),
        (
            lambda folder: [file.rename(file.with_suffix(".xyz")) for file in folder.rglob("*.png")],
            ["15 files", ".xyz"],
        ),
    ],
)
def test_folders_without_two_classes(harm: Harm, words: list[str], pets: Path) -> None:
    harm(pets)
    assert has(refused(pets), *words)


def test_other_layouts(pets: Path, tmp_path: Path) -> None:
    assert has(refused(pets / "cat"), "has no folders in it", "named after the class")
    assert has(refused(pets / "cat" / "0.png"), "is a file", "folder of images for each class")
    assert has(refused(tmp_path / "nowhere"), "There is no", "nowhere")
    (pets / "cat").rename(pets / "train")
    (pets / "dog").rename(pets / "test")
    assert has(refused(pets), "test, train", "no class folders")


def test_one_image_of_each_class(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "few", {"a": 1, "b": 1})
    assert "No class has two training images" in refused(folder)
    write_images(folder, {"a": 2})
    made = prepared("images", folder, tmp_path / "data")
    assert counts_of(made) == {"a": (1, 0, 1), "b": (1, 0, 0)}
    assert any("no test images in b" in text for text in made.report.sentences())


def test_a_test_class_without_training_images(tmp_path: Path) -> None:
    folder = tmp_path / "split"
    write_images(folder / "train", {"a": 3, "b": 3})
    write_images(folder / "test", {"a": 1, "b": 1, "zebra": 1}, seed=50)
    assert has(refused(folder), "zebra", "--leave-out")
    assert len(counts_of(prepared("images", folder, tmp_path / "data", leave_out=("zebra",)))) == 2
    assert has(refused(folder, leave_out=("zebra",), test_share=0.5), "--test-share has no use here")


@pytest.mark.slow
def test_very_many_classes(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    for number in range(10_000):
        (folder / f"{number:05}").mkdir(parents=True)
        for index in range(2):
            (folder / f"{number:05}" / f"{index}.bmp").write_bytes(encoded(noise(number, 1 + index, 1), "BMP"))
    made = prepared("images", folder, tmp_path / "data", side=2)
    data = load_own(made.prepared, tmp_path / "data")
    assert (data.classes, len(data.train), len(data.test)) == (10_000, 10_000, 10_000)


def test_images_of_one_pixel(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / "dots" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        (tmp_path / "dots" / "ab"[number % 2] / f"{number}.png").write_bytes(encoded(noise(number, 1, 1)))
    made = prepared("images", tmp_path / "dots", tmp_path / "data", side=1)
    assert load_own(made.prepared, tmp_path / "data").train.images.shape == (6, 3, 1, 1)


def write_groups(pets: Path, group_of: Callable[[str, int], str]) -> Path:
    rows = [f"{name}/{i}.png,{group_of(name, i)}" for name, n in (("cat", 10), ("dog", 5)) for i in range(n)]
    path = pets.parent / "groups.csv"
    path.write_text("\ufeffnote,image,group\n" + "".join(f"x,{row}\n" for row in rows), "utf-8")
    return path


def test_groups_stay_together(pets: Path, tmp_path: Path) -> None:
    groups = write_groups(pets, lambda name, index: f"{name}{index // 2}")  # pairs, of dogs also a single one
    made = prepared("images", pets, tmp_path / "data", groups=groups)
    assert counts_of(made) == {"cat": (8, 0, 2), "dog": (4, 0, 1)}
    data = load_own(made.prepared, tmp_path / "data")
    tested = {image.tobytes() for image in data.test.images.numpy()}
    pairs = [
        sum(
            np.asarray(noise(2 * pair + i).resize((32, 32), 3, (5, 0, 35, 30))).transpose(2, 0, 1).tobytes() in tested
            for i in (0, 1)
        )
        for pair in range(5)
    ]
    assert sorted(pairs) == [0, 0, 0, 0, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("image,patient\n", ["no column group", "image"]),
        ("", ["no column image and no column group"]),
        ("image,group\ncat/0.png,1\ncat/1.png,\n", ["no group for 14 images of 15", "cat/1.png", "Add a row"]),
        ("\xff", ["--groups", "not written in UTF-8"]),
    ],
)
def test_groups_that_lack_something(text: str, words: list[str], pets: Path) -> None:
    (pets.parent / "groups.csv").write_bytes(text.encode("latin1"))
    assert has(refused(pets, groups=pets.parent / "groups.csv"), *words)


def test_groups_are_not_there(pets: Path) -> None:
    assert has(refused(pets, groups=pets.parent / "none.csv"), "none.csv", "No such file")


@pytest.mark.parametrize(("name", "expected"), [("My Pets (2)", "my-pets-2"), ("x.v2", "x-v2"), ("Äpfel", "pfel")])
def test_names_from_paths(name: str, expected: str, tmp_path: Path) -> None:
    assert name_from(tmp_path / name) == expected
    assert "--name" in error_of(name_from, tmp_path / "犬")
