"""The state of runs from all that is known of them: their folders, and what a scheduler says of their jobs."""

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from augbench.bench.common.files import how_to_read
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.claim import last_owner
from augbench.bench.runs.recorded_stages import waiting_suites
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.slurm_client import SlurmError
from augbench.bench.runs.slurm_doubts import why_in_doubt, why_in_the_way
from augbench.bench.runs.slurm_queue import STATES, Job, Jobs, ask_slurm, waiting_followers
from augbench.bench.runs.submissions import Submission, is_submitting, read_records, read_submission

SETTLED = (RunState.DONE, RunState.RUNNING, RunState.FAILED)
OVER = (RunState.CANCELLED, RunState.TIMED_OUT, RunState.NEVER_STARTED)  # a job that records one of them ends for good
ENDING = ("RUNNING", "COMPLETING")  # what Slurm says of the job in the seconds after that
SILENT = (RunState.DONE, RunState.PLANNED)  # states of which a record has nothing to say


@dataclass(frozen=True)
class RunStatus:
    """What its folder and the scheduler say of a run.

    Attributes:
        state: Its state.
        reason: Why it has no result, in a sentence or two; empty if it has one, or nothing is known.
        cause: Its cause; None if it has a result, or nothing is known.
        job: Id of its job.
        nodes: Where the scheduler has placed it.
        submission: Record of its last submission.
    """

    state: RunState
    reason: str = ""
    cause: Cause | None = None
    job: str | None = None
    nodes: str = ""
    submission: Submission | None = None


class RunStates:
    """States of the runs of an output folder at one moment; Slurm is asked once, and only if it has to be.

    Args:
        out: Output folder.

    Attributes:
        unreadable: Submissions whose records cannot be read. While jobs of theirs may wait or go on, the runs that
            may be meant are unknown.
    """

    def __init__(self, out: Path) -> None:
        records = read_records(out)
        self._out = out
        self.unreadable = records.unreadable
        self._last = {name: (s, index) for s in records.submissions for index, name in enumerate(s.runs)}
        self._submissions = records.submissions
        self._doubts: dict[str, str] = {}  # by token of a submission, why Slurm may hide its jobs
        self._why_in_the_way = cache(why_in_the_way)

    @cached_property
    def followers(self) -> tuple[Submission, ...]:
        """Jobs in the queue that place runs when others have ended.

        If Slurm does not answer, the last one of each suite whose runs wait, which may be there.
        """
        try:
            return tuple(waiting_followers(self._submissions))
        except SlurmError:
            waiting = waiting_suites(self._out)
            last = {tuple(one.arguments["follows"]): one for one in self._submissions if one.is_follower}
            return tuple(one for words, one in last.items() if waiting & {Path(word).name for word in words})

    def of(self, folder: RunFolder, state: RunState | None = None) -> RunStatus:
        """Tell the state of a run.

        Args:
            folder: Its folder.
            state: What its folder says, if that was read already.

        Raises:
            DamagedError: If there is a result but it cannot be read.
        """
        submission, index = self._last.get(folder.path.name, (None, 0))
        try:
            state = folder.state() if state is None else state
            is_cancelled = state is RunState.CANCELLED and folder.cancel_request.exists()  # whatever its job does yet
        except PermissionError:
            return RunStatus(RunState.UNKNOWN, how_to_read(folder.path))
        is_silent = state is RunState.DONE or (state is RunState.PLANNED and submission is None)
        status = {} if is_silent else folder.read_status()
        if state in SETTLED or is_cancelled:
            return recorded(status, state, submission, index)
        unreadable = tuple(one for one in self.unreadable if one.may_follow(submission))
        if unreadable and (reason := self._why_in_the_way(unreadable)):
            return RunStatus(RunState.UNKNOWN, reason, submission=submission)
        if submission is None:
            return recorded(status, state, submission, index)
        return self._submitted(folder, state, status, submission, index)

    def _submitted(
        self, folder: RunFolder, state: RunState, status: dict[str, Any], submission: Submission, index: int
    ) -> RunStatus:
        submission, refused = _outcome(submission)
        own = recorded(status, state, submission, index)
        begun = _has_begun(own, status, folder)
        # by a launcher of another kind, whose record is newer than whatever became of the job
        elsewhere = not begun and str(status.get("time", "")) > submission.time
        if refused:
            return own if elsewhere else _never(own, refused)
        if isinstance(self._slurm, SlurmError):
            reason = f"It was submitted as {own.job or submission.job_name}; {self._slurm}"
            return RunStatus(RunState.UNKNOWN, reason, None, own.job, submission=submission)
        job = self._slurm.get((submission.token, submission.number_of(index)))
        if (job is None or not job.waits_or_runs) and (now := folder.state()) is not state:
            return self.of(folder, now)  # it has ended since its folder was read
        if job is None:
            return self._unlisted(own, submission, known=begun or elsewhere)
        over = begun and own.state in OVER and job.state in ENDING
        if over or (elsewhere and not job.waits_or_runs):
            return own
        return _with_job(own, job, submission.log_of(index), begun=begun)

    def _unlisted(self, own: RunStatus, submission: Submission, *, known: bool) -> RunStatus:
        """Tell the state of a run whose job Slurm does not list; `known`: its folder says what became of it."""
        if own.job is None:
            return RunStatus(RunState.SUBMITTED, "It is being submitted.", submission=submission)
        if known and own.state in OVER:
            return own
        if doubt := self._why_in_doubt(submission):
            reason = f"It was submitted as {own.job}; {doubt}."
            return RunStatus(RunState.UNKNOWN, reason, None, own.job, submission=submission)
        return own if known else _never(own, "Slurm no longer knows its job, which never began.")

    def _why_in_doubt(self, submission: Submission) -> str:
        if not self._doubts and not isinstance(self._slurm, SlurmError):
            self._doubts = {token: "" for token, _ in self._slurm}  # where one job is listed, none is hidden
        if submission.token not in self._doubts:
            self._doubts[submission.token] = why_in_doubt(submission)
        return self._doubts[submission.token]

    @cached_property
    def _slurm(self) -> Jobs | SlurmError:
        try:
            return ask_slurm(list({s.token: s for s, _ in self._last.values() if not s.error}.values()))
        except SlurmError as error:
            return error


