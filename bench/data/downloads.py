"""Downloads of data sets: from one mirror after the other, resumed after a kill, checked before they are in place."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from augbench.bench.common.disk import FULL, room_on_disk_of, what_helps
from augbench.bench.common.errors import RetryableError, UserError
from augbench.bench.common.files import flush_to_disk
from augbench.bench.common.locks import exclusive
from augbench.bench.common.user_input import is_switched_on

OFFLINE_VARIABLE = "AUGBENCH_OFFLINE"
DOWNLOADS = ".downloads"  # folder of unfinished downloads below the folder of data sets
NETWORK_TIMEOUT = 30.0  # seconds without any answer
PIECE = 1 << 20  # most bytes read at a time
GZIP = b"\x1f\x8b"  # how every `.gz` file begins


class ProgressCallback:
    """Is told how far a download or a preparation is; this one does not care."""

    def progress(self, what: str, done: int, total: int | None) -> None:
        """Hear that `done` bytes out of `total`, where that is known, of something are there."""

    def message(self, text: str) -> None:
        """Hear a sentence."""


@dataclass(frozen=True)
class RemoteFile:
    """A file as its authors publish it.

    Attributes:
        path: Where it belongs below the folder of data sets, in torchvision's layout.
        md5: md5 of its content.
        size: Size in bytes, where it is known.
        urls: Where it can be downloaded, in the order in which that is tried.
    """

    path: str
    md5: str
    size: int | None
    urls: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the file alone."""
        return Path(self.path).name


class _UnusableAnswerError(Exception):
    """What a server sent is not the file."""


def offline() -> bool:
    """Whether the variable AUGBENCH_OFFLINE forbids downloads.

    Raises:
        UserError: If it says neither yes nor no.
    """
    return is_switched_on(OFFLINE_VARIABLE)


def download(file: RemoteFile, root: Path, progress: ProgressCallback) -> Path:
    """Download a file to its place below `root`; what a download that was killed has left is gone on with.

    A second process waits until the first one is done. Nothing stands in its place before its md5 is right.

    Args:
        file: What to download.
        root: Folder of data sets.
        progress: Is told how far the download is.

    Raises:
        UserError: If no mirror has the file, or it cannot be written.
    """
    target, folder = root / file.path, root / DOWNLOADS
    partial = folder / f"{file.name}.{file.md5[:8]}.part"
    with disk_errors(root):
        folder.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        waiting = f"Another process downloads {file.name} at the moment; waiting for it."
        with exclusive(partial.with_suffix(".lock"), lambda: progress.message(waiting)):
            if not target.exists():
                _from_any_mirror(file, partial, progress)
                partial.replace(target)
    return target


def _from_any_mirror(file: RemoteFile, partial: Path, progress: ProgressCallback) -> None:
    reasons = [] if file.urls else ["No address of it is known"]
    for url in file.urls:
        try:
            _from_mirror(file, url, partial, progress)
            return
        except (OSError, HTTPException, ValueError, _UnusableAnswerError) as error:  # none of these is the disk's
            reasons.append(f"{url}: {_in_words(error)}")
    kept = partial.stat().st_size if partial.exists() else 0
    again = f" {megabytes(kept)} of it are kept, and the same command goes on from there." if kept else ""
    raise UserError(
        f"{file.name} could not be downloaded. {'; '.join(reasons)}.{again} Without a network here, get the file "
        f"(md5 {file.md5}) on another machine, put it into a folder and give the same command again with --from FOLDER."
    )


