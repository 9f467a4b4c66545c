"""Downloads from a server on this machine: mirrors, broken connections, kills, wrong answers, full disks."""

import errno
import hashlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.data import downloads
from augbench.bench.data.downloads import DOWNLOADS, ProgressCallback, RemoteFile, download

SetRoom = Callable[..., None]

CONTENT = bytes(range(256)) * 40  # 10,240 bytes
HTML = b"<!DOCTYPE html>\n<html><body>Please log in to the guest network</body></html>"
NAME = "letters.gz"
PLACE = f"Letters/raw/{NAME}"


class Remembering(ProgressCallback):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int | None]] = []

    def progress(self, what: str, done: int, total: int | None) -> None:
        """Keep it."""
        self.heard.append((what, done, total))


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def published(*urls: str, size: int | None = len(CONTENT), content: bytes = CONTENT) -> RemoteFile:
    return RemoteFile(PLACE, md5(content), size, urls)


@pytest.fixture
def server(file_server: Any) -> Any:
    """Serve the file."""
    (file_server.folder / NAME).write_bytes(CONTENT)
    return file_server


def partial(root: Path) -> Path:
    return root / DOWNLOADS / f"{NAME}.{md5(CONTENT)[:8]}.part"


def error_of(file: RemoteFile, root: Path) -> str:
    with pytest.raises(UserError) as caught:
        download(file, root, ProgressCallback())
    assert "\n" not in str(caught.value)
    assert not (root / PLACE).exists()
    return str(caught.value)


@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_file_comes_to_its_place_with_progress(size: int | None, server: Any, tmp_path: Path) -> None:
    progress, root = Remembering(), tmp_path / "not" / "there yet"
    path = download(published(server.url(NAME), size=size), root, progress)
    assert path == root / PLACE
    assert path.read_bytes() == CONTENT
    assert progress.heard[-1] == (NAME, len(CONTENT), len(CONTENT))
    assert [file.suffix for file in (root / DOWNLOADS).iterdir()] == [".lock"]


def test_a_file_that_is_there_is_not_asked_for(server: Any, tmp_path: Path) -> None:
    file = published(server.url(NAME))
    download(file, tmp_path, ProgressCallback())
    download(file, tmp_path, ProgressCallback())
    assert len(server.asked) == 1


def test_the_second_mirror_is_taken_where_the_first_is_down(server: Any, tmp_path: Path) -> None:
    missing = server.url("elsewhere.gz")
    with socket.socket() as taken:  # but does not listen, and nobody else can
        taken.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{taken.getsockname()[1]}/{NAME}"
        path = download(published(down, missing, server.url(NAME)), tmp_path, ProgressCallback())
    assert path.read_bytes() == CONTENT


def test_every_mirror_is_named_where_none_has_it(server: Any, tmp_path: Path) -> None:
    urls = server.url("a.gz"), server.url("b.gz")
    text = error_of(published(*urls), tmp_path)
    assert all(word in text for word in (*urls, "Not Found", NAME, md5(CONTENT), "--from FOLDER"))


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_broken_connection_is_gone_on_with(size: int | None, ranges: bool, server: Any, tmp_path: Path) -> None:
    file = published(server.url(NAME), size=size)
    server.cut, server.ranges = 4000, ranges
    text = error_of(file, tmp_path)
    assert "ended after 4000 of 10240 bytes" in text
    assert "goes on from there" in text
    assert partial(tmp_path).read_bytes() == CONTENT[:4000]
    server.cut = None
    assert download(file, tmp_path, ProgressCallback()).read_bytes() == CONTENT
    assert server.asked == [(NAME, 0), (NAME, 4000)]


def test_what_the_first_mirror_has_sent_is_gone_on_with_at_the_second(server: Any, tmp_path: Path) -> None:
    partial(tmp_path).parent.mkdir()
    partial(tmp_path).write_bytes(CONTENT[:100])
    download(published(server.url("gone.gz"), server.url(NAME)), tmp_path, ProgressCallback())
    assert server.asked == [("gone.gz", 100), (NAME, 100)]


@pytest.mark.parametrize("left", [CONTENT[:99] + b"?", CONTENT + b"more", b"?" * len(CONTENT)])
@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_start_that_is_wrong_is_thrown_away(left: bytes, size: int | None, server: Any, tmp_path: Path) -> None:
    partial(tmp_path).parent.mkdir()
    partial(tmp_path).write_bytes(left)
    assert download(published(server.url(NAME), size=size), tmp_path, ProgressCallback()).read_bytes() == CONTENT
    assert server.asked[-1] == (NAME, 0)


def test_a_download_that_was_killed_at_its_very_end_needs_no_server(tmp_path: Path) -> None:
    partial(tmp_path).parent.mkdir()
    partial(tmp_path).write_bytes(CONTENT)
    assert download(published("http://127.0.0.1:1/x"), tmp_path, ProgressCallback()).read_bytes() == CONTENT


def test_a_web_page_is_recognised_and_destroys_nothing(server: Any, tmp_path: Path) -> None:
    partial(tmp_path).parent.mkdir()
    partial(tmp_path).write_bytes(CONTENT[:4000])
    server.page = HTML
    text = error_of(published(server.url(NAME)), tmp_path)
    assert "web page, not the data: '<!DOCTYPE html> <html>" in text
    assert partial(tmp_path).read_bytes() == CONTENT[:4000]


def test_another_file_is_thrown_away(server: Any, tmp_path: Path) -> None:
    (server.folder / NAME).write_bytes(CONTENT[:-1] + b"?")
    text = error_of(published(server.url(NAME)), tmp_path)
    assert md5(CONTENT) in text
    assert "goes on" not in text
    assert not partial(tmp_path).exists()


