"""Memory that is freed stays with the process, where the C library allows to say so.

A training step on a CPU makes and frees the same large tensors again and again. By itself glibc gives such memory back
to the system and gets new pages for the next step, which the system has to clear first.
"""

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # numbers of the parameters in malloc.h
LARGEST_BLOCKS = (1 << 30, 1 << 25)  # bytes; larger ones are still mapped and given back one by one
"""The second is the most that older versions of glibc take."""
LARGEST_REST = (1 << 31) - 1  # bytes that may lie free at the end of the heap


def keep_freed_memory() -> bool:
    """Have malloc keep what is freed, for the rest of this process; results do not depend on it.

    Returns:
        Whether it will: not outside Linux, and with no other C library than glibc.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or not any(mallopt(MMAP_THRESHOLD, size) for size in LARGEST_BLOCKS):
        return False
    return bool(mallopt(TRIM_THRESHOLD, LARGEST_REST))
