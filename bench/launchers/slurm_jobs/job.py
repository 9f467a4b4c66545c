"""What a job of Slurm does: take its run from a submission's record, execute it, and queue again if it was stopped.

Nothing heavy is imported at the top, so that signals are understood from the first moment.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from augbench.bench.common.errors import UserError
from augbench.bench.training.stopping import StopCause, StopSignal

if TYPE_CHECKING:
    from augbench.bench.runs.run_folder import RunFolder, RunState
    from augbench.bench.runs.submissions import Submission

SECONDS_TO_WAIT_FOR_OWNER = 180.0  # longer than a dead owner seems alive
SECONDS_TO_WAIT_FOR_FILES = 60.0  # as long as network file systems remember that there was none
SECONDS_BETWEEN_LOOKS = 5.0
MOST_IDLE_ATTEMPTS = 3


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
        try:
            return execute_job(Path(self.folder), index, stop)
        except UserError as error:  # nothing could be recorded: it stands in what the job prints
            _say(f"Error: {error}")
            sys.exit(1)

    def checkpoint(self, index: int) -> Any:
        """Tell submitit, in the moment before signals are understood here, to queue the same again."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, index)


def execute_job(folder: Path, index: int, stop: StopSignal) -> str:
    """Execute the runs of a job of a submission, one after the other; returns the state of the last one.

    A run that was stopped, or that this machine cannot execute, is the last one: the others wait for the next time.

    Raises:
        SystemExit: With status 1 if a run failed or was stopped, so that Slurm does not call the job completed.
    """
    from augbench.bench.runs.run_folder import RunFolder, RunState
    from augbench.bench.runs.submissions import RECORD, read_submission

    _wait_for(folder / RECORD)
    submission = read_submission(folder)
    _describe_to_run(submission)
    runs = [RunFolder(submission.out / "runs" / name) for name in submission.runs_of(index)]
    if changes := _other_code(submission):
        for run in runs:
            _wait_for(run.path / "spec.json")
            _record_other_code(run, changes)
        sys.exit(1)
    states = []
    for run in runs:
        states.append(_execute_one(run, submission, stop))
        if states[-1] is RunState.KILLED:
            break
    if RunState.FAILED in states or RunState.KILLED in states:
        sys.exit(1)
    return str(states[-1])


def _execute_one(run: "RunFolder", submission: "Submission", stop: StopSignal) -> "RunState":
    """Execute a run of the job, and have the job queue again if it was stopped."""
    from augbench.bench.runs.run_folder import RunState

    _wait_for(run.path / "spec.json")
    state = _execute_when_free(run, submission, stop)
    _say(f"{run.path.name}: {state}")
    if state is RunState.KILLED and _is_to_queue_again(stop):
        _queue_again(run, submission)
    if state is RunState.FAILED and submission.arguments["fail_fast"]:
        _cancel_the_others(submission)
    return state


def _wait_for(path: Path) -> None:
    """Wait a while for a file that another machine has written: file systems may show it late."""
    deadline = time.monotonic() + SECONDS_TO_WAIT_FOR_FILES
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(SECONDS_BETWEEN_LOOKS)


