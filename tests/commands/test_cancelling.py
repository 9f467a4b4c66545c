"""`augbench cancel`: what waits never begins, what goes on saves and stops; once with a real launch."""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from augbench.bench.common.files import make_folder, write_json
from augbench.bench.runs import cancelling, run_states, slurm_client, slurm_queue
from augbench.bench.runs.cancelling import wait_until_stopped
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.claim import claimed, this_machine
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.slurm_client import SlurmError
from augbench.bench.runs.slurm_queue import Job

CommandLine = Callable[..., tuple[int, str, str]]
Wait = Callable[..., RunFolder]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the jobs that Slurm is asked to cancel, in place of asking it."""
    jobs: list[str] = []
    monkeypatch.setattr(cancelling, "cancel_jobs", lambda found: jobs.extend(job for _, job in found))
    return jobs


def test_all_that_waits_or_goes_on_is_cancelled_and_counted(
    plant: Any,
    augbench: CommandLine,
    taken: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tidy: Callable[[str], str],
    snapshot: object,
) -> None:
    going, missing, first, second = (plant.running(), plant.planned(), plant.planned(), plant.planned())
    done, failed = plant.done(), plant.ended(RunState.FAILED)
    submission = plant.submitted(first, second)
    known = {(submission.token, 0): Job("PENDING"), (submission.token, 1): Job("CANCELLED", "0", "node2")}
    monkeypatch.setattr(run_states, "ask_slurm", lambda _: known)
    code, text, _ = augbench("cancel", "--all", "--yes", "--out", plant.out)
    assert code == 0
    assert taken == ["31_0"]
    assert tidy(text) == snapshot
    assert all(folder.cancel_request.exists() for folder in (going, missing, first))
    assert not any(folder.cancel_request.exists() for folder in (second, done, failed))
    assert missing.state() is RunState.CANCELLED
    assert "Nothing to cancel: 1 run: 1 done." in augbench("cancel", done.path.name, "--out", plant.out)[1]


def test_runs_here_are_cancelled_also_where_slurm_does_not_say_what_would_follow(
    plant: Any, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_answer(command: object, cluster: str = "") -> str:
        raise SlurmError("There is no command `squeue` here.")

    monkeypatch.setattr(slurm_queue, "slurm", no_answer)
    monkeypatch.setattr(slurm_client, "slurm", no_answer)
    going = plant.running()
    plant.submitted(job="77", arguments={"follows": ["run", "/elsewhere/tuning/small.toml"], "after": ["5"]})
    record = {"suite": "small", "searches": [], "final": [], "waiting": 6}
    write_json(make_folder(plant.out / "tuning") / "small.json", record)
    code, text, errors = augbench("cancel", "--all", "--yes", "--out", plant.out)
    assert (code, going.cancel_request.exists()) == (2, True)
    assert "1 run will save and stop" in text
    assert "There is no command `squeue` here." in errors


def test_a_job_of_several_runs_is_taken_out_only_if_all_of_them_are(
    plant: Any, augbench: CommandLine, taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [plant.planned() for _ in range(4)]
    submission = plant.submitted(*runs, runs_per_job=2)
    known = {(submission.token, number): Job("PENDING") for number in (0, 1)}
    monkeypatch.setattr(run_states, "ask_slurm", lambda _: known)
    names = [run.path.name for run in runs[:3]]
    assert augbench("cancel", *names, "--out", plant.out)[0] == 0
    assert taken == ["31_0"]
    assert [run.cancel_request.exists() for run in runs] == [True, True, True, False]


def test_who_places_runs_waits_until_those_that_were_cancelled_have_stopped(
    make_spec: Any, make_folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, going = make_folder(make_spec(seed=0)), make_folder(make_spec(seed=1))
    told: list[int] = []
    with ExitStack() as owned, ExitStack() as others:
        for folder, owner in ((stopping, owned), (going, others)):
            owner.enter_context(claimed(folder.path))
            folder.write_status(RunState.RUNNING)

        def stop(seconds: float) -> None:
            stopping.write_status(RunState.CANCELLED)
            owned.close()

        monkeypatch.setattr("time.sleep", stop)
        assert not wait_until_stopped([stopping, going], told.append)
        stopping.request_cancel()
        assert wait_until_stopped([stopping, going], told.append)
        assert (told, stopping.state(), going.state()) == ([1], RunState.CANCELLED, RunState.RUNNING)

        going.request_cancel()  # and does not stop
        monkeypatch.setattr(cancelling, "SECONDS_TO_STOP", 0.0)
        assert wait_until_stopped([going], told.append)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["Name the runs, or give --all", "1 run: 1 running"]),
        (["--all"], ["1 run: 1 running. There is no terminal to ask on", "--yes"]),
        (["nosuch"], ["no run 'nosuch'"]),
    ],
)
def test_nothing_is_cancelled_by_mistake(
    arguments: list[str], words: list[str], plant: Any, augbench: CommandLine, taken: list[str]
) -> None:
    going = plant.running()
    code, _, errors = augbench("cancel", *arguments, "--out", plant.out)
    assert code == 2
    assert not [word for word in words if word not in errors], errors
    assert not going.cancel_request.exists()


OWNER = """
import signal, subprocess, sys, time
from pathlib import Path
from augbench.bench.runs.claim import claimed
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with claimed(Path(sys.argv[1])):
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    print(helper.pid, flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def owner(plant: Any) -> Iterator[tuple[RunFolder, "subprocess.Popen[str]"]]:
    """Have a process execute a run that never looks whether it is to stop."""
    folder = plant.ended(RunState.RUNNING)
    command = [sys.executable, "-c", OWNER, str(folder.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        yield folder, process
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def test_a_run_that_does_not_stop_is_ended_by_force_with_all_that_it_has_started(
    owner: tuple[RunFolder, "subprocess.Popen[str]"], plant: Any, augbench: CommandLine, taken: list[str]
) -> None:
    folder, process = owner
    helper = os.pidfd_open(int(process.stdout.readline()))  # type: ignore[union-attr]
    assert f"process {process.pid}: " in augbench("status", "--out", plant.out)[1]
    code, text, _ = augbench("cancel", "--force", folder.path.name, "--out", plant.out)
    assert code == 0
    assert "1 run ended at once; what was saved before is kept." in text
    assert process.wait() == -signal.SIGKILL
    ended, _, _ = select.select([helper], [], [], 60)
    assert ended, "what it has started goes on"
    os.close(helper)
    assert folder.state() is RunState.CANCELLED
    assert "cancel --force" in folder.read_status()["reason"]
    folder.record_death(Cause.KILLED, "The machine may have run out of memory.")  # as its launcher does
    assert "cancel --force" in folder.read_status()["reason"]


def test_a_process_that_only_has_the_number_of_the_owner_is_not_ended(
    plant: Any, augbench: CommandLine, taken: list[str]
) -> None:
    folder = plant.killed()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]) as stranger:
        try:
            claim = folder.path / "claim-1.json"
            claim.write_text(json.dumps({"owner": {"machine": this_machine(), "host": "here", "pid": stranger.pid}}))
            with (folder.path / "lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # somebody executes it, who is not the stranger
                code, _, errors = augbench("cancel", "--force", "--all", "--yes", "--out", plant.out)
            assert code == 2
            assert f"{folder.path.name}: process {stranger.pid} on here" in errors
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_force_ends_the_job_of_a_run_elsewhere_or_says_where_it_runs(
    plant: Any, augbench: CommandLine, taken: list[str]
) -> None:
    going, other = plant.running(), plant.running()
    code, _, errors = augbench("cancel", "--force", going.path.name, "--out", plant.out)
    assert code == 2
    assert f"{going.path.name}: process 1 on node7. Give `augbench cancel --force {going.path.name}" in errors
    assert going.cancel_request.exists()
    assert not other.cancel_request.exists()
    plant.submitted(*[plant.planned() for _ in range(4)], going)
    assert augbench("cancel", "--force", going.path.name, "--out", plant.out)[0] == 0
    assert taken == ["31_4"]


@pytest.fixture
def launched(write_suite: Callable[..., Path], tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start three long runs, one at a time, in a process of its own, in the folder `out`."""
    suite = write_suite(seeds=(0, 1, 2), budget="epochs = 400, batch_size = 64")
    words = ["run", str(suite), "--out", str(tmp_path / "out"), "--workers", "1", "--device", "cpu"]
    command = [sys.executable, "-m", "augbench.bench.commands", *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield process
        process.kill()


@pytest.mark.slow
def test_a_second_terminal_stops_a_launch_and_the_same_command_goes_on(
    launched: "subprocess.Popen[str]", wait_for_checkpoint: Wait, augbench: CommandLine, tmp_path: Path
) -> None:
    going = wait_for_checkpoint(launched, tmp_path / "out", "none")
    code, text, _ = augbench("cancel", "--all", "--yes", "--out", tmp_path / "out")
    assert code == 0
    assert "1 run will save and stop" in text
    assert "2 runs not executed at the moment will not start." in text
    _, errors = launched.communicate(timeout=PATIENCE)
    assert launched.returncode == 2
    assert "Traceback" not in errors
    runs = [RunFolder(path) for path in (tmp_path / "out" / "runs").iterdir() if path.is_dir()]
    assert [run.state() for run in runs] == [RunState.CANCELLED] * 3
    assert "Cancelled with `augbench cancel`; it is saved" in going.read_status()["reason"]
    assert going.read_status()["step"] > 0
    assert "3 cancelled" in augbench("status", "--out", tmp_path / "out")[1]


def test_a_damaged_result_holds_up_the_cancelling_of_no_other(plant: Any, taken: list[str]) -> None:
    damaged, going = plant.running(), plant.running()
    (damaged.path / "result.json").write_text("{")
    assert cancelling.cancel([damaged, going], plant.out) == [going]
    assert going.cancel_request.exists()
