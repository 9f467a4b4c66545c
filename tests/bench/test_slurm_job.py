"""What a job of Slurm does with its run, without a Slurm."""

from collections.abc import Callable, Sequence
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from augbench.bench import worker
from augbench.bench.causes import Cause
from augbench.bench.claim import JOB_VARIABLE, LAUNCHER_VARIABLE
from augbench.bench.code_state import fingerprint
from augbench.bench.environment import COMMAND_VARIABLE
from augbench.bench.plugins import PLUGINS_VARIABLE
from augbench.bench.run_folder import RunFolder, RunState
from augbench.bench.slurm_jobs import client, job
from augbench.bench.slurm_jobs.job import execute_job
from augbench.bench.spec import RunSpec
from augbench.bench.stopping import StopSignal
from augbench.bench.submissions import Submission, new_submission

Submit = Callable[..., tuple[RunFolder, Submission]]


@pytest.fixture
def submit(make_spec: Callable[..., RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submit:
    """Return a function that leaves a run and the record of its submission."""
    for variable in (JOB_VARIABLE, LAUNCHER_VARIABLE, COMMAND_VARIABLE, PLUGINS_VARIABLE):
        monkeypatch.setenv(variable, "")  # a job sets them

    def make(code: dict[str, Any]) -> tuple[RunFolder, Submission]:
        spec = make_spec()
        folder = RunFolder(tmp_path / "runs" / spec.folder_name)
        folder.write_spec(spec)
        arguments = {"plugins": "", "allow_changed_code": False, "device": "cpu", "data": str(tmp_path), "restarts": 5}
        resources = {"cpus": 1}
        submission = new_submission(
            "slurm", tmp_path, [spec.folder_name], resources=resources, arguments=arguments, code=code, command="x"
        )
        submission.write()
        return folder, submission

    return make


@pytest.mark.parametrize("state", [RunState.PLANNED, RunState.KILLED, RunState.FAILED])
def test_a_job_that_finds_other_code_says_so_but_leaves_the_record_of_a_failure(
    state: RunState, submit: Submit
) -> None:
    code = fingerprint()
    code["files"]["bench/gone.py"] = "0"
    folder, submission = submit(code=code)
    folder.write_status(state, cause=Cause.EXCEPTION, reason="as it was", traceback="line 3")
    with pytest.raises(SystemExit):
        execute_job(submission.folder, 0, StopSignal())
    status = folder.read_status()
    if state is RunState.FAILED:
        assert (status["state"], status["reason"], status["traceback"]) == (state, "as it was", "line 3")
    else:
        assert (status["state"], status["cause"]) == (RunState.NEVER_STARTED, Cause.OTHER_CODE)
        assert "bench/gone.py is gone" in status["reason"]


@pytest.mark.parametrize(
    ("signals", "word", "again"),
    [
        (["SIGUSR2"], "RUNNING", True),
        (["SIGTERM"], "RUNNING", True),  # it is to make room within a time of grace
        (["SIGTERM"], "COMPLETING", False),  # cancelled, or queued again by Slurm
        (["SIGTERM"], "PENDING", False),
        ([], "RUNNING", False),  # such as a full disk
    ],
)
def test_a_job_queues_itself_again_only_where_slurm_does_not(
    signals: list[str], word: str, again: bool, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, submission = submit(code=fingerprint())
    stop, asked = StopSignal(), list[str]()
    stop.received = signals

    def slurm(command: Sequence[str]) -> str:
        asked.append(command[0])
        return f"{word}\n"

    def stopped(*_: object) -> RunState:
        folder.write_status(RunState.KILLED)
        return RunState.KILLED

    monkeypatch.setattr(client, "slurm", slurm)
    monkeypatch.setattr(worker, "execute", stopped)
    with pytest.raises(SystemExit):
        execute_job(submission.folder, 0, stop)
    assert ("scontrol" in asked) is again


def test_a_node_without_letters_gets_messages_too(monkeypatch: pytest.MonkeyPatch) -> None:
    log = BytesIO()
    monkeypatch.setattr("sys.stdout", TextIOWrapper(log, "ascii"))
    job._say("Error: no file ‘é’ …")
    assert log.getvalue() == b"Error: no file ??? ?\n"
