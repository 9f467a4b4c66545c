"""The function that a job of Slurm calls.

Nothing heavy is imported at the top, so that signals are understood from the first moment.
"""

import signal
import sys
from pathlib import Path
from typing import Any

from augbench.bench.common.errors import UserError
from augbench.bench.training.stopping import StopCause, StopSignal


class RunJob:
    """The function that submitit calls in a job, with its number in the array.

    It holds nothing but the folder of a submission, so that a job that is queued again finds all it needs there.

    Args:
        folder: Folder of the submission.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, index: int) -> str:
        """Execute the runs of the job with a number; returns the state of the last one.

        Raises:
            SystemExit: With status 1 if one did not come to its end, so that Slurm does not call the job completed.
        """
        stop = StopSignal()
        stop.install({signal.SIGUSR2: StopCause.SCHEDULER, signal.SIGTERM: StopCause.SCHEDULER})
        from augbench.bench.launchers.slurm_jobs.job_runs import execute_job, say

        try:
            return execute_job(Path(self.folder), index, stop)
        except UserError as error:  # nothing could be recorded: it stands in what the job prints
            say(f"Error: {error}")
            sys.exit(1)

    def checkpoint(self, index: int) -> Any:
        """Tell submitit, in the moment before signals are understood here, to queue the same again."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, index)
