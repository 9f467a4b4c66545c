"""Whether the kernel has killed processes for want of memory."""

from pathlib import Path

EVENTS = "memory.events"


def kills_for_memory(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
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
