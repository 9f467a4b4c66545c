"""Preparing images of one's own: what is stored and reported, and that nothing half-written is ever left."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_files import error_of, has
from own_images import counts_of, encoded, noise, nothing_left, prepared, write_images
from PIL import Image

from augbench.bench.common.locks import exclusive
from augbench.bench.data.array_folder import MANIFEST, DamagedDataError, check_arrays
from augbench.bench.data.downloads import ProgressCallback
from augbench.bench.data.own.preparing import prepare_own
from augbench.bench.data.own.report import REPORT, Report
from augbench.bench.data.own.settings import LONGEST_NAME, ONLY_FOR, OwnSettings, kind_of
from augbench.bench.data.own.stored import load_own, own_folder, prepared_own, read_own_manifest

SetRoom = Callable[..., None]


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Write ten cats and ten dogs."""
    return write_images(tmp_path / "pets", {"cat": 10, "dog": 10})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Name a folder of data sets, which is not there yet."""
    return tmp_path / "data"


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_content_decides_the_name(pets: Path, root: Path, tmp_path: Path) -> None:
    first = prepared("images", pets, root)
    before = files_of(first.folder)
    again = prepared("images", pets, root)
    assert (again.prepared, first.was_there, again.was_there) == (first.prepared, False, True)
    assert files_of(first.folder) == before
    shutil.copytree(pets, tmp_path / "other")
    assert prepared("images", tmp_path / "other", tmp_path / "elsewhere", name="pets").prepared == first.prepared
    different: list[dict[str, Any]] = [{"side": 16}, {"seed": 1}, {"fit": "pad"}, {"grey": True}, {"test_share": 0.5}]
    names = {prepared("images", pets, root, **settings).prepared for settings in different}
    assert len(names | {first.prepared}) == 6
    assert set(prepared_own(root)) == names | {first.prepared}
    (pets / "cat").rename(pets / "bat")  # the same arrays, but classes have other names
    assert prepared("images", pets, root).prepared not in names | {first.prepared}


def test_what_is_stored(pets: Path, root: Path) -> None:
    made = prepared("images", pets, root, seed=3)
    assert made.folder == own_folder(root) / made.prepared
    assert {path.name for path in made.folder.iterdir()} == {
        *(f"{part}_{kind}.npy" for part in ("train", "test") for kind in ("images", "labels")),
        *(MANIFEST, REPORT, "images.png"),
    }
    assert made.folder.stat().st_mode & 0o777 == pets.stat().st_mode & 0o777  # readable for a group
    manifest = read_own_manifest(made.prepared, root)
    assert (manifest.name, manifest.classes, manifest.class_names) == ("pets", 2, ("cat", "dog"))
    assert str(pets) not in manifest.model_dump_json()
    stored = Report.model_validate(json.loads((made.folder / REPORT).read_text()))
    assert stored == made.report
    assert (stored.source, stored.settings) == (str(pets), {"seed": "3"})
    assert made.line == f'{{ name = "own", options = {{ prepared = "{made.prepared}" }} }}'
    images = np.load(made.folder / "train_images.npy", allow_pickle=False)
    assert (images.shape, images.dtype) == ((16, 3, 32, 32), np.uint8)


def test_sizes_and_small_classes_are_reported(tmp_path: Path, root: Path) -> None:
    folder = write_images(tmp_path / "x", {"a": 30, "b": 4})
    noise(1, 20, 90).save(folder / "a" / "0.png")
    report = prepared("images", folder, root).report
    assert (report.widths.least, report.widths.median, report.widths.most) == (20, 40, 40)
    assert (report.heights.least, report.heights.median, report.heights.most) == (30, 30, 90)
    assert (report.smaller, report.nearly_empty, report.all_grey) == (34, ["b (3)"], False)
    assert has(
        " ".join(report.sentences()), "27 training images and 7 test images of 2 classes", "b (3)", "34 images enl"
    )


def test_images_without_colours_are_noticed(tmp_path: Path, root: Path) -> None:
    for number in range(8):
        (tmp_path / "x" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        noise(number).convert("L").save(tmp_path / "x" / "ab"[number % 2] / f"{number}.png")
    assert prepared("images", tmp_path / "x", root).report.all_grey
    assert not prepared("images", tmp_path / "x", root, grey=True).report.all_grey


def test_copies_are_found(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "x"
    write_images(folder / "train", {"a": 5, "b": 5})
    write_images(folder / "test", {"a": 2, "b": 2}, seed=500)
    train, test = folder / "train", folder / "test"
    shutil.copy(train / "a" / "0.png", test / "a" / "leaked.png")
    with Image.open(train / "b" / "1.png") as image:
        image.save(test / "b" / "leaked.bmp")  # another file, the same pixels
    shutil.copy(train / "a" / "2.png", train / "b" / "wrong.png")
    for copy in range(2):
        shutil.copy(train / "a" / "3.png", train / "a" / f"more{copy}.png")
    report = prepared("images", folder, root).report
    assert {(one.first, one.second) for one in report.in_both} == {
        ("test/a/leaked.png", "train/a/0.png"),
        ("test/b/leaked.bmp", "train/b/1.png"),
    }
    assert {frozenset((one.first, one.second)) for one in report.contradicting} == {
        frozenset(("train/a/2.png", "train/b/wrong.png"))
    }
    assert report.repeated == 2
    assert has(
        " ".join(report.sentences()),
        *("2 test images also among the training images", "test/a/leaked.png = train/a/0.png"),
        *("1 image there twice with different labels", "2 training images there twice"),
    )


def harm(pets: Path) -> None:
    (pets / "cat" / "0.png").write_bytes(b"hello")
    content = encoded(noise(1, 300, 300), "JPEG")
    (pets / "dog" / "cut.jpg").write_bytes(content[: len(content) // 2])


def test_damaged_images_are_named_or_left_out(pets: Path, root: Path) -> None:
    harm(pets)
    text = error_of(prepared, "images", pets, root)
    assert has(
        text, "2 images of 21 cannot be used", "cat/0.png is no image in", "dog/cut.jpg cannot be read (", "trunc"
    )
    assert has(text, "--skip-damaged", "Nothing was prepared")
    assert nothing_left(root)
    made = prepared("images", pets, root, skip_damaged=True)
    assert [one.first for one in made.report.unreadable] == ["cat/0.png", "dog/cut.jpg"]
    assert sum(train + test for train, _, test in counts_of(made).values()) == 19
    data = load_own(made.prepared, root)
    assert len(data.train) + len(data.test) == 19
    labels = {"cat": 0, "dog": 1}
    assert {name: int((data.train.labels == label).sum()) for name, label in labels.items()} == {
        name: train for name, (train, _, _) in counts_of(made).items()
    }
    assert "2 images left out that cannot be used" in " ".join(made.report.sentences())


def test_a_long_list_of_damaged_images_is_in_a_file(pets: Path, root: Path) -> None:
    for file in (pets / "cat").iterdir():
        file.write_bytes(b"")
    text = error_of(prepared, "images", pets, root)
    listed = own_folder(root) / "pets-unreadable.txt"
    assert has(text, "10 images of 20", "and 6 more", str(listed))
    assert len(listed.read_text().splitlines()) == 10
    text = error_of(prepared, "images", pets, root, skip_damaged=True)
    assert has(text, "No training image can be read of cat", "--leave-out")
    assert nothing_left(root)


def test_images_that_no_run_can_use(tmp_path: Path, root: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "black" / name).mkdir(parents=True)
        for index in range(3):
            Image.new("RGB", (9, 9)).save(tmp_path / "black" / name / f"{index}.png")
    text = error_of(prepared, "images", tmp_path / "black", root)
    assert has(text, "black cannot be used", "value 0 everywhere")
    assert nothing_left(root)


def test_a_damaged_data_set_is_found_and_replaced(pets: Path, root: Path) -> None:
    made = prepared("images", pets, root)
    content = (made.folder / "train_images.npy").read_bytes()
    (made.folder / "train_images.npy").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    text = error_of(check_arrays, made.folder, kind=DamagedDataError)
    assert has(text, "train_images.npy has changed", f"`augbench data prepare KIND PATH --name pets --data {root}`")
    assert not prepared("images", pets, root).was_there
    check_arrays(made.folder)
    for key, value in (("class_names", ["cat", "cow"]), ("checksum", "sha256:" + "0" * 64), ("name", "pest")):
        written = json.loads((made.folder / MANIFEST).read_text())
        (made.folder / MANIFEST).write_text(json.dumps(written | {key: value}))
        assert "has changed" in error_of(load_own, made.prepared, root, kind=DamagedDataError)
        prepared("images", pets, root)
    assert load_own(made.prepared, root).classes == 2


def test_nothing_is_written_beside_the_images(pets: Path, root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in pets.rglob("*")}
    for path in sorted(before, reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)
    prepared("images", pets, root)
    for path in sorted(before):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert {path: path.stat().st_mtime_ns for path in pets.rglob("*")} == before


def test_too_little_room(pets: Path, root: Path, set_room: SetRoom) -> None:
    set_room(20_000)
    assert has(error_of(prepared, "images", pets, root), "0.1 MB are needed", "--data")
    assert nothing_left(root)


def test_two_processes_wait_for_each_other(pets: Path, root: Path) -> None:
    own_folder(root).mkdir(parents=True)
    said: list[str] = []

    class Told(ProgressCallback):
        def message(self, text: str) -> None:
            said.append(text)

    def prepare() -> None:
        made.append(prepare_own("images", pets, OwnSettings(), root, Told(), taken=[]))

    made: list[Any] = []
    threads = [threading.Thread(target=prepare) for _ in range(2)]
    with exclusive(own_folder(root) / ".pets.lock", lambda: None):
        for thread in threads:
            thread.start()
        while len(said) < 2:
            threads[0].join(0.01)
        assert not prepared_own(root)
    for thread in threads:
        thread.join()
    assert sorted(one.was_there for one in made) == [False, True]
    assert said == ["Another process prepares pets at the moment; waiting for it."] * 2
    assert len(prepared_own(root)) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from augbench.bench.data.downloads import ProgressCallback
from augbench.bench.data.own.preparing import prepare_own
from augbench.bench.data.own.settings import OwnSettings

signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored where tests run in the background

class End(ProgressCallback):
    def progress(self, what, done, total):
        if done == 7:
            os.kill(os.getpid(), int(sys.argv[3]))

prepare_own("images", Path(sys.argv[1]), OwnSettings(), Path(sys.argv[2]), End(), taken=[])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_end_in_the_middle(number: signal.Signals, pets: Path, root: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(pets), str(root), str(int(number))]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert ended.returncode == -number, ended.stderr
    assert prepared_own(root) == []
    if number == signal.SIGINT:
        assert nothing_left(root)
    made = prepared("images", pets, root)
    assert load_own(made.prepared, root).classes == 2
    assert [path.name for path in own_folder(root).glob("*.tmp")] == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"side": 0}, ["--side must be a whole number from 1 to 1024, not 0"]),
        ({"side": 100_000}, ["--side", "1024", "100000"]),
        ({"test_share": 0.0}, ["--test-share must be above 0 and below 1"]),
        ({"test_share": 1.0}, ["--test-share"]),
        ({"test_share": float("nan")}, ["--test-share"]),
        ({"seed": -1}, ["--seed"]),
        ({"fit": "corp"}, ["no --fit 'corp'", "Did you mean 'crop'?"]),
        ({"name": "mnist"}, ["mnist is the name of a data set that augbench knows", "--name"]),
        ({"name": "My Pets"}, ["--name 'My Pets' cannot be used", "lower-case"]),
        ({"name": "../x"}, ["--name"]),
        ({"name": "x" * (LONGEST_NAME + 1)}, ["--name", "40 characters"]),
        ({"channels": "last"}, ["--channels belongs to `augbench data prepare arrays`, not to `images`"]),
        ({"arrays": (("a", "b"),)}, ["--array belongs to"]),
        ({"label_column": "x"}, ["--label-column belongs to `augbench data prepare table`"]),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], words: list[str], pets: Path, root: Path) -> None:
    assert has(error_of(prepared, "images", pets, root, **settings), *words)
    assert not root.exists()


def test_settings_of_one_kind_are_settings() -> None:
    assert set(ONLY_FOR) < {entry.name for entry in fields(OwnSettings)}


def test_the_kind_is_told_by_the_path(pets: Path, tmp_path: Path) -> None:
    (tmp_path / "table" / "data").mkdir(parents=True)
    for name in ("a.npz", "b.PARQUET", "table/data/train-0.parquet", "c.zip"):
        (tmp_path / name).touch()
    found = {name: kind_of(tmp_path / name) for name in ("pets", "a.npz", "b.PARQUET", "table")}
    assert found == {"pets": "images", "a.npz": "arrays", "b.PARQUET": "table", "table": "table"}
    assert "is no data set" in error_of(kind_of, tmp_path / "c.zip")
    assert "There is no" in error_of(kind_of, tmp_path / "d")


def test_the_picture_shows_images_of_each_class(tmp_path: Path, root: Path) -> None:
    colours = {"[b]red": (255, 0, 0), "green": (0, 255, 0), "ü\x1b[31m": (0, 0, 255)}
    for name, colour in colours.items():
        (tmp_path / "x" / name).mkdir(parents=True)
        for index in range(4):
            image = Image.new("RGB", (16, 16), colour)
            image.putpixel((index, 0), (9, 9, 9))
            image.save(tmp_path / "x" / name / f"{index}.png")
    made = prepared("images", tmp_path / "x", root)
    with Image.open(made.sheet) as sheet:
        pixels = sheet.convert("RGB").getcolors(1_000_000)
    counts = {colour: count for count, colour in pixels or []}
    assert all(counts.get(colour, 0) > 3 * 50**2 for colour in colours.values())  # three training images, enlarged


def test_long_lists_of_classes_are_cut_in_the_picture(tmp_path: Path, root: Path) -> None:
    folder = write_images(tmp_path / "x", {f"{number:03}": 2 for number in range(60)})
    with Image.open(prepared("images", folder, root, side=128).sheet) as sheet:
        assert sheet.height < 2000