@pytest.mark.parametrize("url", ["no address", "example.org/letters.gz", "nothing://example.org/x"])
def test_what_is_no_address_is_explained(url: str, server: Any, tmp_path: Path) -> None:
    assert url in error_of(published(url), tmp_path)
    assert download(published(url, server.url(NAME)), tmp_path, ProgressCallback()).read_bytes() == CONTENT


def test_what_is_longer_than_the_file_is_not_received_to_its_end(server: Any, tmp_path: Path) -> None:
    (server.folder / NAME).write_bytes(CONTENT * 1000)  # 10 MB
    progress = Remembering()
    with pytest.raises(UserError, match="instead of 10240"):
        download(published(server.url(NAME)), tmp_path, progress)
    assert max(done for _, done, _ in progress.heard) <= len(CONTENT) + downloads.PIECE


def test_a_silent_server_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "NETWORK_TIMEOUT", 0.1)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        text = error_of(published(f"http://127.0.0.1:{silent.getsockname()[1]}/{NAME}"), tmp_path)
    assert "timed out" in text


def test_a_full_disk_is_found_before(server: Any, tmp_path: Path, set_room: SetRoom) -> None:
    set_room(5000)
    text = error_of(published(server.url(NAME)), tmp_path)
    assert all(word in text for word in ("0.0 MB left", "needed", "--data", "same command again"))
    partial(tmp_path).write_bytes(CONTENT[:6000])  # the rest of it fits
    assert download(published(server.url(NAME)), tmp_path, ProgressCallback()).read_bytes() == CONTENT


def test_a_disk_that_fills_up_keeps_what_is_there(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        text = error_of(published(server.url(NAME), server.url("other.gz")), tmp_path)
    assert all(word in text for word in ("is full", "Free some space", "--data", "same command again"))
    assert [name for name, _ in server.asked] == [NAME]  # no other mirror is asked
    assert partial(tmp_path).exists()


def test_a_folder_that_cannot_be_made_is_named(server: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    text = error_of(published(server.url(NAME)), tmp_path / "file")
    assert f"{tmp_path / 'file'}" in text
    assert "Not a directory" in text or "File exists" in text


def test_a_folder_without_permission_is_named(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)  # permissions would not stop root
    text = error_of(published(server.url(NAME)), tmp_path)
    assert all(word in text for word in (DOWNLOADS, "Permission denied", "Change its permissions"))


DOWNLOADING = """
import sys
from pathlib import Path
from augbench.bench.data.downloads import ProgressCallback, RemoteFile, download
url, md5, size, place, root = sys.argv[1:]
class Printing(ProgressCallback):
    def progress(self, what, done, total):
        print(done, flush=True)
    def message(self, text):
        print(text, flush=True)
download(RemoteFile(place, md5, int(size), (url,)), Path(root), Printing())
"""
LONG = bytes(range(256)) * 4 * 500
FIRST = 300_001  # bytes that come before the server stalls


@pytest.fixture
def stalling(server: Any) -> Iterator[threading.Event]:
    """Serve a long file whose end only comes once the event is set, unless just the rest of it is asked for."""
    (server.folder / NAME).write_bytes(LONG)
    event, answer = threading.Event(), server.answer

    def stall(handler: Any) -> None:
        write = handler.wfile.write

        def write_slowly(content: bytes) -> None:
            write(content[:FIRST])
            if len(content) > FIRST:
                event.wait()
                with suppress(ConnectionError):
                    write(content[FIRST:])

        handler.wfile.write = write_slowly if handler.headers.get("Range") is None else write
        answer(handler)

    server.answer = stall
    yield event
    event.set()


def start_download(server: Any, root: Path) -> "subprocess.Popen[str]":
    arguments = [server.url(NAME), md5(LONG), str(len(LONG)), PLACE, str(root)]
    return subprocess.Popen([sys.executable, "-c", DOWNLOADING, *arguments], stdout=subprocess.PIPE, text=True)


def wait_for(process: "subprocess.Popen[str]", expected: object) -> None:
    """Wait until a process prints a line."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == str(expected):
            return
    pytest.fail(f"it ended before it printed {expected!r}")


def test_a_killed_download_is_gone_on_with(stalling: threading.Event, server: Any, tmp_path: Path) -> None:
    with start_download(server, tmp_path) as process:
        wait_for(process, FIRST)
        process.kill()
    stalling.set()
    assert not (tmp_path / PLACE).exists()
    (left,) = (tmp_path / DOWNLOADS).glob("*.part")
    start = left.stat().st_size
    assert FIRST / 2 < start <= FIRST
    file = published(server.url(NAME), size=len(LONG), content=LONG)
    assert download(file, tmp_path, ProgressCallback()).read_bytes() == LONG
    assert server.asked == [(NAME, 0), (NAME, start)]


def test_a_second_process_waits_and_finds_it_done(stalling: threading.Event, server: Any, tmp_path: Path) -> None:
    with start_download(server, tmp_path) as first:
        wait_for(first, FIRST)
        with start_download(server, tmp_path) as second:
            wait_for(second, f"Another process downloads {NAME} at the moment; waiting for it.")
            stalling.set()
            first.communicate(timeout=300)
            second.communicate(timeout=300)
    assert (first.returncode, second.returncode) == (0, 0)
    assert (tmp_path / PLACE).read_bytes() == LONG
    assert server.asked == [(NAME, 0)]
