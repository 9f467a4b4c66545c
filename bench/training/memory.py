"""How much memory this process may use, and whether the kernel has killed others for want of it."""

import os
from pathlib import Path

EVENTS, LIMIT = "memory.events", "memory.max"
GROUPS, OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def usable_memory(groups: Path = GROUPS, own: Path = OWN_GROUP) -> float:
    """Bytes of memory that this process may use: the machine's, or less where it is in a container or a job.

    Args:
        groups: Where control groups of version 2 are mounted.
        own: File that names that of this process.
    """
    most = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        inside = groups / next(line[4:] for line in own.read_text().splitlines() if line.startswith("0::/"))
    except (OSError, StopIteration):
        return most
    while inside.is_relative_to(groups):  # each group is limited by those around it, too
        most = min(most, _limit(inside / LIMIT))
        inside = inside.parent
    return most


def _limit(file: Path) -> float:
    try:
        text = file.read_text().strip()
    except OSError:
        return float("inf")
    return float(text) if text.isdecimal() else float("inf")


def kills_for_memory(groups: Path = GROUPS, own: Path = OWN_GROUP) -> int:
    """Count the processes that were killed so far because this process's control group had no memory left.

    Args:
        groups: Where control groups of version 2 are mounted.
        own: File that names that of this process.

    Returns:
        Their number; 0 where it is not known.
    """
    try:
        path = next(line[4:] for line in own.read_text().splitlines() if line.startswith("0::/"))
        events = (groups / path / EVENTS).read_text()
    except (OSError, StopIteration):
        return 0
    counts = dict(line.split() for line in events.splitlines())
    return int(counts.get("oom_kill", 0))