def _outcome(submission: Submission) -> tuple[Submission, str]:
    """Return a record, read again if its launcher has ended since, and why it has no job; empty if it may have one."""
    if submission.job is None and not submission.error and not is_submitting(submission.out):
        submission = read_submission(submission.folder)
        if submission.job is None and not submission.error:
            return submission, "The launcher died while it submitted it."
    return submission, f"It was not submitted: {submission.error}" if submission.error else ""


def _with_job(own: RunStatus, job: Job, log: Path, *, begun: bool) -> RunStatus:
    detail = f" ({job.detail})" if job.detail not in ("", "None") else ""
    if job.waits_or_runs:
        reason = f"Slurm: {job.state.lower()}{detail}."
        if job.state == "RUNNING" and own.submission is not None and own.submission.runs_per_job > 1:
            reason = "Its job executes other runs first."
        return RunStatus(RunState.SUBMITTED, reason, None, own.job, job.nodes, own.submission)
    said = f"Slurm says {job.state} of job {own.job}{detail}"
    if job.cause is None:
        return RunStatus(RunState.UNKNOWN, f"{said}.", None, own.job, job.nodes, own.submission)
    if not begun and job.cause is not Cause.CANCELLED:
        hint = " Perhaps the compute node does not see the output folder or the virtual environment."
        return _never(own, f"{said}, and the run never began.{hint} What the job printed: {log}")
    if own.state is RunState.CANCELLED or (job.cause is Cause.KILLED and own.reason):
        return own
    state = STATES.get(job.cause, RunState.KILLED)
    return RunStatus(state, f"{said}.", job.cause, own.job, job.nodes, own.submission)


def _never(own: RunStatus, reason: str) -> RunStatus:
    return RunStatus(RunState.NEVER_STARTED, reason, Cause.NEVER_STARTED, own.job, submission=own.submission)


def recorded(
    status: dict[str, Any], state: RunState, submission: Submission | None = None, index: int = 0
) -> RunStatus:
    """Tell from a run's state and last status alone why it has no result.

    Args:
        status: Its last status; empty if there is none.
        state: Its state.
        submission: What it was submitted with last.
        index: Its place among the runs of that.
    """
    job = submission.job_of(index) if submission is not None else None
    if state in SILENT:
        return RunStatus(state, job=job, submission=submission)
    if state is RunState.CANCELLED and status.get("state") != state:  # what is recorded is of an earlier attempt
        reason = "Cancelled with `augbench cancel` before it started or resumed."
        return RunStatus(state, reason, Cause.CANCELLED, job, submission=submission)
    return RunStatus(state, _reason(state, status), _cause(state, status), job, submission=submission)


def _reason(state: RunState, status: dict[str, Any]) -> str:
    if state is RunState.KILLED and "reason" not in status:
        host = status.get("owner", {}).get("host") or "an unknown machine"
        return f"Its process on {host} ended without a message."
    if state is RunState.UNKNOWN:
        return "Its file `lock` cannot be opened, so it is not known whether a process executes it."
    return str(status.get("reason", ""))


def _cause(state: RunState, status: dict[str, Any]) -> Cause | None:
    """Tell the cause; records that are older than causes imply it by their state, which mostly has the same name."""
    implied = Cause.EXCEPTION if state is RunState.FAILED else state
    return next((Cause(cause) for cause in (status.get("cause"), implied) if cause in list(Cause)), None)


def _has_begun(own: RunStatus, status: dict[str, Any], folder: RunFolder) -> bool:
    """Whether its last job has got as far as its folder."""
    return _is_of_job(status, own) or _is_of_job(last_owner(folder.path), own)


def _is_of_job(record: dict[str, Any], own: RunStatus) -> bool:
    """Whether a record is of the last job of a run; ids of jobs come again, but records of before have nothing else."""
    if own.job is None or own.submission is None or record.get("job") != own.job:
        return False
    return record.get("submission") in (None, own.submission.token)
