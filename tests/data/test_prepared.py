"""Prepared data sets: written once and whole, mapped, checked, cut by options, explained where they are not there."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_files import error_of, failing, has, md5
from numpy.typing import NDArray

from augbench.bench.common.errors import RetryableError
from augbench.bench.common.locks import exclusive
from augbench.bench.data.array_folder import MANIFEST, DamagedDataError
from augbench.bench.data.dataset import ImageData, Split, split_off_validation
from augbench.bench.data.dataset_checks import UnusableDataError
from augbench.bench.data.downloads import RemoteFile
from augbench.bench.data.prepared import Arrays, NotPreparedError, PreparedOptions, PreparedSource
from augbench.bench.data.source_files import FileResolver, SourceFile

SetRoom = Callable[..., None]
Harm = Callable[[Path], Any]

CONTENT = b"a source file"


def arrays(seed: int = 0) -> dict[str, NDArray[Any]]:
    random = np.random.RandomState(seed)
    return {
        "train_images": random.randint(0, 256, (60, 2, 6, 6)).astype(np.uint8),
        "train_labels": np.repeat(np.arange(3), [10, 20, 30])[random.permutation(60)],
        "test_images": random.randint(0, 256, (9, 2, 6, 6)).astype(np.uint8),
        "test_labels": np.arange(9) % 3,
        "held_out": np.arange(60) >= 45,
    }


class Small(PreparedSource):
    """Made-up images."""

    name = "small"
    title = "Small"
    checksum = "md5:" + md5(md5(CONTENT).encode())
    classes = 3
    made = arrays()

    @classmethod
    def sources(cls) -> tuple[SourceFile, ...]:
        """Return one file."""
        published = RemoteFile("small.bin", md5(CONTENT), len(CONTENT), ("http://127.0.0.1:1/small.bin",))
        return (SourceFile("small.bin", md5(CONTENT), published),)

    def read(self, files: Mapping[str, Path]) -> Arrays:
        """Make the images up."""
        assert files["small.bin"].read_bytes() == CONTENT
        return Arrays(**self.made)


class Other(Small):
    """Another one."""

    name = "other"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of data sets with the source file."""
    monkeypatch.setenv("AUGBENCH_OFFLINE", "1")
    (tmp_path / "small.bin").write_bytes(CONTENT)
    return tmp_path


def prepare(root: Path) -> Path:
    return Small().prepare(FileResolver(root))


def load(root: Path, **options: Any) -> ImageData:
    return Small().load(PreparedOptions.model_validate(options), root)


def check(root: Path) -> None:
    Small().check(PreparedOptions(), root)


def snapshot(folder: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in sorted(folder.rglob("*"))}


def nothing_is_left(root: Path) -> bool:
    return {path.name for path in (root / "prepared").iterdir()} == {".small.lock"}


def test_what_is_loaded_is_what_was_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = prepare(root)
    assert folder == root / "prepared" / f"small-v1-{Small.checksum[4:16]}"
    data = load(root)
    for part, split in (("train", data.train), ("test", data.test)):
        assert np.array_equal(split.images.numpy(), Small.made[f"{part}_images"])
        assert np.array_equal(split.labels.numpy(), Small.made[f"{part}_labels"])
        assert (split.images.dtype, split.labels.dtype) == (torch.uint8, torch.int64)
    assert data.held_out is not None
    assert np.array_equal(data.held_out.numpy(), Small.made["held_out"])
    assert data.classes == 3
    assert has(data.provenance, "Small", "small.bin", Small.checksum)
    check(root)
    shutil.rmtree(folder)
    monkeypatch.setattr(Small, "made", {name: array for name, array in arrays().items() if name != "held_out"})
    prepare(root)
    assert load(root).held_out is None


def test_the_manifest_says_what_was_made(root: Path) -> None:
    folder = prepare(root)
    manifest = json.loads((folder / MANIFEST).read_text())
    assert (manifest["name"], manifest["version"], manifest["checksum"]) == ("small", 1, Small.checksum)
    assert manifest["prepared"].startswith("20")
    for name, entry in manifest["arrays"].items():
        content = (folder / f"{name}.npy").read_bytes()
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        assert entry["size"] == len(content)
        assert tuple(entry["shape"]) == Small.made[name].shape
    assert {path.name for path in folder.iterdir()} == {MANIFEST, *(f"{name}.npy" for name in Small.made)}


def test_preparing_again_changes_nothing(root: Path) -> None:
    prepare(root)
    before = snapshot(root)
    (root / "small.bin").unlink()  # and needs no source file
    prepare(root)
    del before[root / "small.bin"]
    assert snapshot(root) == before


