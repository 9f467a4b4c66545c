"""Finding and ending processes by what they have open and whose children they are, never by their name."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
PAUSE = 0.05  # seconds between two looks
GONE = (OSError, ValueError)  # what reading about a process raises that has just ended


def wait_until(predicate: Callable[[], bool], seconds: float) -> bool:
    """Ask again and again until something holds; returns whether it does.

    Args:
        predicate: What is asked; at least once.
        seconds: How long.
    """
    end = time.monotonic() + seconds
    while not predicate():
        if time.monotonic() >= end:
            return False
        time.sleep(PAUSE)
    return True


def writers(file: Path) -> set[int]:
    """Processes that have a file open for writing, as a daemon has its log; this one left out."""
    return {pid for pid in _running() if pid != os.getpid() and _writes(pid, file.resolve())}


def with_variables(variables: Mapping[str, str]) -> set[int]:
    """Processes that were started with all these environment variables."""
    wanted = {f"{name}={value}".encode() for name, value in variables.items()}
    found = set()
    for pid in _running():
        with suppress(*GONE):
            if wanted <= set((PROC / str(pid) / "environ").read_bytes().split(b"\0")):
                found.add(pid)
    return found


def with_descendants(pids: Iterable[int]) -> set[int]:
    """Processes with their children, the children of those, and so on."""
    parents = {pid: parent for pid in _running() if (parent := _parent(pid)) is not None}
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def end(find: Callable[[], set[int]], seconds: float) -> None:
    """Ask processes to end, and kill those that have not after a while.

    Args:
        find: Looks for them; asked again until there are none.
        seconds: How long to wait for them.
    """
    _send(signal.SIGTERM, find())
    if not wait_until(lambda: not find(), seconds):
        kill(find)


def kill(find: Callable[[], set[int]], seconds: float = 10) -> bool:
    """Kill processes until there are none; returns whether that was reached.

    Args:
        find: Looks for them; asked again, since a process may have started another one in the meantime.
        seconds: How long to try.
    """

    def none_left() -> bool:
        found = find()
        _send(signal.SIGKILL, found)
        return not found

    return wait_until(none_left, seconds)


def _send(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _running() -> Iterator[int]:
    """Every process that can be looked into."""
    return (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())


def _writes(pid: int, file: Path) -> bool:
    with suppress(*GONE):
        for entry in (PROC / str(pid) / "fd").iterdir():
            with suppress(*GONE):
                if entry.readlink() == file and _is_writable(pid, entry.name):
                    return True
    return False


def _is_writable(pid: int, descriptor: str) -> bool:
    for line in (PROC / str(pid) / "fdinfo" / descriptor).read_text().splitlines():
        if line.startswith("flags:"):
            return bool(int(line.split()[1], 8) & os.O_ACCMODE)
    return False


def _parent(pid: int) -> int | None:
    """Parent of a process that runs; a zombie, which waits for its parent to take notice, does not."""
    with suppress(*GONE):
        state, parent = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[:2]
        return None if state in "ZX" else int(parent)
    return None
