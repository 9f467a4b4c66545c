"""Asking a run to stop: at its next step it saves its state and ends."""

import os
import signal
from collections.abc import Mapping
from enum import StrEnum
from types import FrameType


class StopRequested(Exception):  # noqa: N818 - not an error
    """The run was asked to stop; its state can be saved as it is."""


class StopCause(StrEnum):
    """Why a run is asked to stop."""

    REQUESTED = "requested"
    CANCELLED = "cancelled"
    SCHEDULER = "scheduler"
    LAUNCHER_GONE = "launcher gone"
    EARLY_STOPPED = "outdone"  # by other trials of a tuning
    TAKEN_OVER = "taken over"


class StopSignal:
    """Whether a run was asked to stop, and why.

    Args:
        parent: Id of the process that started this one; when it is gone, this one stops. None for no such process.

    Attributes:
        cause: Why, the first time that it was asked; None if it was not asked.
        received: Names of the signals received, in order.
    """

    def __init__(self, parent: int | None = None) -> None:
        self.parent = parent
        self.cause: StopCause | None = None
        self.received: list[str] = []
        self._meaning: dict[int, StopCause] = {}

    def install(self, meaning: Mapping[signal.Signals, StopCause]) -> None:
        """Take signals as requests; Ctrl-C is left to the launcher, which passes it on.

        Args:
            meaning: What each signal stands for.
        """
        for number, cause in meaning.items():
            self._meaning[number] = cause
            signal.signal(number, self._receive)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received.append(signal.Signals(number).name)
        self.request(self._meaning[number])

    def request(self, cause: StopCause) -> None:
        """Ask to stop; being taken over outweighs every other cause."""
        if self.cause is None or cause is StopCause.TAKEN_OVER:
            self.cause = cause

    def look(self) -> StopCause | None:
        """Return why it is to stop, if it is."""
        if self.parent is not None and os.getppid() != self.parent:
            self.request(StopCause.LAUNCHER_GONE)
        return self.cause

    def check(self) -> None:
        """Raise StopRequested if it was asked to stop."""
        if cause := self.look():
            raise StopRequested(cause)
