"""Whether Slurm has forgotten a job that it does not list: it may hide jobs of others, or answer with nothing."""

import getpass
from collections.abc import Sequence

from augbench.bench.runs.slurm_client import SlurmError, configured, slurm
from augbench.bench.runs.slurm_queue import jobs_named
from augbench.bench.runs.submissions import Submission, Unreadable

UNKNOWN_JOB = "Invalid job id"  # how Slurm's controller says that it knows no job with an id


def why_in_doubt(submission: Submission) -> str:
    """Say why jobs of a submission may still wait or go on, of which neither the queue nor the accounts list any.

    Args:
        submission: The submission, whose jobs have an id.

    Returns:
        A sentence or two without the last full stop, with a way on; empty if Slurm has forgotten them.
    """
    user, job = submission.user, submission.job
    try:
        if _hides_jobs_of(user, submission.cluster):
            return f"this cluster shows its jobs to {user} only (PrivateData), so ask {user} for `augbench status`"
        said = slurm(["scontrol", "--oneliner", "show", "job", str(job)], submission.cluster)
    except SlurmError as error:
        return "" if UNKNOWN_JOB in str(error) else str(error).rstrip(".")
    if f"JobName={submission.job_name} " not in said:  # ids come again
        return ""
    return (
        f"`squeue` does not list that job, but `scontrol show job {job}` does. One of them is wrong; try the "
        "same command again later, or ask those who run the cluster"
    )


def why_in_the_way(submissions: Sequence[Unreadable]) -> str:
    """Say why jobs of submissions, whose records cannot be read, may still wait or go on.

    Returns:
        A few sentences; empty if there are none.
    """
    for one in submissions:
        try:
            if one.token is None or jobs_named(one.job_name) or _hides_jobs_of(one.user):
                return f"It may have been submitted all the same. {one.reason}"
        except SlurmError as error:
            return f"It may have been submitted all the same. {one.reason} {error}"
    return ""


def _hides_jobs_of(user: str, cluster: str = "") -> bool:
    """Whether the queue may leave out jobs of a user."""
    if user == getpass.getuser():
        return False
    return "jobs" in configured("PrivateData", cluster).split(",")
