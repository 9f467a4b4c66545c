"""The memory of this process: how much it may use, keeping what it frees, and what the kernel killed for want of it.

A training step on a CPU makes and frees the same large tensors again and again. By itself glibc gives such memory back
to the system and gets new pages for the next step, which the system has to clear first.
"""

import ctypes
import os
import sys
from pathlib import Path

GROUPS, OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # numbers of the parameters in malloc.h
LARGEST_BLOCKS = (1 << 30, 1 << 25)  # bytes; larger ones are still mapped and given back one by one
"""The second is the most that older versions of glibc take."""
LARGEST_REST = (1 << 31) - 1  # bytes that may lie free at the end of the heap


def usable_memory(groups: Path = GROUPS, own: Path = OWN_GROUP) -> float:
    """Bytes of memory that this process may use: the machine's, or less in a container or a job.

    Args:
        groups: Where control groups of version 2 are mounted.
        own: File that names this process's group.
    """
    most = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    inside = _own_group(groups, own)
    while inside is not None and inside.is_relative_to(groups):  # a group is limited by those around it, too
        limit = _read(inside / "memory.max").strip()
        most = min(most, float(limit)) if limit.isdecimal() else most
        inside = inside.parent
    return most


def kills_for_memory(groups: Path = GROUPS, own: Path = OWN_GROUP) -> int:
    """Count the processes killed so far because this process's control group was out of memory; 0 if unknown.

    Args:
        groups: Where control groups of version 2 are mounted.
        own: File that names this process's group.
    """
    inside = _own_group(groups, own)
    events = _read(inside / "memory.events") if inside else ""
    return int(dict(line.split() for line in events.splitlines()).get("oom_kill", 0))


def _own_group(groups: Path, own: Path) -> Path | None:
    return next((groups / line[4:] for line in _read(own).splitlines() if line.startswith("0::/")), None)


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # another kind of system, or a group that is gone
        return ""


def keep_freed_memory() -> bool:
    """Have malloc keep what is freed, for the rest of this process; results do not depend on it.

    Returns:
        Whether it will: only on Linux with glibc.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or not any(mallopt(MMAP_THRESHOLD, size) for size in LARGEST_BLOCKS):
        return False
    return bool(mallopt(TRIM_THRESHOLD, LARGEST_REST))
