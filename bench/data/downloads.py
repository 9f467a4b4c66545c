"""Downloads of published files: from one mirror after the other, resumed after a kill, checked before use."""

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
    """Base of what follows a download or a preparation; this one ignores all calls."""

    def progress(self, what: str, done: int, total: int | None) -> None:
        """`done` of `total` bytes of a file are there; `total` is None while it is unknown."""

    def message(self, text: str) -> None:
        """Something happened that takes a sentence."""


@dataclass(frozen=True)
class RemoteFile:
    """A file as its authors publish it.

    Attributes:
        path: Its place below the folder of data sets, in torchvision's layout.
        md5: md5 of its content.
        size: Size in bytes; None if unknown.
        urls: Addresses, in the order in which they are tried.
    """

    path: str
    md5: str
    size: int | None
    urls: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the file, without its folder."""
        return Path(self.path).name


class _UnusableAnswerError(Exception):
    """What a server sent is not the file."""


def offline() -> bool:
    """Whether the variable AUGBENCH_OFFLINE forbids downloads.

    Raises:
        UserError: If its value means neither yes nor no.
    """
    return is_switched_on(OFFLINE_VARIABLE)


def download(file: RemoteFile, root: Path, progress: ProgressCallback) -> Path:
    """Download a file to its place below `root`, where it appears only once its md5 is right.

    An interrupted download is resumed. If another process downloads the file, this one waits for it.

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
            reasons.append(f"{url}: {_summary(error)}")
    kept = _size(partial)
    again = f" {megabytes(kept)} of it are kept; the same command resumes the download." if kept else ""
    raise UserError(
        f"{file.name} could not be downloaded. {'; '.join(reasons)}.{again} Without a network here, download the file "
        f"(md5 {file.md5}) on another machine, put it into a folder and give the same command again with --from FOLDER."
    )


def _summary(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return " ".join(f"{reason}".split()).rstrip(".") or type(error).__name__


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _from_mirror(file: RemoteFile, url: str, partial: Path, progress: ProgressCallback) -> None:
    """Bring `partial` to its full length from one server, and check it."""
    with disk_errors(partial):
        before = _size(partial)
        if before and md5_of(partial) == file.md5:  # the process was killed before it moved the file to its place
            return
    try:
        _receive(file, url, partial, before, progress)
        with disk_errors(partial):
            wrong = difference(partial, file.md5, file.size)
            if wrong:
                partial.unlink()
                raise _UnusableAnswerError(f"what it sent is not the file: {wrong}")
    except _UnusableAnswerError:
        if not before or partial.exists():
            raise
        _from_mirror(file, url, partial, progress)  # from its first byte: what an earlier attempt had left was wrong


def _receive(file: RemoteFile, url: str, partial: Path, before: int, progress: ProgressCallback) -> None:
    headers = {"User-Agent": "augbench", "Accept-Encoding": "identity"}
    if before:
        headers["Range"] = f"bytes={before}-"
    try:
        answer = urlopen(Request(url, headers=headers), timeout=NETWORK_TIMEOUT)  # noqa: S310 - the addresses are ours
    except HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            partial.unlink()  # longer than the file
            raise _UnusableAnswerError("what was there is longer than the file") from None
        raise
    with answer:
        start = before if answer.headers.get("Content-Range", "").startswith(f"bytes {before}-") else 0
        length = answer.headers.get("Content-Length", "")
        total = file.size or (start + int(length) if length.isdigit() else None)
        check_space(partial.parent, (total or 0) - start)
        done = _copy(answer, partial, start, file.name, total, progress)
    if total is not None and done < total:
        raise _UnusableAnswerError(f"the connection ended after {done} of {total} bytes")


def _copy(
    answer: HTTPResponse, partial: Path, done: int, name: str, total: int | None, progress: ProgressCallback
) -> int:
    """Write what follows the first `done` bytes; return how many there are then."""
    piece = _read(answer)
    if done == 0 and piece.lstrip().startswith(b"<"):  # before it replaces what an earlier download has left
        raise _UnusableAnswerError(f"it sent a web page, not the data: {quoted(piece)}")
    with disk_errors(partial), partial.open("ab" if done else "wb") as target:
        while piece and (total is None or done <= total):  # a file that is too long already is another one
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
        raise _UnusableAnswerError(f"the connection broke off: {_summary(error)}") from None


def difference(path: Path, md5: str, size: int | None) -> str:
    """Describe how a file differs from the expected md5 and size in bytes; empty if its md5 is right."""
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
        wrong += "; it is not compressed, although its name says so: a browser or a proxy may have unpacked it"
    return wrong


def quoted(start: bytes) -> str:
    """Quote the first bytes of a file."""
    return repr(" ".join(start[:60].decode("ascii", "backslashreplace").split()))


def md5_of(path: Path) -> str:
    """Compute the md5 of a file; hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def check_space(folder: Path, needed: int) -> None:
    """Make sure that the disk of a folder has room for `needed` bytes.

    A disk that reports no free bytes at all is tried: file systems that do not know report that, too.

    Raises:
        UserError: If there is too little room.
    """
    free = room_on_disk_of(folder).bytes
    if free and free < needed:
        raise UserError(
            f"The disk of {folder} has {megabytes(free)} left, and {megabytes(needed)} are needed. Free some space or "
            "choose a folder on another disk with --data, then give the same command again."
        )


def megabytes(count: int) -> str:
    """Format a number of bytes."""
    return f"{count / 1e6:.1f} MB"


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an error of the disk into one paragraph for the user; `path` is what is worked on.

    Raises:
        RetryableError: If the disk is full, or a file cannot be read or written.
    """
    try:
        yield
    except OSError as error:
        is_full = error.errno in FULL
        what = f"The disk of {path} is full" if is_full else f"{error.filename or path} cannot be read or written"
        kept = "; it continues from what is there" if is_full else ""
        raise RetryableError(
            f"{what}: {error.strerror or error}. {what_helps(error, path, '--data')}, then give the same command "
            f"again{kept}."
        ) from None
