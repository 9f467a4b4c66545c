"""Downloads from a server on this machine: mirrors, broken connections, kills, wrong answers, full disks."""

import errno
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
from data_files import PAGE, error_of, failing, has, md5
from patience import PATIENCE

from augbench.bench.common.errors import UserError
from augbench.bench.data import downloads
from augbench.bench.data.downloads import DOWNLOADS, ProgressCallback, RemoteFile, download

SetRoom = Callable[..., None]

CONTENT = bytes(range(256)) * 40  # 10,240 bytes
NAME = "letters.gz"
PLACE = f"Letters/raw/{NAME}"


class Remembering(ProgressCallback):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int | None]] = []

    def progress(self, what: str, done: int, total: int | None) -> None:
        """Keep it."""
        self.heard.append((what, done, total))


def published(*urls: str, size: int | None = len(CONTENT), content: bytes = CONTENT) -> RemoteFile:
    return RemoteFile(PLACE, md5(content), size, urls)


@pytest.fixture
def server(file_server: Any) -> Any:
    """Serve the file."""
    (file_server.folder / NAME).write_bytes(CONTENT)
    return file_server


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    """Path of an unfinished download."""
    (tmp_path / DOWNLOADS).mkdir()
    return tmp_path / DOWNLOADS / f"{NAME}.{md5(CONTENT)[:8]}.part"


def fetched(file: RemoteFile, root: Path) -> bytes:
    return download(file, root, ProgressCallback()).read_bytes()


def failure(file: RemoteFile, root: Path) -> str:
    text = error_of(download, file, root, ProgressCallback())
    assert not (root / PLACE).exists()
    return text


@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_file_comes_to_its_place_with_progress_and_is_asked_for_once(
    size: int | None, server: Any, tmp_path: Path
) -> None:
    progress, root, file = Remembering(), tmp_path / "not" / "there yet", published(server.url(NAME), size=size)
    path = download(file, root, progress)
    assert (path, path.read_bytes()) == (root / PLACE, CONTENT)
    assert progress.heard[-1] == (NAME, len(CONTENT), len(CONTENT))
    assert [left.suffix for left in (root / DOWNLOADS).iterdir()] == [".lock"]
    assert fetched(file, root) == CONTENT
    assert len(server.asked) == 1


def test_the_next_mirror_is_taken_and_every_one_is_named_where_none_has_it(server: Any, tmp_path: Path) -> None:
    with socket.socket() as taken:  # but does not listen, and nobody else can
        taken.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{taken.getsockname()[1]}/{NAME}"
        urls = (down, server.url("elsewhere.gz"), "no address", "example.org/letters.gz", "nothing://example.org/x")
        text = failure(published(*urls), tmp_path)
        assert has(text, *urls, "Not Found", NAME, md5(CONTENT), "--from FOLDER")
        assert fetched(published(*urls, server.url(NAME)), tmp_path) == CONTENT
    assert has(failure(published(), tmp_path / "x"), "No address of it is known")


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_broken_connection_is_gone_on_with(
    size: int | None, ranges: bool, server: Any, tmp_path: Path, partial: Path
) -> None:
    file = published(server.url("gone.gz"), server.url(NAME), size=size)
    server.cut, server.ranges = 4000, ranges
    assert has(failure(file, tmp_path), "ended after 4000 of 10240 bytes", "resumes the download")
    assert partial.read_bytes() == CONTENT[:4000]
    server.cut = None
    assert fetched(file, tmp_path) == CONTENT
    assert server.asked == [("gone.gz", 0), (NAME, 0), ("gone.gz", 4000), (NAME, 4000)]


@pytest.mark.parametrize("left", [CONTENT[:99] + b"?", CONTENT + b"more", b"?" * len(CONTENT)])
@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_a_start_that_is_wrong_is_thrown_away(
    left: bytes, size: int | None, server: Any, tmp_path: Path, partial: Path
) -> None:
    partial.write_bytes(left)
    assert fetched(published(server.url(NAME), size=size), tmp_path) == CONTENT
    assert server.asked[-1] == (NAME, 0)


