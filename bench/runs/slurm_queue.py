"""What Slurm says of the jobs of submissions, in the states of runs."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from augbench.bench.runs.causes import Cause
from augbench.bench.runs.run_folder import RunState
from augbench.bench.runs.slurm_client import SlurmError, read_rows, slurm
from augbench.bench.runs.submissions import PREFIX, Submission

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
MOST_NAMES = 1000  # in one argument of a command, which may have 128 KiB
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
        SlurmError: If it does not answer, or with something else.
    """
    found: Jobs = {}
    for together in _portions(submissions):
        in_queue = _in_queue(together)
        forgotten = [s for s in together if any((s.token, number) not in in_queue for number in range(s.jobs))]
        found |= _from_accounts(forgotten) | in_queue
    return found


def _portions(submissions: Sequence[Submission]) -> Iterable[Sequence[Submission]]:
    """Put together what one command can ask for: submissions to one cluster, as many as fit into an argument."""
    clusters: dict[str, list[Submission]] = {}
    for submission in submissions:
        clusters.setdefault(submission.cluster, []).append(submission)
    for members in clusters.values():
        yield from (members[start : start + MOST_NAMES] for start in range(0, len(members), MOST_NAMES))


def _in_queue(submissions: Sequence[Submission]) -> Jobs:
    form = "--format=%i|%j|%T|%r|%N"
    command = ["squeue", "--array", "--states=all", "--noheader", form, _names(submissions)]
    return _jobs(read_rows(command, 5, submissions[0].cluster), submissions)


def _from_accounts(submissions: Sequence[Submission]) -> Jobs:
    if not submissions:
        return {}
    first = datetime.fromisoformat(min(submission.time for submission in submissions))
    since = (first - timedelta(days=1)).date()  # the accounts keep local time, records that of UTC
    form = "--format=JobID,JobName%100,State%30,ExitCode,NodeList%100"
    command = ["sacct", "--allocations", "--parsable2", "--noheader", form, _names(submissions), f"--starttime={since}"]
    try:
        jobs = _jobs(read_rows(command, 5, submissions[0].cluster), submissions)
    except SlurmError:  # many clusters keep no accounts
        return {}
    # what the queue does not know does not go on, though accounts may say so for ever of a job whose end they missed
    return {key: job for key, job in jobs.items() if not job.waits_or_runs}


def _names(submissions: Sequence[Submission]) -> str:
    return "--name=" + ",".join(submission.job_name for submission in submissions)


def _jobs(rows: Iterable[Sequence[str]], submissions: Sequence[Submission]) -> Jobs:
    """Read rows of id, name, state, detail and nodes; one that is about a single job outweighs one about several."""
    sizes = {submission.token: submission.jobs for submission in submissions}
    single: Jobs = {}
    several: Jobs = {}
    for identifier, name, state, detail, nodes in rows:
        token = name.removeprefix(PREFIX)
        if not name.startswith(PREFIX) or token not in sizes:
            continue
        numbers = _numbers(identifier, sizes[token])
        words = state.split() or [""]  # "CANCELLED by 0"
        into = single if len(numbers) == 1 else several
        into |= {(token, number): Job(words[0].rstrip("+"), detail, nodes) for number in numbers}
    return several | single


def _numbers(identifier: str, size: int) -> list[int]:
    """Read which jobs of an array are meant: `7_3`, `7_[1-3,5%2]`, or all of them by `7`."""
    _, _, index = identifier.partition("_")
    if not index:
        return list(range(size))
    numbers: list[int] = []
    for part in index.strip("[]").partition("%")[0].split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            numbers += range(int(first), int(last if last.isdigit() else first) + 1)
    return [number for number in numbers if number < size]


def cancel_jobs(jobs: Iterable[tuple[Submission, str]]) -> None:
    """Take jobs out of the queue.

    Args:
        jobs: Ids of jobs, each with its submission. Only jobs with the name of the submission are taken out: ids are
            reused, and one may be somebody else's job by now.

    Raises:
        SlurmError: If Slurm does not answer.
    """
    by_token: dict[str, tuple[Submission, list[str]]] = {}
    for submission, job in jobs:
        by_token.setdefault(submission.token, (submission, []))[1].append(job)
    for submission, ids in by_token.values():
        for start in range(0, len(ids), 500):  # what fits into a command line
            command = ["scancel", "--quiet", f"--name={submission.job_name}", *ids[start : start + 500]]
            slurm(command, submission.cluster)


def jobs_named(name: str, cluster: str = "") -> list[str]:
    """Ids of the jobs in the queue that have a name.

    Raises:
        SlurmError: If Slurm does not answer.
    """
    return [row[0] for row in read_rows(["squeue", "--noheader", "--format=%i|%T", f"--name={name}"], 2, cluster)]


def cancel_named(submission: Submission) -> None:
    """Take all jobs of a submission out of the queue, and wait until none of them goes on.

    Raises:
        SlurmError: If Slurm does not answer, or a job does not end.
    """
    name, cluster = submission.job_name, submission.cluster
    slurm(["scancel", "--quiet", f"--name={name}"], cluster)
    deadline = time.monotonic() + SECONDS_TO_END
    while left := jobs_named(name, cluster):
        if time.monotonic() > deadline:
            raise SlurmError(
                f"The job {left[0]} ({name}) was cancelled but has not ended within {SECONDS_TO_END} s; its node "
                "may be down (`sinfo -R` shows). Give the same command again when it has ended."
            )
        time.sleep(SECONDS_BETWEEN_LOOKS)


def waiting_followers(submissions: Iterable[Submission]) -> list[Submission]:
    """Find the jobs in the queue that give a command when others have ended; see `Submission.arguments`.

    Raises:
        SlurmError: If Slurm does not answer.
    """
    return [one for one in submissions if one.is_follower and jobs_named(one.job_name, one.cluster)]