def test_what_is_written_to_an_image_stays_in_this_process(root: Path) -> None:
    prepare(root)
    load(root).train.images.zero_()
    assert np.array_equal(load(root).train.images.numpy(), Small.made["train_images"])


def test_what_is_prepared_needs_no_permission_to_write(root: Path) -> None:
    prepare(root)
    (root / "prepared" / ".small.lock").unlink()
    (root / "prepared" / ".small.lock").mkdir()  # permissions would not stop root
    prepare(root)
    shutil.rmtree(Small().folder(root))
    assert has(error_of(prepare, root), ".small.lock cannot be read or written")


@pytest.mark.parametrize(
    ("count", "fractions"), [(3, [1, 1, 1]), (7, [1, 2, 4]), (12, [2, 4, 6]), (30, [5, 10, 15]), (60, [10, 20, 30])]
)
def test_training_images_are_chosen_with_class_proportions_kept(count: int, fractions: list[int], root: Path) -> None:
    prepare(root)
    whole, data = load(root), load(root, train_images=count)
    assert data.train.labels.bincount().tolist() == fractions
    assert torch.equal(data.test.images, whole.test.images)
    assert data.held_out is not None
    keys = {image.numpy().tobytes(): place for place, image in enumerate(whole.train.images)}
    places = [keys[image.numpy().tobytes()] for image in data.train.images]
    assert places == sorted(set(places))
    assert torch.equal(data.train.labels, whole.train.labels[places])
    assert torch.equal(data.held_out, whole.held_out[places])  # type: ignore[index]
    if count == 12:  # no rounding: the choice is that of a validation split with seed 0
        train = Split(*(torch.from_numpy(Small.made[f"train_{kind}"]) for kind in ("images", "labels")))
        assert torch.equal(data.train.images, split_off_validation(train, 12 / 60, 0)[1].images)


@pytest.mark.parametrize("count", [2, 61])
def test_too_few_or_too_many_training_images_are_refused(count: int, root: Path) -> None:
    prepare(root)
    assert has(error_of(load, root, train_images=count), f"train_images = {count}", "from 3 to 60")


@pytest.mark.parametrize("options", [{"train_images": 0}, {"train_images": 1.5}, {"size": 28}, {"download": True}])
def test_other_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        PreparedOptions.model_validate(options)


# What is not there


def test_a_data_set_that_is_not_prepared_is_explained(root: Path) -> None:
    command = f"`augbench data prepare small --data {root}`"
    text = error_of(load, root, kind=NotPreparedError)
    assert has(text, command, "The published files are there")
    assert "md5" not in text
    (root / "small.bin").unlink()
    for call in (load, check):
        text = error_of(call, root, kind=NotPreparedError)
        assert has(text, command, md5(CONTENT), root / "small.bin", "--from FOLDER", "repeat this command")
    assert list(root.iterdir()) == []


def test_one_paragraph_explains_all_that_are_missing(root: Path) -> None:
    (root / "small.bin").unlink()
    text = str(NotPreparedError([Small(), Other(), Small()], root / "with blank"))
    assert text.startswith("The data sets small and other are not prepared")
    assert has(text, f"`augbench data prepare small other --data '{root}/with blank'`")
    assert text.count(md5(CONTENT)) == 1


def test_what_another_version_has_prepared_does_not_fit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = prepare(root)
    monkeypatch.setattr(Small, "version", 2)
    assert has(error_of(load, root), "another version of augbench", old.name)
    new = prepare(root)
    assert new != old
    assert old.exists()
    assert load(root).classes == 3
    shutil.rmtree(new)
    old.rename(new)
    assert has(error_of(load, root, kind=DamagedDataError), "another data set or version")
    prepare(root)
    assert load(root).classes == 3


# What is damaged


