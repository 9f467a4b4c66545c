"""Runs that were submitted, and a Slurm that says what it is told to say: what several files of tests share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from augbench.bench.runs.claim import LAUNCHER_VARIABLE, claimed
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.run_states import RunStates, RunStatus
from augbench.bench.runs.slurm_client import SlurmError
from augbench.bench.runs.slurm_queue import Job, Jobs
from augbench.bench.runs.submissions import Submission, new_submission


def submission_of(out: Path, runs: Sequence[str], **fields: object) -> Submission:
    """Make the record of a submission of runs to Slurm, with other fields."""
    nothing: dict[str, Any] = {"resources": {}, "arguments": {}, "code": {}}
    made = new_submission("slurm", out, runs, **nothing, command="augbench run")
    return made.model_copy(update=fields)


class Cluster:
    """Runs that were submitted, and a Slurm that says what it is told to say.

    Attributes:
        out: Output folder.
        jobs: What Slurm knows, by number in the array; an error in place of it is what comes instead of an answer.
        said: What its commands print, by how they begin; an error in place of it is what comes instead.
        asked: How often it was asked.
    """

    def __init__(self, out: Path, folders: list[RunFolder]) -> None:
        self.out = out
        self.folders = folders
        self.jobs: dict[int, Job] | SlurmError = {}
        self.said: dict[str, str | SlurmError] = {
            "scontrol show config": "PrivateData             = none\n",
            "scontrol --oneliner show job 17": SlurmError("scontrol failed: Invalid job id specified"),
            "squeue": "",
        }
        self.asked = 0
        self.submission: Submission | None = None

    def submit(self, **changes: object) -> Submission:
        """Leave a record of a submission of all runs."""
        names = [folder.path.name for folder in self.folders]
        record = submission_of(self.out, names, **({"job": "17"} | changes))
        record.write()
        self.submission = record
        return record

    def answer(self, submissions: list[Submission]) -> Jobs:
        """Answer in place of Slurm."""
        self.asked += 1
        if isinstance(self.jobs, SlurmError):
            raise self.jobs
        assert self.submission is not None
        return {(self.submission.token, index): job for index, job in self.jobs.items()}

    def command(self, command: Sequence[str], clusters: str = "") -> str:
        """Answer a command in place of Slurm."""
        said = next(said for beginning, said in self.said.items() if " ".join(command).startswith(beginning))
        if isinstance(said, SlurmError):
            raise said
        return said

    def observed(self, index: int = 0) -> RunStatus:
        """What is known of a run."""
        return RunStates(self.out).of(self.folders[index])


def begin(folder: RunFolder, monkeypatch: pytest.MonkeyPatch, job: str = "17_0", submission: str | None = None) -> None:
    """Begin an attempt at a run, in a job, and let it end without a word; earlier versions record no submission."""
    monkeypatch.setenv(LAUNCHER_VARIABLE, "slurm")
    monkeypatch.setenv("AUGBENCH_JOB", job)
    if submission is not None:
        monkeypatch.setenv("AUGBENCH_SUBMISSION", submission)
    with claimed(folder.path):
        folder.write_status(RunState.RUNNING, attempt=1, step=5)
