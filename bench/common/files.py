"""Reading and writing files; a kill at any moment leaves either the old or the new content."""

import errno
import io
import json
import os
import pickle
import secrets
import shlex
import stat
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from augbench.bench.common.disk import what_helps
from augbench.bench.common.errors import RetryableError

UNREADABLE_ARRAYS = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, RuntimeError, SyntaxError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
"""Errors that NumPy may raise for a damaged archive of arrays; MemoryError if it claims to be huge."""

MOST_BYTES = 256 << 20  # of a file that is read at once: far more than any record has

UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
"""Errors of fsync on a file system without it; a damaged or full disk gives others."""


@contextmanager
def atomic_write(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path`; on success rename it to `path`.

    The file's mode follows the umask, even if the replaced file had another mode.

    Args:
        path: The file to write.
        durable: Whether to flush it to disk first, so that even a machine crash leaves the old or the new content.

    Raises:
        RetryableError: If the folder cannot be written to, or the disk is full.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        # not by mkstemp, whose files nobody else may read: a group may share the folder
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _not_writable(path.parent, error) from None
    try:
        with ExitStack() as unless_replaced:
            unless_replaced.callback(temporary.unlink, missing_ok=True)
            with os.fdopen(descriptor, "wb") as file:
                yield file
                if durable:
                    flush_to_disk(file)
            temporary.replace(path)
            unless_replaced.pop_all()
        if durable:
            flush_folder(path.parent)
    except OSError as error:
        raise _not_writable(path, error) from None


def flush_to_disk(file: IO[bytes]) -> None:
    """Flush an open file to disk, if its file system can do that."""
    file.flush()
    _flush(file.fileno(), UNSUPPORTED)


def flush_folder(folder: Path) -> None:
    """Flush a folder's list of names to disk, if its file system can do that and the folder is readable."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        _flush(descriptor, (*UNSUPPORTED, errno.EBADF, errno.EACCES))
    finally:
        os.close(descriptor)


def _flush(descriptor: int, let_pass: Collection[int]) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in let_pass:
            raise


def write_torch(path: Path, state: object) -> None:
    """Write tensors and plain values atomically, through memory: torch hides why a file could not be written."""
    import torch  # here, since most files hold no tensors

    buffer = io.BytesIO()
    torch.save(state, buffer)
    with atomic_write(path) as file:
        file.write(buffer.getbuffer())


def read_torch(path: Path) -> dict[str, Any]:
    """Read a dictionary that `write_torch` wrote into main memory; only tensors and plain values are accepted.

    Raises:
        ValueError: If the file is missing, damaged or holds something else; its text is the name of the error.
    """
    import torch

    try:
        with zipfile.ZipFile(path) as parts:  # torch does not verify checksums
            if damaged := parts.testzip():
                raise ValueError(f"the checksum of {damaged} is wrong")
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (*UNREADABLE_ARRAYS, pickle.UnpicklingError) as error:
        raise ValueError(str(error) if type(error) is ValueError else type(error).__name__) from None
    if not isinstance(state, dict):
        raise ValueError(type(state).__name__)
    return state


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a text file atomically."""
    with atomic_write(path, durable=durable) as file:
        file.write(text.encode())


def write_json(path: Path, content: object, *, durable: bool = True) -> None:
    """Write a JSON file atomically; a number that is not finite is a ValueError."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n", durable=durable)


class NotReadError(ValueError):
    """A file exists but cannot be read, so its content is unknown."""

    def __init__(self, name: str, error: OSError) -> None:
        super().__init__(f"{name} cannot be read ({error.strerror or error})")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        NotReadError: If the file exists but cannot be read.
        ValueError: If it is missing, truncated, something else or too large.
    """
    try:
        text = read_file(path)
    except FileNotFoundError:
        raise ValueError(f"{path.name} is missing") from None
    except OSError as error:
        raise NotReadError(path.name, error) from None
    return parse_json(text, path.name)


def read_file(path: str | Path) -> bytes:
    """Read a whole file; pipes, devices and files far larger than any record are refused at once.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it is no ordinary file, or too large.
    """
    file, size = open_file(path)
    with file:
        if size > MOST_BYTES:
            raise ValueError(f"{Path(path).name} has {size / 1e6:.0f} MB, more than such a file can have")
        return file.readall()


def open_file(path: str | Path) -> tuple[io.FileIO, int]:
    """Open an ordinary file and return its size in bytes; several times as fast with a string as with a Path.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it is no ordinary file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # else opening a pipe would wait
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise ValueError(f"{Path(path).name} is no ordinary file")
    return io.FileIO(descriptor), found.st_size


def parse_json(text: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON object.

    Args:
        text: Content of a file.
        name: Name of the file for error messages.

    Raises:
        ValueError: If it is truncated or something else.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):  # nested without end
        raise ValueError(f"{name} is no complete JSON") from None
    if not isinstance(content, dict):
        raise ValueError(f"{name} holds no JSON object")
    return content


def make_folder(path: Path) -> Path:
    """Create a folder with its parents and check that it can be written to.

    Raises:
        RetryableError: If it cannot.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise _not_writable(path, error) from None
    return path


def _not_writable(path: Path, error: OSError) -> RetryableError:
    return RetryableError(
        f"{path} cannot be written: {error.strerror or error}. {what_helps(error, path, '--out')}, then give the same "
        "command again; what was written before is kept."
    )


def owner_of(path: Path) -> str:
    """Return the name of the owner of a file or folder."""
    try:
        return path.owner()
    except KeyError:  # a user that this machine does not know
        return f"the user with the number {path.stat().st_uid}"


def how_to_read(folder: Path) -> str:
    """Say how an unreadable folder can be made readable."""
    command = f"chmod -R g+rX {shlex.quote(str(folder))}"
    return f"{folder} belongs to {owner_of(folder)}, who can make it readable for its group: `{command}`."
