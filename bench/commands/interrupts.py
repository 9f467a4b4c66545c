"""Ctrl-C: how a process that is told to stop ends, also while it still imports libraries."""

import os
import signal
from types import FrameType

INTERRUPTED = 130  # what a shell expects of a program that Ctrl-C has ended
IMPORTING = "<frozen importlib._bootstrap>"  # the file of Python's import system, as frames name it
SECONDS_BETWEEN_LOOKS = 0.05
MOST_LOOKS = 100


def heed_ctrl_c() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on, as soon as no module is being imported."""
    signal.signal(signal.SIGINT, _Interrupt())


def end_at_ctrl_c() -> None:
    """Let Ctrl-C end the process at once from now on: for when everything is written."""
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))


class _Interrupt:
    """Waits for the import that is going on: third-party code in it could turn KeyboardInterrupt into another error.

    A second Ctrl-C, or an import that takes long, ends the process at once.
    """

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not _is_importing(frame):
            self.looks = 0
            raise KeyboardInterrupt
        if self.looks and (number == signal.SIGINT or self.looks >= MOST_LOOKS):
            os._exit(INTERRUPTED)
        self.looks += 1
        signal.signal(signal.SIGALRM, self)
        signal.setitimer(signal.ITIMER_REAL, SECONDS_BETWEEN_LOOKS)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False
