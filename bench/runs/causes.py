"""Why runs end without a result: causes that call for different answers.

A state says what the same command does with a run, a cause why the run is in that state: a killed run may have been out
of memory, and one that was never started may have found other code. Both are written into `status.json`.
"""

from enum import StrEnum

from augbench.bench.common.errors import DivergedError


class Cause(StrEnum):
    """Why a run ended without a result."""

    EXCEPTION = "exception"
    OUT_OF_MEMORY = "out of memory"
    NOT_FINITE = "not finite"
    KILLED = "killed"
    UNFIT_MACHINE = "unfit machine"
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"
    STOPPED_EARLY = "stopped early"
    NEVER_STARTED = "never started"
    OTHER_CODE = "other code"


# What torch says where it has no class of its own for it
NO_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory")


def cause_of(error: BaseException) -> Cause:
    """Tell the cause of a run's failure from its exception."""
    if isinstance(error, DivergedError):
        return Cause.NOT_FINITE
    if isinstance(error, MemoryError) or any(text in str(error).lower() for text in NO_MEMORY):
        return Cause.OUT_OF_MEMORY
    return Cause.EXCEPTION
