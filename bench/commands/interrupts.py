"""Ctrl-C: how a process that was told to stop ends, also before its command has begun."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # what a shell expects of a program that Ctrl-C has ended


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """End the process at once if Ctrl-C is typed in the block: for importing libraries before anything else is done.

    A KeyboardInterrupt in the middle of importing torch would come out of strangers' code in any shape. Nothing has
    been opened or written by then, so that the process can simply end.
    """
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_at_ctrl_c() -> None:
    """End the process at once if Ctrl-C is typed from now on: for when everything was written."""
    signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
