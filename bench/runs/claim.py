"""Ownership of a run: who executes it, whether that process still lives, and how another takes over.

A claim is a file `claim-N.json` in the run folder, made so that only one process can make it; N counts the attempts.
Its owner touches it again and again, and holds a lock on the file `lock`, which the kernel lets go of when the owner
dies. The lock is exact, but on some file systems it reaches no further than one machine, or is not there at all: so an
owner on another machine counts as alive while its claim has been touched lately. An owner that was thought dead and
finds a newer claim than its own writes nothing any more.
"""

import contextlib
import fcntl
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from augbench.bench.common.disk import what_helps
from augbench.bench.common.errors import RetryableError
from augbench.bench.common.files import read_json, write_json
from augbench.bench.common.locks import try_lock

HEARTBEAT_SECONDS = 10.0
STALE_SECONDS = 60.0
LAUNCHER_VARIABLE = "AUGBENCH_LAUNCHER"
JOB_VARIABLE = "AUGBENCH_JOB"
SUBMISSION_VARIABLE = "AUGBENCH_SUBMISSION"  # with which the job came: ids of jobs come again
NAME = re.compile(r"claim-(\d+)\.json")
BOOT = Path("/proc/sys/kernel/random/boot_id")


class BusyError(Exception):
    """Another process is running this run."""


class TakenOverError(Exception):
    """Another process has taken this run over."""


@dataclass(frozen=True)
class Claim:
    """One attempt at a run.

    Attributes:
        path: Its file.
        attempt: Its number, from 1.
        owner: Machine, host, pid, launcher, job and submission of the process; empty if the file was not written to
            its end.
        released: Whether the owner has ended in an orderly way.
    """

    path: Path
    attempt: int
    owner: dict[str, Any]
    released: bool

    @property
    def is_own(self) -> bool:
        """Whether the present process has made it."""
        return (self.owner.get("machine"), self.owner.get("pid")) == (this_machine(), os.getpid())

    def may_live(self, *, locks: bool, now: float | None = None) -> bool:
        """Whether its owner may be alive, if nobody holds the lock.

        Args:
            locks: Whether the file system has locks, at least between processes of one machine.
            now: Seconds since 1970 by the clock of the file system; by that of this machine if left out.
        """
        if self.released or (locks and self.owner.get("machine") == this_machine()):
            return False
        return self.is_fresh(now)

    def is_fresh(self, now: float | None = None) -> bool:
        """Whether its owner has touched it lately; `now`, in seconds since 1970, is by the clock of the file system."""
        try:
            touched = self.path.stat().st_mtime
        except OSError:
            return False
        return (time.time() if now is None else now) - touched < STALE_SECONDS


def last_claim(folder: Path) -> Claim | None:
    """Read the newest claim on a run, or None."""
    numbers = _attempts(folder)
    return _read_claim(folder, max(numbers)) if numbers else None


def broken_off(folder: Path) -> int:
    """Number of attempts at a run whose owner was killed, or goes on: all that have not ended in an orderly way."""
    return sum(not _read_claim(folder, attempt).released for attempt in _attempts(folder))


def _attempts(folder: Path) -> list[int]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names are all that is needed
    except OSError:
        return []
    return [int(found[1]) for name in names if (found := NAME.fullmatch(name))]


def _read_claim(folder: Path, attempt: int) -> Claim:
    path = folder / f"claim-{attempt}.json"
    try:
        content = read_json(path)
    except ValueError:  # its owner died, or is, between making and writing it
        content = {}
    owner = content.get("owner")
    return Claim(path, attempt, owner if isinstance(owner, dict) else {}, "released" in content)


def last_owner(folder: Path) -> dict[str, Any]:
    """Read the last owner of a run, as `Claim.owner`; empty if it is not known."""
    claim = last_claim(folder)
    return claim.owner if claim is not None else {}


def is_alive(folder: Path) -> bool:
    """Tell whether a process is executing a run; only reads its folder.

    Raises:
        OSError: If the folder may not be read.
    """
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        locks = try_lock(descriptor, fcntl.LOCK_SH)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    claim = last_claim(folder)
    return claim is not None and claim.may_live(locks=locks)


def owner_here(folder: Path) -> int | None:
    """Find the process on this machine that owns a run; None if none does.

    Process ids are reused, so only a process that has the lock of the run open counts as its owner.

    Raises:
        PermissionError: If the process belongs to another user.
    """
    owner = last_owner(folder)
    pid = owner.get("pid")
    if owner.get("machine") != this_machine() or not isinstance(pid, int):
        return None
    try:
        lock = (folder / "lock").stat()
        opened = list(Path(f"/proc/{pid}/fd").iterdir())
    except PermissionError:
        raise
    except OSError:  # it has ended, or runs in a container that numbers its processes by itself
        return None
    return pid if any(_is_same(path, lock) for path in opened) else None


