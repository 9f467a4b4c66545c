"""What a job of Slurm does: read its runs from a submission's record, execute them, and queue again if stopped.

The code is compared with that of the submission before torch and the worker are imported, which other code may break.
"""

import os
import sys
import time
from pathlib import Path

from augbench.bench.registry.plugins import PLUGINS_VARIABLE
from augbench.bench.runs.cancelling import cancel
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.claim import JOB_VARIABLE, LAUNCHER_VARIABLE, SUBMISSION_VARIABLE, last_claim
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.slurm_client import SlurmError, slurm
from augbench.bench.runs.sound_status import IDLE_ATTEMPTS
from augbench.bench.runs.submissions import RECORD, Submission, read_submission, read_submissions
from augbench.bench.training.provenance import COMMAND_VARIABLE, other_code, usable_cores
from augbench.bench.training.stopping import StopRequested, StopSignal

SECONDS_TO_WAIT_FOR_FILES = 60.0  # as long as network file systems remember that there was none
SECONDS_BETWEEN_LOOKS = 5.0
MOST_IDLE_ATTEMPTS = 3


def execute_job(folder: Path, index: int, stop: StopSignal) -> str:
    """Execute the runs of a job of a submission, one after the other; returns the state of the last one.

    A run that was stopped, or that this machine cannot execute, is the last one: the others wait for the next time.

    Raises:
        SystemExit: With status 1 if a run failed or was stopped, so that Slurm does not call the job completed.
    """
    _wait_for(folder / RECORD)
    submission = read_submission(folder)
    _describe_to_run(submission)
    runs = [RunFolder(submission.out / "runs" / name) for name in submission.runs_of(index)]
    if not submission.arguments["allow_changed_code"] and (reason := other_code(submission.code)):
        say(reason)
        for run in runs:
            _wait_for(run.path / "spec.json")
            _record_other_code(run, reason)
        sys.exit(1)
    states = []
    for run in runs:
        states.append(_execute_one(run, submission, stop))
        if states[-1] is RunState.KILLED:
            break
    if RunState.FAILED in states or RunState.KILLED in states:
        sys.exit(1)
    return str(states[-1])


def _execute_one(run: RunFolder, submission: Submission, stop: StopSignal) -> RunState:
    """Execute a run of the job, and have the job queue again if it was stopped."""
    _wait_for(run.path / "spec.json")
    state = _execute(run, submission, stop)
    say(f"{run.path.name}: {state}")
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


def _describe_to_run(submission: Submission) -> None:
    os.environ[LAUNCHER_VARIABLE] = submission.launcher
    os.environ[JOB_VARIABLE] = job_id()
    os.environ[SUBMISSION_VARIABLE] = submission.token
    os.environ[COMMAND_VARIABLE] = submission.command
    os.environ[PLUGINS_VARIABLE] = submission.arguments["plugins"]


def _record_other_code(run: RunFolder, reason: str) -> None:
    if run.state() not in (RunState.RUNNING, RunState.DONE, RunState.FAILED):
        own = {"job": job_id(), "submission": os.environ[SUBMISSION_VARIABLE]}  # tells this job from others
        run.write_status(RunState.NEVER_STARTED, cause=Cause.OTHER_CODE, reason=reason, **own)


def _execute(run: RunFolder, submission: Submission, stop: StopSignal) -> RunState:
    """Execute the run; one that is to make room while it waits counts as killed, so that it is queued again."""
    from augbench.bench.training.scheduled import execute_when_free

    given, asked = submission.arguments, submission.resources["cpus"]
    if (cores := usable_cores()) < asked:
        say(f"Note: {asked} CPU cores were asked for, but this process may use {cores}.")
    try:
        return execute_when_free(run, ExecutionSettings(given["device"], 1, asked, Path(given["data"])), stop)
    except StopRequested:
        return RunState.KILLED


def _is_to_queue_again(stop: StopSignal) -> bool:
    """Whether the job has been told to stop, and has to queue itself again.

    Most clusters send SIGTERM to make room soon, and leave a job alone if it ends within the time of grace. A job that
    was cancelled, or that Slurm has queued again, gets SIGTERM, too. And a node that was thought dead may wake up: then
    Slurm has begun the job elsewhere, which must not be disturbed.
    """
    if "SIGUSR2" not in stop.received and "SIGTERM" not in stop.received:
        return False
    try:
        said = slurm(["squeue", "--noheader", "--Format=State:30,RestartCnt:30", f"--jobs={job_id()}"]).split()[-2:]
    except SlurmError as error:
        say(f"not queued again: {error}")
        return False
    if said[1:] != [str(_restarts())]:
        say("not queued again: Slurm has ended or restarted the job")
        return False
    return "SIGUSR2" in stop.received or said[0] == "RUNNING"


def _restarts() -> int:
    """How often the job had been queued again when this attempt began."""
    return int(os.environ.get("SLURM_RESTART_COUNT", "0"))


def _queue_again(run: RunFolder, submission: Submission) -> None:
    """Queue the job again, unless it may not, or saved nothing several times in a row."""
    if reason := _why_no_more(run, submission):
        _record_time_out(run, reason)
        return
    try:
        slurm(["scontrol", "requeue", job_id()])
        say("queued again")
    except SlurmError as error:
        say(f"could not be queued again: {error}")


def _why_no_more(run: RunFolder, submission: Submission) -> str:
    """Say why the job is not to be queued again; empty if it is."""
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
            "the same command resumes it."
        )
    return ""


def _record_time_out(run: RunFolder, reason: str) -> None:
    """Record that a run does not resume by itself, unless another process owns it by now."""
    claim = last_claim(run.path)
    if claim is None or not claim.is_own:
        say(f"not queued again: {reason}")
        return
    run.amend_status(RunState.TIMED_OUT, cause=Cause.TIMED_OUT, reason=reason)


def _cancel_the_others(submission: Submission) -> None:
    launch = submission.arguments["launch"]
    together = [one for one in read_submissions(submission.out) if one.arguments.get("launch") == launch]
    runs = [RunFolder(one.out / "runs" / name) for one in together for name in one.runs]
    cancel(runs, submission.out)


def say(text: str) -> None:
    """Print a line into the log of the job, whatever letters its node can print."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(f"{text}\n".encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()
