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
from numpy.typing import NDArray

from augbench.bench.common.errors import RetryableError, UserError
from augbench.bench.data import prepared
from augbench.bench.data.array_folder import MANIFEST, DamagedDataError
from augbench.bench.data.dataset import ImageData, Split, split_off_validation
from augbench.bench.data.dataset_checks import UnusableDataError
from augbench.bench.data.downloads import RemoteFile
from augbench.bench.data.prepared import Arrays, NotPreparedError, PreparedOptions, PreparedSource
from augbench.bench.data.source_files import FileResolver, SourceFile

SetRoom = Callable[..., None]

CONTENT = b"a source file"


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


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


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of data sets with the source file."""
    monkeypatch.setenv("AUGBENCH_OFFLINE", "1")
    (tmp_path / "small.bin").write_bytes(CONTENT)
    return tmp_path


def load(root: Path, **options: Any) -> ImageData:
    return Small().load(PreparedOptions.model_validate(options), root)


def error_of(call: Callable[..., Any], *arguments: Any, kind: type[UserError] = UserError) -> str:
    with pytest.raises(kind) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def snapshot(folder: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in sorted(folder.rglob("*"))}


def test_what_is_loaded_is_what_was_read(root: Path) -> None:
    folder = Small().prepare(FileResolver(root))
    data = load(root)
    for part, split in (("train", data.train), ("test", data.test)):
        assert np.array_equal(split.images.numpy(), Small.made[f"{part}_images"])
        assert np.array_equal(split.labels.numpy(), Small.made[f"{part}_labels"])
        assert (split.images.dtype, split.labels.dtype) == (torch.uint8, torch.int64)
    assert data.held_out is not None
    assert np.array_equal(data.held_out.numpy(), Small.made["held_out"])
    assert data.classes == 3
    assert all(word in data.provenance for word in ("Small", "small.bin", Small.checksum))
    assert folder == root / "prepared" / f"small-v1-{Small.checksum[4:16]}"
    Small().check(PreparedOptions(), root)


def test_a_data_set_without_held_out_images(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Small, "made", {name: array for name, array in arrays().items() if name != "held_out"})
    Small().prepare(FileResolver(root))
    assert load(root).held_out is None


def test_the_manifest_says_what_was_made(root: Path) -> None:
    folder = Small().prepare(FileResolver(root))
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
    Small().prepare(FileResolver(root))
    before = snapshot(root)
    (root / "small.bin").unlink()  # and needs no source file
    Small().prepare(FileResolver(root))
    del before[root / "small.bin"]
    assert snapshot(root) == before


def test_what_is_written_to_an_image_stays_in_this_process(root: Path) -> None:
    Small().prepare(FileResolver(root))
    load(root).train.images.zero_()
    assert np.array_equal(load(root).train.images.numpy(), Small.made["train_images"])


def test_what_is_prepared_needs_no_permission_to_write(root: Path) -> None:
    Small().prepare(FileResolver(root))
    (root / "prepared" / ".small.lock").unlink()
    (root / "prepared" / ".small.lock").mkdir()  # permissions would not stop root
    Small().prepare(FileResolver(root))
    shutil.rmtree(Small().folder(root))
    assert ".small.lock cannot be read or written" in error_of(Small().prepare, FileResolver(root))


@pytest.mark.parametrize(
    ("count", "fractions"), [(3, [1, 1, 1]), (7, [1, 2, 4]), (12, [2, 4, 6]), (30, [5, 10, 15]), (60, [10, 20, 30])]
)
def test_training_images_are_chosen_with_class_shares_kept(count: int, fractions: list[int], root: Path) -> None:
    Small().prepare(FileResolver(root))
    whole, data = load(root), load(root, train_images=count)
    assert data.train.labels.bincount().tolist() == fractions
    assert torch.equal(data.test.images, whole.test.images)
    assert data.held_out is not None
    keys = {image.numpy().tobytes(): place for place, image in enumerate(whole.train.images)}
    places = [keys[image.numpy().tobytes()] for image in data.train.images]
    assert places == sorted(set(places))
    assert torch.equal(data.train.labels, whole.train.labels[places])
    assert torch.equal(data.held_out, whole.held_out[places])  # type: ignore[index]


def test_the_choice_is_that_of_a_validation_split_with_seed_0(root: Path) -> None:
    Small().prepare(FileResolver(root))
    whole = Split(*(torch.from_numpy(Small.made[f"train_{kind}"]) for kind in ("images", "labels")))
    assert torch.equal(load(root, train_images=12).train.images, split_off_validation(whole, 12 / 60, 0)[1].images)


@pytest.mark.parametrize("count", [2, 61])
def test_too_few_or_too_many_training_images_are_refused(count: int, root: Path) -> None:
    Small().prepare(FileResolver(root))
    text = error_of(Small().load, PreparedOptions(train_images=count), root)
    assert f"train_images = {count}" in text
    assert "from 3 to 60" in text


@pytest.mark.parametrize("options", [{"train_images": 0}, {"train_images": 1.5}, {"size": 28}, {"download": True}])
def test_other_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        PreparedOptions.model_validate(options)


# What is not there


def test_a_data_set_that_is_not_prepared_is_explained(root: Path) -> None:
    (root / "small.bin").unlink()
    for call in (Small().load, Small().check):
        text = error_of(call, PreparedOptions(), root, kind=NotPreparedError)
        command = f"`augbench data prepare small --data {root}`"
        words = [
            command,
            "small.bin",
            md5(CONTENT),
            str(root / "small.bin"),
            "--from FOLDER",
            "give the present command again",
        ]
        assert all(word in text for word in words)
    assert list(root.iterdir()) == []


def test_source_files_that_are_there_are_said_to_be(root: Path) -> None:
    text = error_of(load, root)
    assert "files that this needs are there" in text
    assert "md5" not in text


class Other(Small):
    """Another one."""

    name = "other"


def test_one_paragraph_explains_all_that_are_missing(root: Path) -> None:
    (root / "small.bin").unlink()
    error = NotPreparedError([Small(), Other(), Small()], root / "with blank")
    assert str(error).startswith("The data sets small and other are not prepared")
    assert f"`augbench data prepare small other --data '{root}/with blank'`" in str(error)
    assert str(error).count(md5(CONTENT)) == 1


def test_what_another_version_has_prepared_does_not_fit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Small().prepare(FileResolver(root))
    monkeypatch.setattr(Small, "version", 2)
    text = error_of(load, root)
    assert "another version of augbench" in text
    assert old.name in text
    new = Small().prepare(FileResolver(root))
    assert new != old
    assert old.exists()
    assert load(root).classes == 3


# What is damaged


def damage(root: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    path = Small().folder(root) / name
    path.write_bytes(change(path.read_bytes()))


def test_a_flipped_byte_is_found_by_check_and_mended_by_prepare(root: Path) -> None:
    Small().prepare(FileResolver(root))
    damage(root, "test_images.npy", lambda content: content[:-1] + bytes([content[-1] ^ 1]))
    text = error_of(Small().check, PreparedOptions(), root, kind=DamagedDataError)
    words = ["test_images.npy", "sha256", str(Small().folder(root)), f"`augbench data prepare small --data {root}`"]
    assert all(word in text for word in words)
    Small().prepare(FileResolver(root))
    Small().check(PreparedOptions(), root)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("train_images.npy", lambda content: content[:-1]),
        ("train_labels.npy", lambda content: b"x" * len(content)),
        ("held_out.npy", lambda content: content.replace(b"|b1", b"|u1")),
        (MANIFEST, lambda content: content[:-5]),
        (MANIFEST, lambda content: b"{}"),
        (MANIFEST, lambda content: b"[]"),
    ],
)
def test_files_that_were_changed_are_found_by_load(name: str, change: Callable[[bytes], bytes], root: Path) -> None:
    Small().prepare(FileResolver(root))
    damage(root, name, change)
    assert name in error_of(load, root, kind=DamagedDataError)
    assert "augbench data prepare small" in error_of(Small().check, PreparedOptions(), root)
    Small().prepare(FileResolver(root))
    assert load(root).classes == 3


def test_a_folder_that_was_renamed_is_found_by_load(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Small().prepare(FileResolver(root))
    monkeypatch.setattr(Small, "version", 2)
    old.rename(Small().folder(root))
    assert "another data set or version" in error_of(load, root, kind=DamagedDataError)
    Small().prepare(FileResolver(root))
    assert load(root).classes == 3


@pytest.mark.parametrize("name", ["train_images.npy", MANIFEST])
def test_a_file_that_is_missing_is_found_by_load(name: str, root: Path) -> None:
    Small().prepare(FileResolver(root))
    (Small().folder(root) / name).unlink()
    assert name in error_of(load, root, kind=DamagedDataError)


def test_a_manifest_that_lacks_an_array_is_found(root: Path) -> None:
    folder = Small().prepare(FileResolver(root))
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["arrays"]["test_labels"]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert "does not have all arrays" in error_of(load, root, kind=DamagedDataError)
    Small().prepare(FileResolver(root))
    assert load(root).classes == 3


@pytest.mark.parametrize("harm", [shutil.rmtree, lambda folder: (folder / MANIFEST).unlink()])
def test_a_run_whose_data_are_gone_can_go_on_later(harm: Callable[[Path], Any], root: Path) -> None:
    """For such errors a run is killed and keeps its checkpoint; a failed one starts from the beginning."""
    harm(Small().prepare(FileResolver(root)))
    error_of(load, root, kind=RetryableError)


# What goes wrong while preparing


def test_arrays_that_no_run_can_use_are_refused_and_not_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Small, "made", arrays() | {"train_labels": np.arange(60) % 3 + 1})
    text = error_of(Small().prepare, FileResolver(root), kind=UnusableDataError)
    assert all(word in text for word in ("'small'", "`train_labels` has values from 1 to 3", "Correct its `read`"))
    assert nothing_is_left(root)


def test_something_else_than_arrays_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Small, "read", lambda self, files: self.made)
    assert "what `read` returns is of type dict" in error_of(Small().prepare, FileResolver(root))


def test_a_damaged_data_set_behind_a_symbolic_link_is_left_alone(root: Path, tmp_path: Path) -> None:
    folder, shared = Small().prepare(FileResolver(root)), tmp_path / "shared"
    folder.rename(shared)
    folder.symlink_to(shared)
    assert Small().prepare(FileResolver(root)) == folder
    for harm in ((shared / MANIFEST).unlink, partial(shutil.rmtree, shared)):
        harm()
        left = snapshot(shared)
        assert f"{folder} is a symbolic link to {shared}" in error_of(Small().prepare, FileResolver(root))
        assert snapshot(shared) == left
    folder.unlink()
    assert Small().prepare(FileResolver(root)) == folder


def nothing_is_left(root: Path) -> bool:
    return {path.name for path in (root / "prepared").iterdir()} == {".small.lock"}


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_nothing_behind(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        text = error_of(Small().prepare, FileResolver(root))
    assert all(word in text for word in ("is full", "Free some space", "--data", "same command again"))
    assert nothing_is_left(root)


def test_too_little_space_is_found_before(root: Path, set_room: SetRoom) -> None:
    set_room(3000)
    assert "are needed" in error_of(Small().prepare, FileResolver(root))
    assert nothing_is_left(root)


def test_a_disk_that_says_that_nothing_is_left_is_tried(root: Path, set_room: SetRoom) -> None:
    set_room(0, of=10**12)
    assert Small().prepare(FileResolver(root)).is_dir()


def test_a_folder_that_cannot_be_written_to_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)  # permissions would not stop root
    text = error_of(Small().prepare, FileResolver(root))
    assert all(word in text for word in (str(root / "prepared"), "Permission denied", "--data"))


def test_a_folder_that_is_a_file_is_named(root: Path) -> None:
    assert str(root / "small.bin") in error_of(Small().prepare, FileResolver(root / "small.bin"))


def test_what_dead_processes_have_left_is_cleared_away_where_that_can_be_done(root: Path) -> None:
    left = [root / "prepared" / name for name in (".small.abc.tmp", ".small-er.abc.tmp")]
    for folder in left:
        (folder / "result").mkdir(parents=True)
    (root / "prepared" / ".small.def.tmp").touch()  # no folder, which is as hard to delete as somebody else's
    Small().prepare(FileResolver(root))
    assert [folder.exists() for folder in left] == [False, True]  # the other belongs to another data set


def test_the_group_of_a_shared_folder_can_take_the_lock(root: Path) -> None:
    before = os.umask(0o002)
    try:
        Small().prepare(FileResolver(root))
    finally:
        os.umask(before)
    assert (root / "prepared" / ".small.lock").stat().st_mode & 0o777 == 0o664


def test_the_lock_of_another_data_set_is_not_waited_for(root: Path) -> None:
    (root / "prepared").mkdir()
    with prepared.exclusive(root / "prepared" / ".other.lock", lambda: None):
        Small().prepare(FileResolver(root))
