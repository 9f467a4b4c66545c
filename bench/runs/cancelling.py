"""Cancelling runs: a waiting run never begins, a running one saves and stops; the same command resumes both."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from augbench.bench.runs.causes import Cause
from augbench.bench.runs.claim import last_owner, owner_here
from augbench.bench.runs.run_folder import DamagedError, RunFolder, RunState
from augbench.bench.runs.run_states import RunStates, RunStatus
from augbench.bench.runs.slurm_queue import cancel_jobs
from augbench.bench.runs.submissions import Submission

AT_WORK = (RunState.SUBMITTED, RunState.RUNNING, RunState.UNKNOWN)
SECONDS_TO_STOP = 60.0  # of runs that were cancelled, which is more than a heartbeat and most steps
SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_DIE = 10.0  # of a process that was killed
ENDED = "Ended at once with `augbench cancel --force`; the same command resumes from what was saved."
OVER = (RunState.DONE, RunState.FAILED, RunState.CANCELLED)


def can_be_cancelled(state: RunState, *, at_work: bool) -> bool:
    """Tell whether a run may be waiting or running.

    Args:
        state: Its state.
        at_work: Whether any run of its output folder is at work. Then a launcher may have this run in its own queue,
            whatever its state says.
    """
    return state in AT_WORK or state is RunState.PLANNED or (at_work and state not in OVER)


def cancel(folders: Sequence[RunFolder], out: Path) -> list[RunFolder]:
    """Cancel runs of an output folder that wait in a queue or are running, and return them.

    A running one sees the request within seconds, saves and stops. Jobs of Slurm that have not begun leave the queue;
    those that have begun stay, so that they can save.

    Raises:
        UserError: If a folder cannot be written to, or Slurm does not answer.
    """
    states, found = RunStates(out), list[tuple[RunFolder, RunStatus]]()
    for folder in folders:
        with suppress(DamagedError):  # nobody executes such a run, and it holds up no other
            found.append((folder, states.of(folder)))
    cancelled = [(folder, status) for folder, status in found if status.state not in OVER]
    for folder, _ in cancelled:  # only now, when every state is known
        folder.request_cancel()
    cancel_jobs(_whole_jobs([status for _, status in cancelled if status.state is RunState.SUBMITTED]))
    return [folder for folder, _ in cancelled]


def cancel_followers(out: Path) -> int:
    """Take jobs out of the queue that would place further runs of an output folder; returns how many there were.

    Raises:
        SlurmError: If Slurm does not answer.
    """
    followers = RunStates(out).followers
    cancel_jobs((one, one.job) for one in followers if one.job is not None)
    return len(followers)


def _whole_jobs(waiting: Sequence[RunStatus]) -> Iterator[tuple[Submission, str]]:
    """Find the jobs all of whose runs are cancelled; other jobs see the request when they come to such a run."""
    jobs = [(one.submission, one.job) for one in waiting if one.submission is not None and one.job is not None]
    runs = Counter((submission.token, job) for submission, job in jobs)
    for submission, job in {(submission.token, job): (submission, job) for submission, job in jobs}.values():
        _, _, number = job.partition("_")
        if runs[submission.token, job] == len(submission.runs_of(int(number or 0))):
            yield submission, job


def end_at_once(folder: RunFolder, known: RunStatus) -> str:
    """End the process that executes a cancelled run without waiting for it to save; earlier saves are kept.

    Returns:
        Empty if the process was ended, or Slurm was told to end it; else where the process is, as far as is known.

    Raises:
        SlurmError: If Slurm does not answer.
    """
    owner = last_owner(folder.path)
    if known.submission is not None and known.job is not None and owner.get("job") == known.job:
        cancel_jobs([(known.submission, known.job)])
        return ""
    place = f"process {owner.get('pid', 'unknown')} on {owner.get('host', 'an unknown machine')}"
    try:
        if (pid := owner_here(folder.path)) is None:
            return place if folder.state() is RunState.RUNNING else ""
        _kill(pid)
    except PermissionError:
        return f"{place}, which belongs to another user"
    except ProcessLookupError:  # it has just ended by itself
        return ""
    if not _stop_within(SECONDS_TO_DIE, [folder]):
        return f"{place}, which was killed and has not ended yet"
    if folder.state() is RunState.CANCELLED:
        folder.amend_status(RunState.CANCELLED, cause=Cause.CANCELLED, reason=ENDED)
    return ""


def _kill(pid: int) -> None:
    """Kill a process; where it leads a group, as workers do, also whatever it has started."""
    if os.getpgid(pid) == pid:
        os.killpg(pid, signal.SIGKILL)
    else:
        os.kill(pid, signal.SIGKILL)


def wait_until_stopped(folders: Iterable[RunFolder], on_wait: Callable[[int], None]) -> bool:
    """Wait a while for cancelled runs that still go on; returns whether there were any.

    Args:
        folders: Runs that are executed.
        on_wait: Called once before waiting, with the number of runs to wait for.
    """
    stopping = [folder for folder in folders if folder.cancel_request.exists()]
    if not stopping:
        return False
    on_wait(len(stopping))
    _stop_within(SECONDS_TO_STOP, stopping)
    return True


def _stop_within(seconds: float, folders: Sequence[RunFolder]) -> bool:
    """Wait until none of the runs is executed any more; returns whether that came true in time."""
    deadline = time.monotonic() + seconds
    while (go_on := any(folder.state() is RunState.RUNNING for folder in folders)) and time.monotonic() < deadline:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return not go_on
