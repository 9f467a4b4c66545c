"""What Slurm says of the jobs of submissions, in the states of runs."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from augbench.bench.causes import Cause
from augbench.bench.run_folder import RunState
from augbench.bench.slurm_jobs.client import SlurmError, slurm
from augbench.bench.submissions import PREFIX, Submission

# Every base state of a job in Slurm's manual (squeue(1), sacct(1)), with what it means for a run without a result.
WAITING = (
    "PENDING", "CONFIGURING", "EXPEDITING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD",
    "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT", "POWER_UP_NODE", "RUNNING", "COMPLETING",
)  # fmt: skip
ENDED = {
    "COMPLETED": Cause.KILLED,
    "FAILED": Cause.KILLED,
    "CANCELLED": Cause.CANCELLED,
    "TIMEOUT": Cause.TIMED_OUT,
    "DEADLINE": Cause.TIMED_OUT,
    "OUT_OF_MEMORY": Cause.OUT_OF_MEMORY,
    "NODE_FAIL": Cause.KILLED,
    "BOOT_FAIL": Cause.NEVER_STARTED,
    "LAUNCH_FAILED": Cause.NEVER_STARTED,
    "RECONFIG_FAIL": Cause.NEVER_STARTED,
    "PREEMPTED": Cause.KILLED,
    "REVOKED": Cause.KILLED,
}
SECONDS_TO_END = 180  # of a cancelled job: until it has saved and its node is free again
SECONDS_BETWEEN_LOOKS = 0.5
STATES = {Cause.CANCELLED: RunState.CANCELLED, Cause.TIMED_OUT: RunState.TIMED_OUT}


@dataclass(frozen=True)
class Job:
    """A job as Slurm knows it.

    Attributes:
        state: Slurm's word, such as `PENDING`.
        detail: Why it waits, or its exit code.
        nodes: Where it is or was; empty before it starts.
    """

    state: str
    detail: str = ""
    nodes: str = ""

    @property
    def waits_or_runs(self) -> bool:
        """Whether it is still in the queue."""
        return self.state in WAITING

    @property
    def cause(self) -> Cause | None:
        """Why its run has no result; None if it is in the queue or its state is not known."""
        return ENDED.get(self.state)


Jobs = dict[tuple[str, int], Job]
"""Jobs by the token of their submission and their number in it."""


def ask_slurm(submissions: Sequence[Submission]) -> Jobs:
    """Ask Slurm for the jobs of submissions: the queue, then the accounts for what the queue has forgotten.

    Raises:
        SlurmError: If it does not answer.
    """
    if not submissions:
        return {}
    names = ",".join(submission.job_name for submission in submissions)
    form = "--format=%i|%j|%T|%r|%N"
    text = slurm(["squeue", "--array", "--states=all", "--noheader", form, f"--name={names}"])
    found = dict(_parsed(text.splitlines()))
    forgotten = [s for s in submissions if any((s.token, index) not in found for index in range(len(s.runs)))]
    return _from_accounts(forgotten) | found


def _from_accounts(submissions: Sequence[Submission]) -> Jobs:
    if not submissions:
        return {}
    names = ",".join(submission.job_name for submission in submissions)
    first = datetime.fromisoformat(min(submission.time for submission in submissions))
    since = (first - timedelta(days=1)).date()  # the accounts keep local time, records that of UTC
    form = "--format=JobID,JobName%100,State%30,ExitCode,NodeList%100"
    command = ["sacct", "--allocations", "--parsable2", "--noheader", form]
    try:
        jobs = _parsed(slurm([*command, f"--name={names}", f"--starttime={since}"]).splitlines())
    except SlurmError:  # many clusters keep no accounts
        return {}
    # what the queue does not know does not go on, though accounts may say so for ever of a job whose end they missed
    return {key: job for key, job in jobs if not job.waits_or_runs}


def _parsed(lines: Iterable[str]) -> Iterable[tuple[tuple[str, int], Job]]:
    for line in lines:
        identifier, name, state, detail, nodes = line.split("|")
        _, _, index = identifier.partition("_")
        if name.startswith(PREFIX) and (not index or index.isdigit()):
            words = state.split() or [""]  # "CANCELLED by 0"
            yield (name.removeprefix(PREFIX), int(index or 0)), Job(words[0].rstrip("+"), detail, nodes)


def cancel_jobs(jobs: Sequence[str]) -> None:
    """Take jobs out of the queue, wherever they are.

    Raises:
        SlurmError: If Slurm does not answer.
    """
    for start in range(0, len(jobs), 500):  # what fits into a command line
        slurm(["scancel", "--quiet", *jobs[start : start + 500]])


def cancel_named(name: str) -> None:
    """Take all jobs with a name out of the queue, and wait until none of them goes on.

    Raises:
        SlurmError: If Slurm does not answer, or a job does not end.
    """
    slurm(["scancel", "--quiet", f"--name={name}"])
    deadline = time.monotonic() + SECONDS_TO_END
    while left := slurm(["squeue", "--noheader", "--format=%i", f"--name={name}"]).split():
        if time.monotonic() > deadline:
            raise SlurmError(
                f"The job {left[0]} ({name}) was cancelled but has not ended within {SECONDS_TO_END} s; its node may "
                "be down (`sinfo -R` shows). Give the same command again when it has."
            )
        time.sleep(SECONDS_BETWEEN_LOOKS)