def changed(name: str, change: Callable[[bytes], bytes]) -> Harm:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def lacking_an_array(content: bytes) -> bytes:
    manifest = json.loads(content)
    del manifest["arrays"]["test_labels"]
    return json.dumps(manifest).encode()


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (changed("test_images.npy", lambda content: content[:-1] + bytes([content[-1] ^ 1])), "sha256"),
        (changed("train_images.npy", lambda content: content[:-1]), "train_images.npy has"),
        (changed("train_labels.npy", lambda content: b"x" * len(content)), "train_labels.npy cannot be read"),
        (changed("held_out.npy", lambda content: content.replace(b"|b1", b"|u1")), "held_out.npy has another"),
        (changed(MANIFEST, lambda content: content[:-5]), MANIFEST),
        (changed(MANIFEST, lambda content: b"{}"), MANIFEST),
        (changed(MANIFEST, lambda content: b"[]"), MANIFEST),
        (changed(MANIFEST, lacking_an_array), "does not have all arrays"),
        (lambda folder: (folder / "train_images.npy").unlink(), "train_images.npy is missing"),
        (lambda folder: (folder / MANIFEST).unlink(), MANIFEST),
    ],
)
def test_damage_is_found_by_load_or_check_and_mended_by_prepare(harm: Harm, words: str, root: Path) -> None:
    harm(prepare(root))
    command = f"`augbench data prepare small --data {root}`"
    for call in (check,) if words == "sha256" else (load, check):  # a flipped byte is not looked for at every load
        text = error_of(call, root, kind=DamagedDataError)
        assert has(text, words, Small().folder(root), command)
    prepare(root)
    check(root)
    assert torch.equal(load(root).test.images, torch.from_numpy(Small.made["test_images"]))


@pytest.mark.parametrize("harm", [shutil.rmtree, lambda folder: (folder / MANIFEST).unlink()])
def test_a_run_whose_data_are_gone_can_go_on_later(harm: Harm, root: Path) -> None:
    """For such errors a run is killed and keeps its checkpoint; a failed one starts from the beginning."""
    harm(prepare(root))
    error_of(load, root, kind=RetryableError)


# What goes wrong while preparing


def test_what_no_run_can_use_is_refused_and_not_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Small, "made", arrays() | {"train_labels": np.arange(60) % 3 + 1})
    text = error_of(prepare, root, kind=UnusableDataError)
    assert has(text, "'small'", "`train_labels` has values from 1 to 3", "Correct its `read`")
    monkeypatch.setattr(Small, "read", lambda self, files: self.made)
    assert has(error_of(prepare, root), "what `read` returns is of type dict")
    assert nothing_is_left(root)


def test_a_damaged_data_set_behind_a_symbolic_link_is_left_alone(root: Path, tmp_path: Path) -> None:
    folder, shared = prepare(root), tmp_path / "shared"
    folder.rename(shared)
    folder.symlink_to(shared)
    assert prepare(root) == folder
    for harm in ((shared / MANIFEST).unlink, partial(shutil.rmtree, shared)):
        harm()
        left = snapshot(shared)
        assert has(error_of(prepare, root), f"{folder} is a symbolic link to {shared}")
        assert snapshot(shared) == left
    folder.unlink()
    assert prepare(root) == folder


def test_a_full_disk_leaves_nothing_behind(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(errno.ENOSPC))
        assert has(error_of(prepare, root), "is full", "Free some space", "--data", "same command again")
    assert nothing_is_left(root)


def test_too_little_space_is_found_before(root: Path, set_room: SetRoom) -> None:
    set_room(3000)
    assert has(error_of(prepare, root), "are needed")
    assert nothing_is_left(root)
    set_room(0, of=10**12)  # a file system that does not know says so, too
    assert prepare(root).is_dir()


def test_folders_that_cannot_be_written_to_are_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert has(error_of(prepare, root / "small.bin"), root / "small.bin")  # a file in the place of a folder
    monkeypatch.setattr(os, "mkdir", failing(errno.EACCES))
    assert has(error_of(prepare, root), root / "prepared", "Permission denied", "--data")


def test_what_dead_processes_have_left_is_cleared_away_where_that_can_be_done(root: Path) -> None:
    left = [root / "prepared" / name for name in (".small.abc.tmp", ".small-er.abc.tmp")]
    for folder in left:
        (folder / "result").mkdir(parents=True)
    (root / "prepared" / ".small.def.tmp").touch()  # no folder, which is as hard to delete as somebody else's
    prepare(root)
    assert [folder.exists() for folder in left] == [False, True]  # the other belongs to another data set


def test_the_lock_is_the_groups_too_and_that_of_another_data_set_is_not_waited_for(root: Path) -> None:
    (root / "prepared").mkdir()
    before = os.umask(0o002)
    try:
        with exclusive(root / "prepared" / ".other.lock", lambda: None):
            prepare(root)
    finally:
        os.umask(before)
    assert (root / "prepared" / ".small.lock").stat().st_mode & 0o777 == 0o664


def test_a_second_process_that_has_waited_finds_it_done(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `is_sound` says before the lock is held may be old by then."""
    folder, answers = prepare(root), [False]
    before, sound = snapshot(folder), Small.is_sound
    monkeypatch.setattr(Small, "is_sound", lambda self, root: answers.pop() if answers else sound(self, root))
    assert prepare(root) == folder
    assert snapshot(folder) == before
