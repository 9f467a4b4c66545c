"""A small job of Slurm that gives a command when other jobs have ended, whatever became of them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from augbench.bench.registry.plugins import PLUGINS_VARIABLE
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.run_states import RunStates
from augbench.bench.runs.submissions import read_submission
from augbench.bench.training.provenance import COMMAND_VARIABLE


class FollowingJob:
    """The function that submitit calls in such a job.

    It holds nothing but the folder of a submission, as a job of runs does.

    Args:
        folder: Folder of the submission.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, index: int) -> int:
        """Give the command; returns its exit status.

        Raises:
            SystemExit: With its status, if that is not 0, so that Slurm does not call the job completed.
        """
        submission = read_submission(Path(self.folder))
        environment = os.environ | {
            PLUGINS_VARIABLE: submission.arguments["plugins"],
            COMMAND_VARIABLE: submission.command,
        }
        command = [sys.executable, "-P", "-m", "augbench.bench.commands", *submission.arguments["follows"]]
        status = subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - our own module
        if status:
            sys.exit(status)
        return status

    def checkpoint(self, index: int) -> Any:
        """Tell submitit to queue the same again."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, index)


def jobs_of(runs: Sequence[RunFolder], out: Path) -> list[str]:
    """Ids of the jobs, or arrays, in which runs of an output folder wait or go on, each once."""
    states = RunStates(out)
    known = [status for run in runs if (status := states.of(run)).state in (RunState.SUBMITTED, RunState.RUNNING)]
    jobs = [status.submission.job for status in known if status.submission is not None]
    return list(dict.fromkeys(job for job in jobs if job is not None))
