"""Locks between processes, which the kernel releases when their owner dies."""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)  # of flock, on a file system without locks


def try_lock(descriptor: int, kind: int) -> bool:
    """Lock an open file, and return whether its file system has locks at all.

    Args:
        descriptor: The open file.
        kind: `fcntl.LOCK_SH` or `fcntl.LOCK_EX`.

    Raises:
        BlockingIOError: If another process holds it.
        OSError: If it cannot be locked for another reason.
    """
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    return True


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold a lock file for the length of the block; wait if another process holds it.

    On a file system without locks, nobody is kept out.

    Args:
        path: The lock file; created if missing, never deleted.
        on_wait: Called once before waiting.

    Raises:
        OSError: If the file cannot be created or locked.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # less the umask: a group may share the folder
    try:
        try:
            try_lock(descriptor, fcntl.LOCK_EX)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Return whether some process holds a lock file; False if there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        try_lock(descriptor, fcntl.LOCK_SH)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