def _in_words(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return " ".join(f"{reason}".split()).rstrip(".") or type(error).__name__


def _from_mirror(file: RemoteFile, url: str, partial: Path, progress: ProgressCallback) -> None:
    """Bring `partial` to its full length from one server, and check it."""
    with disk_errors(partial):
        before = partial.stat().st_size if partial.exists() else 0
        if before and md5_of(partial) == file.md5:  # it was killed between its last byte and its place
            return
    try:
        _receive(file, url, partial, before, progress)
        _check(file, partial)
    except _UnusableAnswerError:
        if not before or partial.exists():
            raise
        _from_mirror(file, url, partial, progress)  # what had been left from an earlier time was wrong


def _receive(file: RemoteFile, url: str, partial: Path, before: int, progress: ProgressCallback) -> None:
    headers = {"User-Agent": "augbench", "Accept-Encoding": "identity"}
    if before:
        headers["Range"] = f"bytes={before}-"
    request = Request(url, headers=headers)  # noqa: S310 - the addresses are ours
    try:
        answer = urlopen(request, timeout=NETWORK_TIMEOUT)  # noqa: S310
    except HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            partial.unlink()  # longer than the file
            raise _UnusableAnswerError("what was there is longer than the file") from None
        raise
    with answer:
        resumed = answer.headers.get("Content-Range", "").startswith(f"bytes {before}-")
        start = before if resumed else 0
        total = file.size or _announced(answer, start)
        check_space(partial.parent, (total or 0) - start)
        done = _copy(answer, partial, start, file.name, total, progress)
    if total is not None and done < total:
        raise _UnusableAnswerError(f"the connection ended after {done} of {total} bytes")


def _announced(answer: HTTPResponse, start: int) -> int | None:
    length = answer.headers.get("Content-Length")
    return start + int(length) if length and length.isdigit() else None


def _copy(
    answer: HTTPResponse, partial: Path, done: int, name: str, total: int | None, progress: ProgressCallback
) -> int:
    """Write what comes behind the first `done` bytes; returns how many there are then."""
    piece = _read(answer)
    if done == 0 and piece.lstrip().startswith(b"<"):  # before it replaces what an earlier download has left
        raise _UnusableAnswerError(f"it sent a web page, not the data: {quoted(piece)}")
    with disk_errors(partial), partial.open("ab" if done else "wb") as target:
        while piece and (total is None or done <= total):  # what is too long already is not the file
            target.write(piece)
            done += len(piece)
            progress.progress(name, done, total)
            piece = _read(answer)
        flush_to_disk(target)
    return done


def _read(answer: HTTPResponse) -> bytes:
    try:
        return answer.read1(PIECE)  # what has come, so that a kill loses none of it
    except (OSError, HTTPException) as error:  # the network's, to be told from the disk's
        raise _UnusableAnswerError(f"the connection broke off: {_in_words(error)}") from None


def _check(file: RemoteFile, partial: Path) -> None:
    """Delete a download that is complete and wrong."""
    with disk_errors(partial):
        wrong = difference(partial, file.md5, file.size)
        if wrong:
            partial.unlink()
            raise _UnusableAnswerError(f"what it sent is not the file: {wrong}")


def difference(path: Path, md5: str, size: int | None) -> str:
    """Say in what a file is not the one that it should be; nothing if it is.

    Args:
        path: The file.
        md5: Its md5 as it should be.
        size: Its size in bytes as it should be, where that is known.
    """
    found = md5_of(path)
    if found == md5:
        return ""
    wrong = f"its md5 is {found} instead of {md5}"
    with path.open("rb") as file:
        start = file.read(60)
    if start.lstrip().startswith(b"<"):
        return f"{wrong}; it is a web page, not the data: {quoted(start)}"
    length = path.stat().st_size
    if size not in (None, length):
        wrong += f"; it has {length} bytes instead of {size}"
    if ".gz" in path.suffixes and not start.startswith(GZIP):
        wrong += "; it is not packed, though its name says so: a browser or a proxy may have unpacked it"
    return wrong


def quoted(start: bytes) -> str:
    """Quote how a file begins."""
    return repr(" ".join(start[:60].decode("ascii", "backslashreplace").split()))


def md5_of(path: Path) -> str:
    """Compute the md5 of a file; hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def check_space(folder: Path, needed: int) -> None:
    """Make sure that the disk has room for `needed` bytes.

    Where it says that nothing is left, the attempt decides: so do file systems that do not know.

    Raises:
        UserError: If it has not.
    """
    free = room_on_disk_of(folder).bytes
    if free and free < needed:
        raise UserError(
            f"The disk of {folder} has {megabytes(free)} left, and {megabytes(needed)} are needed. Free some space or "
            "choose a folder on another disk with --data, then give the same command again."
        )


def megabytes(count: int) -> str:
    """Write a number of bytes for people."""
    return f"{count / 1e6:.1f} MB"


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn errors of the disk into one paragraph for the user; `path` is what is worked on.

    Raises:
        RetryableError: If the disk is full, or something cannot be read or written.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or path
        is_full = error.errno in FULL
        what = f"The disk of {path} is full" if is_full else f"{where} cannot be read or written"
        kept = "; it goes on from what is there" if is_full else ""
        raise RetryableError(
            f"{what}: {error.strerror or error}. {what_helps(error, path, '--data')}, then give the same command "
            f"again{kept}."
        ) from None