def _is_same(path: Path, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), file)
    except OSError:  # closed in the meantime
        return False


def this_machine() -> str:
    """Identify this machine, as it was booted last; containers on it are the same machine."""
    try:
        return BOOT.read_text().strip()
    except OSError:
        return socket.gethostname()


class Ownership:
    """What the owner of a run holds: its attempt, and the means to check that the run is still its own."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.attempt = claim.attempt

    def verify(self) -> None:
        """Make sure that nobody has taken the run over.

        Raises:
            TakenOverError: If somebody has.
            RetryableError: If its folder cannot be read.
        """
        folder = self.claim.path.parent
        try:
            is_taken = (folder / f"claim-{self.attempt + 1}.json").exists()
        except OSError as error:
            raise _cannot_own(folder, error) from None
        if is_taken:
            raise TakenOverError(f"{folder} was taken over by another process.")

    def touch(self) -> None:
        """Show that the owner lives; a single failure does no harm."""
        with contextlib.suppress(OSError):
            os.utime(self.claim.path)

    def release(self) -> None:
        """Record that the owner has ended in an orderly way; if that fails, others find out a minute later."""
        with contextlib.suppress(TakenOverError, RetryableError):
            self.verify()
            write_json(self.claim.path, {"owner": self.claim.owner, "released": _now()}, durable=False)


@contextmanager
def claimed(folder: Path) -> Iterator[Ownership]:
    """Own a run for the length of the block.

    Raises:
        BusyError: If another process owns it.
        RetryableError: If its folder cannot be written to.
    """
    with unowned(folder) as before:
        ownership = Ownership(_make_claim(folder, before.attempt + 1 if before is not None else 1))
        try:
            yield ownership
        finally:
            ownership.release()


@contextmanager
def unowned(folder: Path) -> Iterator[Claim | None]:
    """Keep others on this machine from owning a run for the length of the block; yields the last claim.

    Raises:
        BusyError: If another process owns it.
        RetryableError: If its folder cannot be written to.
    """
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)  # less the umask: a group may share it
    except OSError as error:
        raise _cannot_own(folder, error) from None
    try:
        try:
            locks = try_lock(descriptor, fcntl.LOCK_EX)
            os.utime(descriptor)  # tells what the time is by the clock of the file system
            now = os.fstat(descriptor).st_mtime
        except BlockingIOError:
            raise BusyError(str(folder)) from None
        except OSError as error:
            raise _cannot_own(folder, error) from None
        before = last_claim(folder)
        if before is not None and before.may_live(locks=locks, now=now):
            with contextlib.suppress(OSError):
                if before.path.stat().st_mtime > now:  # by a clock that was put back since: it grows old from now on
                    os.utime(before.path)
            raise BusyError(str(folder))
        yield before
    finally:
        os.close(descriptor)


def _make_claim(folder: Path, attempt: int) -> Claim:
    path = folder / f"claim-{attempt}.json"
    owner = {
        "machine": this_machine(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "launcher": os.environ.get(LAUNCHER_VARIABLE),
        "job": os.environ.get(JOB_VARIABLE),
        "submission": os.environ.get(SUBMISSION_VARIABLE),
    }
    try:
        with path.open("x", encoding="utf-8") as file:
            json.dump({"owner": owner, "time": _now()}, file)
    except FileExistsError:  # another process has taken it over at the same time
        raise BusyError(str(folder)) from None
    except OSError as error:
        raise _cannot_own(folder, error) from None
    return Claim(path, attempt, owner, released=False)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _cannot_own(folder: Path, error: OSError) -> RetryableError:
    return RetryableError(
        f"{folder} cannot be claimed: {error.strerror or error}. {what_helps(error, folder, '--out')}, then give the "
        "same command again. Everything written so far is kept."
    )


@contextmanager
def heartbeat(beat: Callable[[], None], seconds: float = HEARTBEAT_SECONDS) -> Iterator[None]:
    """Call a function at intervals in the background for the length of the block.

    A file system that fails for a moment does not end it: else others would take the run for dead.
    """
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(seconds):
            with contextlib.suppress(OSError, RetryableError):
                beat()

    thread = threading.Thread(target=go_on, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
