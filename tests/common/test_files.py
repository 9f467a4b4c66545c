"""Files: whole or not there, readable by whom the umask lets read them, on whatever file system."""

import errno
import fcntl
import os
import re
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from augbench.bench.common.errors import RetryableError, UserError
from augbench.bench.common.files import atomic_write, flush_to_disk, make_folder, read_json, write_json
from augbench.bench.common.locks import exclusive

SetRoom = Callable[..., None]
SetUmask = Callable[[int], None]


@pytest.fixture
def set_umask() -> Iterator[SetUmask]:
    """Set the umask for the length of a test."""
    before = os.umask(0o022)

    def change(value: int) -> None:
        os.umask(value)

    yield change
    os.umask(before)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "is no ordinary file"),
        (lambda path: path.symlink_to("/dev/zero"), "is no ordinary file"),
        (Path.mkdir, "is no ordinary file"),
        (make_socket, "cannot be read (No such device or address)"),
        (lambda path: path.touch() or os.truncate(path, 10**12), "has 1000000 MB, more than"),  # takes no room
    ],
)
def test_what_is_no_file_or_far_too_large_is_refused_at_once(
    make: Callable[[Path], None], words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    make(tmp_path / "a.json")
    with pytest.raises(ValueError, match=rf"^a\.json {re.escape(words)}"):
        read_json(tmp_path / "a.json")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refuse_fsync(monkeypatch: pytest.MonkeyPatch, number: int, *, of_folders: bool) -> None:
    """Have fsync of folders, or of all else, end in an error."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) == of_folders:
            raise OSError(number, os.strerror(number))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(ZeroDivisionError), atomic_write(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert read_json(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_number_that_is_not_finite_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot be written.*--out"):
        make_folder(tmp_path / "file" / "below")


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_the_umask_says_who_may_read_and_write(umask: int, set_umask: SetUmask, tmp_path: Path) -> None:
    set_umask(umask)
    path = make_folder(tmp_path / "folder") / "a.json"
    write_json(path, {})
    assert mode_of(path) == 0o666 & ~umask
    assert mode_of(path.parent) == 0o777 & ~umask
    path.chmod(0o640)
    write_json(path, {})
    assert mode_of(path) == 0o666 & ~umask


def test_modes_are_left_alone_where_a_file_system_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    for name in ("chmod", "fchmod"):
        monkeypatch.setattr(os, name, refuse)
    write_json(tmp_path / "a.json", {"a": 1})
    assert read_json(tmp_path / "a.json") == {"a": 1}


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES])
def test_folders_that_cannot_be_flushed_are_let_pass(
    number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuse_fsync(monkeypatch, number, of_folders=True)
    write_json(tmp_path / "a.json", {"a": 1})
    assert read_json(tmp_path / "a.json") == {"a": 1}


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("of_folders", [True, False])
def test_a_disk_that_is_broken_or_full_is_never_let_pass(
    number: int, of_folders: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuse_fsync(monkeypatch, number, of_folders=of_folders)
    with pytest.raises(RetryableError, match="cannot be written"):
        write_json(tmp_path / "a.json", {})
    assert not list(tmp_path.glob(".*"))


def test_a_file_that_cannot_be_flushed_is_let_pass_where_its_file_system_has_no_such_thing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuse_fsync(monkeypatch, errno.EINVAL, of_folders=False)
    with (tmp_path / "array").open("wb") as file:
        file.write(b"whole")
        flush_to_disk(file)
        assert (tmp_path / "array").read_bytes() == b"whole"
    refuse_fsync(monkeypatch, errno.EACCES, of_folders=False)
    with pytest.raises(RetryableError, match="Permission denied"):
        write_json(tmp_path / "a.json", {})


def test_what_need_not_last_is_not_flushed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(descriptor: int) -> None:
        raise AssertionError(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    write_json(tmp_path / "a.json", {"a": 1}, durable=False)
    assert read_json(tmp_path / "a.json") == {"a": 1}


@pytest.mark.parametrize(
    ("number", "files", "said"),
    [
        (errno.ENOSPC, 5, "No space left on device. Free some space"),
        (errno.ENOSPC, 0, "No space left on device. The disk can hold no more files"),
        (errno.EDQUOT, 5, "Disk quota exceeded. Delete files of yours"),
        (errno.EROFS, 5, "Read-only file system. Choose a folder on another disk"),
        (errno.EACCES, 5, "Permission denied. Change its permissions"),
        (errno.ENOENT, 5, "No such file or directory. Create its parent folder"),
        (errno.EIO, 5, "Input/output error. Choose a folder on another disk"),
    ],
)
def test_the_advice_fits_the_error(
    number: int, files: int, said: str, set_room: SetRoom, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    set_room(10**9, files=files)
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(RetryableError) as raised:
        write_json(tmp_path / "a.json", {})
    text = str(raised.value)
    assert said in text
    assert "with --out" in text
    assert "then give the same command again" in text


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EINVAL, errno.EOPNOTSUPP])
def test_where_there_are_no_locks_nobody_is_kept_out(
    number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(descriptor: int, kind: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with exclusive(tmp_path / "lock", pytest.fail), exclusive(tmp_path / "lock", pytest.fail):
        pass
