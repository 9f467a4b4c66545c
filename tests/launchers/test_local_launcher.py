"""The local launcher with processes that only pretend to be workers."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from augbench.bench.launchers import local
from augbench.bench.launchers.launcher import LaunchRequest
from augbench.bench.launchers.local import Worker, WorkerDiedError, WorkerPool
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.planning.profile import Profile
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState


def worker_that(program: str) -> Worker:
    """Make a worker of a Python program."""
    return Worker([sys.executable, "-c", program], dict(os.environ), threading.Event())


CHATTY = """
import sys
print("ready", flush=True)
for number, line in enumerate(sys.stdin):
    sys.stderr.write(number * 1_000_000 * "no end. " + f"word {number}. ")
    sys.stderr.flush()
    if number == 2:
        sys.exit(3)
    print("done", flush=True)
"""


def test_of_what_a_worker_prints_only_the_end_is_kept(tmp_path: Path) -> None:
    worker = worker_that(CHATTY)
    folder = RunFolder(tmp_path)
    sizes = []
    for _ in range(2):
        assert worker.execute(folder, threads=1) == "done"
        worker.forget_old_words()
        assert worker.errors is not None
        sizes.append(os.fstat(worker.errors.fileno()).st_blocks * 512)
    assert max(sizes) < 100_000
    assert worker.earlier_words.endswith(b"no end. word 1. ")
    with pytest.raises(WorkerDiedError, match=r"status 3\. It last printed: .*no end\. word 2\.$") as died:
        worker.execute(folder, threads=1)
    assert len(died.value.words) <= 2000


def test_a_worker_whose_mapped_file_was_cut_short_says_what_to_examine(tmp_path: Path) -> None:
    worker = worker_that("import os; print('ready', flush=True); input(); os.kill(os.getpid(), 7)")
    with pytest.raises(WorkerDiedError, match=r"killed by SIGBUS\. A file .* was cut short.*`augbench data verify`"):
        worker.execute(RunFolder(tmp_path), threads=1)


BUSY = """
print("ready", flush=True)
for answer in ("busy", "busy", "done"):
    input()
    print(answer, flush=True)
"""


def test_whom_a_run_waits_for_is_said_once(
    plant: Any, settings: ExecutionSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = plant.running()
    pool = WorkerPool(LaunchRequest(plant.out, settings, Profile()))
    monkeypatch.setattr(pool, "start_worker", lambda number: worker_that(BUSY))
    monkeypatch.setattr(local, "BUSY_SECONDS", 0.0)
    pool.waiting.put(PlannedRun(folder.read_spec(), folder, RunState.RUNNING))
    pool.work(0)
    activity = pool.activity()
    assert activity.notes == (f"Waiting for node7 (process 1), which executes {folder.path.name}.",)
    assert activity.ended == (folder,)


CRASHING = """
import os, signal, sys
from pathlib import Path
from augbench.bench.runs.run_log import crashes_to
def my_hook():
    os.kill(os.getpid(), signal.SIGSEGV)
with crashes_to(Path(sys.argv[1])):
    my_hook()
"""


def test_a_crash_leaves_its_stack_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    ended = subprocess.run([sys.executable, "-c", CRASHING, str(log)], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in log.read_text()
    assert "in my_hook" in log.read_text()
