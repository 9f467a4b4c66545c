"""What a job of Slurm does with its run, without a Slurm."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from augbench.bench.experiment.spec import RunSpec
from augbench.bench.launchers.slurm_jobs import job_runs
from augbench.bench.launchers.slurm_jobs.job_runs import execute_job
from augbench.bench.registry.plugins import PLUGINS_VARIABLE
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.claim import JOB_VARIABLE, LAUNCHER_VARIABLE, SUBMISSION_VARIABLE, claimed
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.submissions import RECORD, NoRecordError, Submission, new_submission
from augbench.bench.training import scheduled
from augbench.bench.training.provenance import COMMAND_VARIABLE, fingerprint
from augbench.bench.training.stopping import StopSignal

Submit = Callable[..., tuple[RunFolder, Submission]]


@pytest.fixture
def submit(make_spec: Callable[..., RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submit:
    """Return a function that leaves a run and the record of its submission."""
    for variable in (JOB_VARIABLE, SUBMISSION_VARIABLE, LAUNCHER_VARIABLE, COMMAND_VARIABLE, PLUGINS_VARIABLE):
        monkeypatch.setenv(variable, "")  # a job sets them

    def make(max_requeues: int = 5, **code: Any) -> tuple[RunFolder, Submission]:
        spec = make_spec()
        folder = RunFolder(tmp_path / "runs" / spec.folder_name)
        folder.write_spec(spec)
        given = {"plugins": "", "allow_changed_code": False, "device": "cpu", "data": str(tmp_path), "fail_fast": False}
        submission = new_submission(
            "slurm",
            tmp_path,
            [spec.folder_name],
            resources={"cpus": 1},
            arguments=given | {"restarts": max_requeues},
            code=fingerprint() | code,
            command="x",
        )
        submission.write()
        return folder, submission

    return make


@pytest.mark.parametrize("state", [RunState.PLANNED, RunState.KILLED, RunState.FAILED])
def test_a_job_that_finds_other_code_says_so_but_leaves_the_record_of_a_failure(
    state: RunState, submit: Submit
) -> None:
    folder, submission = submit(files={**fingerprint()["files"], "bench/gone.py": "0"})
    folder.write_status(state, cause=Cause.EXCEPTION, reason="as it was", traceback="line 3")
    with pytest.raises(SystemExit):
        execute_job(submission.folder, 0, StopSignal())
    status = folder.read_status()
    if state is RunState.FAILED:
        assert (status["state"], status["reason"], status["traceback"]) == (state, "as it was", "line 3")
    else:
        assert (status["state"], status["cause"]) == (RunState.NEVER_STARTED, Cause.OTHER_CODE)
        assert "bench/gone.py is gone" in status["reason"]


class Stopped:
    """A job that Slurm has told to stop, and what it asks of Slurm then."""

    def __init__(self, folder: RunFolder, submission: Submission, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.submission, self.monkeypatch = folder, submission, monkeypatch
        self.asked: list[str] = []

    def execute(self, signals: list[str], said: str, *, max_requeues: int = 0, owns: bool = True) -> None:
        """Be stopped by signals in a process that Slurm had queued again so often, when Slurm says this of the job."""

        def slurm(command: Sequence[str]) -> str:
            self.asked.append(command[0])
            return f"{said}\n"

        def stopped(*_: object) -> RunState:
            if owns:
                with claimed(self.folder.path):
                    self.folder.write_status(RunState.KILLED)
            return RunState.KILLED

        stop = StopSignal()
        stop.received = signals
        self.monkeypatch.setenv("SLURM_RESTART_COUNT", str(max_requeues))
        self.monkeypatch.setattr(job_runs, "slurm", slurm)
        self.monkeypatch.setattr(scheduled, "execute", stopped)
        with pytest.raises(SystemExit):
            execute_job(self.submission.folder, 0, stop)


@pytest.mark.parametrize(
    ("states", "executed", "fails"),
    [
        (["done", "done", "done"], 3, False),
        (["done", "cancelled", "done"], 3, False),
        (["failed", "done", "done"], 3, True),
        (["done", "killed", "done"], 2, True),  # stopped, or this machine cannot execute it
    ],
)
def test_a_job_executes_its_runs_one_after_the_other(
    states: list[str], executed: int, fails: bool, submit: Submit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, submission = submit()
    names = [folder.path.name, "second", "third", "fourth"]
    for name in names[1:]:
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "spec.json").touch()
    submission = submission.model_copy(update={"runs": tuple(names), "runs_per_job": 3})
    submission.write()
    seen: list[str] = []

    def execute(run: RunFolder, *_: object) -> RunState:
        seen.append(run.path.name)
        return RunState(states[len(seen) - 1])

    monkeypatch.setattr(scheduled, "execute", execute)
    with pytest.raises(SystemExit) if fails else nullcontext():
        execute_job(submission.folder, 0, StopSignal())
    assert seen == names[:executed]
    seen.clear()
    execute_job(submission.folder, 1, StopSignal()) if states[0] == "done" else None
    assert seen == (names[3:] if states[0] == "done" else [])


@pytest.mark.parametrize(
    ("signals", "said", "again"),
    [
        (["SIGUSR2"], "RUNNING 3", True),
        (["SIGTERM"], "RUNNING 3", True),  # it is to make room within a time of grace
        (["SIGTERM"], "COMPLETING 3", False),  # cancelled, or queued again by Slurm
        (["SIGTERM"], "PENDING 3", False),
        ([], "RUNNING 3", False),  # such as a full disk
        (["SIGTERM"], "RUNNING 4", False),  # its node was thought dead, and the job has begun elsewhere
        (["SIGUSR2"], "RUNNING 4", False),
        (["SIGUSR2"], "", False),
    ],
)
def test_a_job_queues_itself_again_only_where_slurm_does_not(
    signals: list[str], said: str, again: bool, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = Stopped(*submit(), monkeypatch)
    stopped.execute(signals, said, max_requeues=3)
    assert ("scontrol" in stopped.asked) is again


@pytest.mark.parametrize("owns", [True, False])
def test_a_job_that_may_not_queue_again_says_so_in_its_own_status_only(
    owns: bool, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = Stopped(*submit(max_requeues=2), monkeypatch)
    stopped.folder.write_status(RunState.RUNNING, step=5)  # of another process
    stopped.execute(["SIGUSR2"], "RUNNING 2", max_requeues=2, owns=owns)
    assert "scontrol" not in stopped.asked
    assert stopped.folder.read_status()["state"] == (RunState.TIMED_OUT if owns else RunState.RUNNING)


@pytest.mark.parametrize("late", ["record", "run folder"])
def test_a_job_waits_for_files_that_its_node_sees_late(
    late: str, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, submission = submit()
    path = submission.folder if late == "record" else folder.path
    away = path.rename(path.with_name("away"))
    monkeypatch.setattr("time.sleep", lambda seconds: away.rename(path))
    monkeypatch.setattr(scheduled, "execute", lambda run, *_: RunState.DONE if run == folder else RunState.FAILED)
    assert execute_job(submission.folder, 0, StopSignal()) == RunState.DONE
    assert path.exists()


def test_a_job_without_a_record_says_so_and_advises_nobody_to_delete_anything(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, submission = submit()
    (submission.folder / RECORD).unlink()
    monkeypatch.setattr(job_runs, "SECONDS_TO_WAIT_FOR_FILES", 0.0)
    with pytest.raises(NoRecordError, match="does not see the record") as missing:
        execute_job(submission.folder, 0, StopSignal())
    assert "elete" not in str(missing.value)


def test_a_node_without_letters_gets_messages_too(monkeypatch: pytest.MonkeyPatch) -> None:
    log = BytesIO()
    monkeypatch.setattr("sys.stdout", TextIOWrapper(log, "ascii"))
    job_runs.say("Error: no file ‘é’ …")
    assert log.getvalue() == b"Error: no file ??? ?\n"
