"""What the worker of a scheduler does with a run, whichever scheduler has placed it."""

import time

from augbench.bench.runs.claim import STALE_SECONDS, BusyError
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.worker import execute

SECONDS_TO_WAIT_FOR_OWNER = 3 * STALE_SECONDS  # longer than a dead owner on a lost machine counts as alive
SECONDS_BETWEEN_LOOKS = 1.0


def execute_when_free(folder: RunFolder, settings: ExecutionSettings, stop: StopSignal) -> RunState:
    """Execute a run; wait a while where a process of an earlier attempt still seems to live.

    Returns:
        The state in which the run is now; running if another process executes it.

    Raises:
        StopRequested: If it was asked to stop while it waited.
    """
    deadline = time.monotonic() + SECONDS_TO_WAIT_FOR_OWNER
    while True:
        try:
            return execute(folder, settings, stop)
        except BusyError:
            stop.check()
            if time.monotonic() > deadline:
                return RunState.RUNNING
            time.sleep(SECONDS_BETWEEN_LOOKS)
