"""Ctrl-C: how a process that is told to stop ends, also while it still imports libraries."""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130  # what a shell expects of a program that Ctrl-C has ended
IMPORTING = "<frozen importlib._bootstrap>"  # the file of Python's import system, as frames name it


def heed_ctrl_c() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on, as soon as no module is being imported."""
    signal.signal(signal.SIGINT, _Interrupt())


def end_at_ctrl_c() -> None:
    """Let Ctrl-C end the process at once from now on: for when everything is written."""
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))


class _Interrupt:
    """Waits for the import that is going on: third-party code in it could turn KeyboardInterrupt into another error.

    A second Ctrl-C ends the process at once.
    """

    def __init__(self) -> None:
        self.is_waiting = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not _is_importing(frame):
            raise KeyboardInterrupt
        if self.is_waiting:
            os._exit(INTERRUPTED)
        self.is_waiting = True
        sys.setprofile(self._after_import)

    def _after_import(self, frame: FrameType, event: str, argument: object) -> None:
        """Raise KeyboardInterrupt in the place of whoever imports, when the outermost import returns."""
        if event == "return" and frame.f_code.co_filename == IMPORTING and not _is_importing(frame.f_back):
            sys.setprofile(None)
            self.is_waiting = False
            raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False