def job_id() -> str:
    """Id of the present job, as Slurm's commands take it."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ.get("SLURM_JOB_ID", "")


def _describe_to_run(submission: "Submission") -> None:
    from augbench.bench.registry.plugins import PLUGINS_VARIABLE
    from augbench.bench.runs.claim import JOB_VARIABLE, LAUNCHER_VARIABLE, SUBMISSION_VARIABLE
    from augbench.bench.training.provenance import COMMAND_VARIABLE

    os.environ[LAUNCHER_VARIABLE] = submission.launcher
    os.environ[JOB_VARIABLE] = job_id()
    os.environ[SUBMISSION_VARIABLE] = submission.token
    os.environ[COMMAND_VARIABLE] = submission.command
    os.environ[PLUGINS_VARIABLE] = submission.arguments["plugins"]


def _other_code(submission: "Submission") -> list[str]:
    from augbench.bench.training.provenance import differences, fingerprint

    return [] if submission.arguments["allow_changed_code"] else differences(submission.code, fingerprint())


def _record_other_code(run: "RunFolder", changes: list[str]) -> None:
    from augbench.bench.runs.causes import Cause
    from augbench.bench.runs.run_folder import RunState

    reason = (
        f"The code is another than when the run was submitted: {'; '.join(changes)}. Go back to that code, or give the "
        "same command again to run it with this one; --allow-changed-code lets jobs that wait take whatever is there."
    )
    _say(reason)
    if run.state() not in (RunState.RUNNING, RunState.DONE, RunState.FAILED):
        run.write_status(RunState.NEVER_STARTED, cause=Cause.OTHER_CODE, reason=reason, **_own_job())


def _own_job() -> dict[str, str]:
    """What tells the present job from others, for the status of a run that it does not execute."""
    from augbench.bench.runs.claim import SUBMISSION_VARIABLE

    return {"job": job_id(), "submission": os.environ[SUBMISSION_VARIABLE]}


def _execute_when_free(run: "RunFolder", submission: "Submission", stop: StopSignal) -> "RunState":
    """Execute the run; wait a while where a process of an earlier attempt still seems to live.

    A job that is to make room in the meantime counts as killed, so that it is queued again.
    """
    from augbench.bench.runs.claim import BusyError
    from augbench.bench.runs.execution_settings import ExecutionSettings
    from augbench.bench.runs.run_folder import RunState
    from augbench.bench.training.worker import execute

    given = submission.arguments
    _tell_of_missing_cores(submission.resources["cpus"])
    placement = ExecutionSettings(given["device"], 1, submission.resources["cpus"], Path(given["data"]))
    deadline = time.monotonic() + SECONDS_TO_WAIT_FOR_OWNER
    while True:
        try:
            return execute(run, placement, stop)
        except BusyError:
            if stop.cause is not None:
                return RunState.KILLED
            if time.monotonic() > deadline:
                return RunState.RUNNING  # by another process
            time.sleep(SECONDS_BETWEEN_LOOKS)


def _tell_of_missing_cores(asked: int) -> None:
    from augbench.bench.training.provenance import usable_cores

    if (cores := usable_cores()) < asked:
        _say(f"Note: {asked} CPU cores were asked for, but this process may use {cores}.")


def _is_to_queue_again(stop: StopSignal) -> bool:
    """Whether the job has been told to stop and is not queued again unless it sees to that itself.

    Most clusters tell a job with SIGTERM to make room soon, and leave it alone if it ends before the time of grace is
    over. With SIGTERM also ends a job that was cancelled, or that Slurm has queued again itself. And a node that was
    thought dead may wake up: then Slurm has begun the job elsewhere, which must not be disturbed.
    """
    from augbench.bench.runs.slurm_client import SlurmError, slurm

    if "SIGUSR2" not in stop.received and "SIGTERM" not in stop.received:
        return False
    try:
        said = slurm(["squeue", "--noheader", "--Format=State:30,RestartCnt:30", f"--jobs={job_id()}"]).split()[-2:]
    except SlurmError as error:
        _say(f"not queued again: {error}")
        return False
    if said[1:] != [str(_restarts())]:
        _say("not queued again: Slurm has ended the job, or has begun it anew")
        return False
    return "SIGUSR2" in stop.received or said[0] == "RUNNING"


def _restarts() -> int:
    """How often the job had been queued again when the present attempt at it began."""
    return int(os.environ.get("SLURM_RESTART_COUNT", "0"))


def _queue_again(run: "RunFolder", submission: "Submission") -> None:
    """Queue the job again, unless it did nothing that could be saved several times in a row."""
    from augbench.bench.runs.slurm_client import SlurmError, slurm

    if reason := _why_no_more(run, submission):
        _record_time_out(run, reason)
        return
    try:
        slurm(["scontrol", "requeue", job_id()])
        _say("queued again")
    except SlurmError as error:
        _say(f"could not be queued again: {error}")


def _why_no_more(run: "RunFolder", submission: "Submission") -> str:
    """Say why the job is not to be queued again; empty if it is."""
    from augbench.bench.training.worker import IDLE_ATTEMPTS

    status = run.read_status()
    if status.get(IDLE_ATTEMPTS, 0) >= MOST_IDLE_ATTEMPTS:
        return (
            f"It was stopped {MOST_IDLE_ATTEMPTS} times in a row, by its time limit or for other jobs, before anything "
            f"could be saved (in phase {status.get('phase', 'preparation')}; a search is not saved half-way). Give it "
            "more time in the profile, then give the same command again."
        )
    most = submission.arguments["restarts"]
    if _restarts() >= most:
        return (
            f"It has queued again as often as [slurm] max_requeues of the profile allows ({most}); it is saved, and "
            "the same command goes on from here."
        )
    return ""


def _record_time_out(run: "RunFolder", reason: str) -> None:
    """Record that a run goes on no more by itself, unless its status is by now that of another process."""
    from augbench.bench.runs.causes import Cause
    from augbench.bench.runs.claim import last_claim
    from augbench.bench.runs.run_folder import RunState

    claim = last_claim(run.path)
    if claim is None or not claim.is_own:
        _say(f"not queued again: {reason}")
        return
    run.amend_status(RunState.TIMED_OUT, cause=Cause.TIMED_OUT, reason=reason)


def _cancel_the_others(submission: "Submission") -> None:
    from augbench.bench.runs.cancelling import cancel
    from augbench.bench.runs.run_folder import RunFolder
    from augbench.bench.runs.submissions import read_submissions

    launch = submission.arguments["launch"]
    together = [one for one in read_submissions(submission.out) if one.arguments.get("launch") == launch]
    runs = [RunFolder(one.out / "runs" / name) for one in together for name in one.runs]
    cancel(runs, submission.out)


def _say(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"  # of a node, which may lack letters that a message quotes
    sys.stdout.write(f"{text}\n".encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()
