"""Ctrl-C: how a process that is told to stop ends, also while it still imports libraries."""

import os
import signal
from types import FrameType

INTERRUPTED = 130  # what a shell expects of a program that Ctrl-C has ended
IMPORTING = "<frozen importlib._bootstrap>"  # the file of Python's import system, as frames name it


def heed_ctrl_c() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on; while a module is being imported, it ends the process at once.

    An import takes seconds, and third-party code in it could turn a KeyboardInterrupt into any other error. Commands
    import what they need before they open or write anything, so the process can simply end.
    """
    signal.signal(signal.SIGINT, _interrupt)


def end_at_ctrl_c() -> None:
    """Let Ctrl-C end the process at once from now on: for when everything is written."""
    signal.signal(signal.SIGINT, _end)


def _interrupt(number: int, frame: FrameType | None) -> None:
    running = frame
    while running is not None:
        if running.f_code.co_filename == IMPORTING:
            _end(number, frame)
        running = running.f_back
    raise KeyboardInterrupt


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