def test_a_download_that_was_killed_at_its_very_end_needs_no_server(tmp_path: Path, partial: Path) -> None:
    partial.write_bytes(CONTENT)
    assert fetched(published("http://127.0.0.1:1/x"), tmp_path) == CONTENT


def test_a_web_page_is_recognised_and_destroys_nothing(server: Any, tmp_path: Path, partial: Path) -> None:
    partial.write_bytes(CONTENT[:4000])
    server.page = PAGE
    assert has(failure(published(server.url(NAME)), tmp_path), "web page, not the data: '<!DOCTYPE html> <html>")
    assert partial.read_bytes() == CONTENT[:4000]


def test_another_file_is_thrown_away(server: Any, tmp_path: Path, partial: Path) -> None:
    (server.folder / NAME).write_bytes(CONTENT[:-1] + b"?")
    text = failure(published(server.url(NAME)), tmp_path)
    assert has(text, md5(CONTENT))
    assert "resumes" not in text
    assert not partial.exists()


def test_what_is_longer_than_the_file_is_not_received_to_its_end(server: Any, tmp_path: Path) -> None:
    (server.folder / NAME).write_bytes(CONTENT * 1000)  # 10 MB
    progress = Remembering()
    with pytest.raises(UserError, match="instead of 10240"):
        download(published(server.url(NAME)), tmp_path, progress)
    assert max(done for _, done, _ in progress.heard) <= len(CONTENT) + downloads.PIECE


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10240\r\n\r\nletters"])
def test_a_silent_server_is_given_up(said: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "NETWORK_TIMEOUT", 0.1)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file, kept = published(f"http://127.0.0.1:{silent.getsockname()[1]}/{NAME}"), []

        def answer() -> None:
            kept.append(silent.accept()[0])
            kept[0].sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        text = failure(file, tmp_path)
        thread.join()
        kept[0].close()
    assert has(text, "timed out", "the connection broke off" if said else "")


def test_a_full_disk_is_found_before(server: Any, tmp_path: Path, partial: Path, set_room: SetRoom) -> None:
    set_room(5000)
    assert has(failure(published(server.url(NAME)), tmp_path), "0.0 MB left", "needed", "--data", "same command again")
    partial.write_bytes(CONTENT[:6000])  # the rest of it fits
    assert fetched(published(server.url(NAME)), tmp_path) == CONTENT


def test_a_disk_that_fills_up_keeps_what_is_there(
    server: Any, tmp_path: Path, partial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(errno.ENOSPC))
        text = failure(published(server.url(NAME), server.url("other.gz")), tmp_path)
    assert has(text, "is full", "Free some space", "--data", "same command again")
    assert [name for name, _ in server.asked] == [NAME]  # no other mirror is asked
    assert partial.exists()


def test_a_folder_that_cannot_be_made_is_named(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    text = failure(published(server.url(NAME)), tmp_path / "file")
    assert has(text, tmp_path / "file", "place of a folder")
    monkeypatch.setattr(os, "mkdir", failing(errno.EACCES))
    text = failure(published(server.url(NAME)), tmp_path)
    assert has(text, DOWNLOADS, "Permission denied", "Change its permissions")


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
    assert fetched(published(server.url(NAME), size=len(LONG), content=LONG), tmp_path) == LONG
    assert server.asked == [(NAME, 0), (NAME, start)]


def test_a_second_process_waits_and_finds_it_done(stalling: threading.Event, server: Any, tmp_path: Path) -> None:
    with start_download(server, tmp_path) as first:
        wait_for(first, FIRST)
        with start_download(server, tmp_path) as second:
            wait_for(second, f"Another process downloads {NAME} at the moment; waiting for it.")
            stalling.set()
            first.communicate(timeout=PATIENCE)
            second.communicate(timeout=PATIENCE)
    assert (first.returncode, second.returncode) == (0, 0)
    assert (tmp_path / PLACE).read_bytes() == LONG
    assert server.asked == [(NAME, 0)]
