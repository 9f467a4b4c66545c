"""The command line with real worker processes: kills, Ctrl-C, divergence, and going on afterwards."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from augbench.bench.registry.plugins import PLUGINS_VARIABLE
from augbench.bench.runs.output_folder import run_folders
from augbench.bench.runs.run_folder import RunFolder, RunState

pytestmark = pytest.mark.slow

CommandLine = Callable[..., tuple[int, str, str]]
Wait = Callable[..., RunFolder]

HELD, GATE = "AUGBENCH_TEST_HELD", "gate"
PLUGIN = """
import os
import threading
import time

from augbench.bench.registry.registry import register
from augbench.methods.scale import Scale


@register("held")
class Held(Scale):
    '''`scale`; after the first epoch each step takes a second until a file is there that a variable names.'''

    title = "scale, held"

    def start_epoch(self, epoch):
        super().start_epoch(epoch)
        self.later = epoch > 0

    def loss(self, logits, labels):
        if self.later and not os.path.exists(os.environ.get("AUGBENCH_TEST_HELD", "/")):
            time.sleep(1)
        return super().loss(logits, labels)


@register("asleep")
class Asleep(Scale):
    title = "scale, never getting on"

    def loss(self, logits, labels):
        open(os.environ["AUGBENCH_TEST_HELD"], "w").close()
        time.sleep(100_000)


@register("threaded")
class Threaded(Scale):
    title = "scale, with a thread that does not end"

    def loss(self, logits, labels):
        print("\\n" + "busy" * 1000)
        if not [one for one in threading.enumerate() if one.name == "left behind"]:
            threading.Thread(target=time.sleep, args=(100_000,), name="left behind").start()
        return super().loss(logits, labels)


@register("leaving")
class Leaving(Scale):
    title = "scale, ending its process"

    def loss(self, logits, labels):
        os._exit(0)
"""
SUITE = """
name = "small"
title = "Small"
seeds = [0]
[[comparisons]]
datasets = [{ name = "mnist5k", options = { size = 14 } }]
methods = [{ name = "held", hyperparameters = { copies = 2 } }, { name = "none" }]
network = "tiny"
budget = { epochs = 2, batch_size = 64 }
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Write a suite of two runs of a few seconds."""
    path = tmp_path / "small.toml"
    path.write_text(SUITE)
    return path


@pytest.fixture(scope="module", autouse=True)
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Register the method of the suite."""
    path = tmp_path_factory.mktemp("plugin") / "held.py"
    path.write_text(PLUGIN)
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv(PLUGINS_VARIABLE, str(path))
        yield


@pytest.fixture(scope="module")
def uninterrupted(plugin: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the suite once without any disturbance, in a folder whose name has a line break and a letter of its own."""
    folder = tmp_path_factory.mktemp("uninterrupted") / "a\nb é"
    folder.mkdir()
    (folder / "small.toml").write_text(SUITE)
    command = [sys.executable, "-m", "augbench.bench.commands", "run", "small.toml", "--out", "."]
    without_letters = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run(command, check=True, cwd=folder, env=os.environ | without_letters)
    return folder


@pytest.fixture
def started(suite: Path, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start the suite in a process of its own, in the folder `out`; its first run is held until `gate` is there."""
    command = [sys.executable, "-m", "augbench.bench.commands", "run", str(suite), "--out", str(tmp_path / "out")]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=os.environ | {HELD: str(tmp_path / GATE)}, **pipes) as process:
        yield process
        process.kill()


def test_the_same_command_again_computes_nothing_and_says_so(
    suite: Path, augbench: CommandLine, tmp_path: Path
) -> None:
    code, text, _ = augbench("run", suite, "--out", tmp_path / "out")
    assert code == 0
    assert "2 of 2 runs to do" in text
    assert "2 runs: 2 done." in text
    for folder in run_folders(tmp_path / "out"):
        (attempt,) = json.loads((folder.path / "environment.json").read_text())["attempts"]
        assert attempt["command"].startswith(f"augbench run {suite}")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    code, text, _ = augbench("run", suite, "--out", tmp_path / "out")
    assert code == 0
    assert "Nothing to compute" in text
    assert "2 runs: 2 done." in text
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_launch_goes_on_where_it_was(
    number: signal.Signals,
    started: "subprocess.Popen[str]",
    wait_for_checkpoint: Wait,
    suite: Path,
    augbench: CommandLine,
    tmp_path: Path,
    uninterrupted: Path,
    outcome: Callable[[RunFolder], dict[str, Any]],
) -> None:
    folder = wait_for_checkpoint(started, tmp_path / "out", "held")
    started.send_signal(number)
    text, errors = started.communicate(timeout=PATIENCE)
    assert "Traceback" not in errors
    if number is not signal.SIGKILL:
        assert started.returncode == 130
        assert "The same command resumes." in text
        assert folder.read_status()["state"] == RunState.CANCELLED

    assert augbench("run", suite, "--out", tmp_path / "out", "--workers", "1")[0] == 0
    assert "goes on from step" in folder.log.read_text()
    ended = {run.path.name: outcome(run) for run in run_folders(tmp_path / "out")}
    assert ended == {run.path.name: outcome(run) for run in run_folders(uninterrupted)}
    assert len(ended) == 2


def test_a_killed_worker_is_recorded_and_the_other_runs_go_on(
    started: "subprocess.Popen[str]", wait_for_checkpoint: Wait, suite: Path, augbench: CommandLine, tmp_path: Path
) -> None:
    folder = wait_for_checkpoint(started, tmp_path / "out", "held")
    os.kill(folder.read_status()["owner"]["pid"], signal.SIGKILL)
    _, errors = started.communicate(timeout=PATIENCE)
    assert started.returncode == 2
    assert "Traceback" not in errors
    assert "killed by SIGKILL" in errors
    assert "The same command resumes" in errors
    assert {run.state() for run in run_folders(tmp_path / "out")} == {RunState.KILLED, RunState.DONE}
    code, text, _ = augbench("run", suite, "--out", tmp_path / "out", "--workers", "1")
    assert code == 0
    assert "1 of 2 runs to do" in text
    assert {run.state() for run in run_folders(tmp_path / "out")} == {RunState.DONE}


def test_a_diverged_run_is_recorded_and_the_others_go_on(augbench: CommandLine, tmp_path: Path) -> None:
    suite = tmp_path / "diverging.toml"
    # each step multiplies every weight by −99, batch normalisation or not
    wild = 'optimizer = "sgd", learning_rate = 100.0, schedule = "constant", weight_decay = 1.0, epochs = 2'
    comparisons = SUITE[SUITE.index("[[comparisons]]") :].replace("epochs = 2", wild)
    suite.write_text(SUITE.replace("epochs = 2", "epochs = 1") + comparisons)
    code, text, errors = augbench("run", suite, "--out", tmp_path / "out")
    assert code == 2
    assert "2 done, 2 failed" in text
    assert "Traceback" not in errors
    assert "diverged in epoch 1 of 2" in errors
    assert "--retry-failed" in errors
    code, text, errors = augbench("run", suite, "--out", tmp_path / "out")
    assert code == 2
    assert "Nothing to compute" in text
    assert "diverged in epoch 1 of 2" in errors


def test_two_launches_at_once_run_nothing_twice(
    started: "subprocess.Popen[str]", wait_for_checkpoint: Wait, suite: Path, augbench: CommandLine, tmp_path: Path
) -> None:
    wait_for_checkpoint(started, tmp_path / "out", "held")
    (tmp_path / GATE).touch()
    assert augbench("run", suite, "--out", tmp_path / "out", "--workers", "1")[0] == 0
    started.communicate(timeout=PATIENCE)
    assert started.returncode == 0
    for folder in run_folders(tmp_path / "out"):
        assert json.loads((folder.path / "result.json").read_text())["attempts"] == 1


def with_method(name: str, suite: Path, tmp_path: Path) -> list[str]:
    """Write the suite with another method in place of the one that is held; returns the words of its command."""
    method = '{ name = "held", hyperparameters = { copies = 2 } }'
    assert method in SUITE
    suite.write_text(SUITE.replace(method, f'{{ name = "{name}" }}').replace("epochs = 2", "epochs = 1"))
    return ["run", str(suite), "--out", str(tmp_path / "out"), "--workers", "1"]


def test_ctrl_c_says_what_it_waits_for_and_a_second_one_ends_it(suite: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "augbench.bench.commands", *with_method("asleep", suite, tmp_path)]
    os.mkfifo(tmp_path / GATE)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=os.environ | {HELD: str(tmp_path / GATE)}, **pipes) as process:
        with (tmp_path / GATE).open():  # opens when the method sleeps
            process.send_signal(signal.SIGINT)
        folder = next(one for one in run_folders(tmp_path / "out") if one.path.name.startswith("asleep"))
        assert process.stdout is not None
        said = next(line for line in process.stdout if "Waiting" in line)
        assert f"Waiting for {folder.path.name} to save and stop. Ctrl-C again ends" in said
        for _ in range(3):
            process.send_signal(signal.SIGINT)
        text, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode in (130, -signal.SIGINT), "for a shell that is the same"
    assert errors == ""
    assert f"Work since the last save is lost: {folder.path.name} (" in text
    assert folder.state() is RunState.KILLED, "the process goes on"


def test_threads_and_words_that_a_method_leaves_behind_keep_nothing_from_ending(
    suite: Path, augbench: CommandLine, tmp_path: Path
) -> None:
    code, text, _ = augbench(*with_method("threaded", suite, tmp_path))
    assert code == 0
    assert "busy" not in text
    logs = [run.log.read_text() for run in run_folders(tmp_path / "out") if run.path.name.startswith("threaded")]
    assert "left behind" in logs[0]
    assert "busybusy" in logs[0]


def test_a_method_that_ends_its_process_is_named_and_the_other_runs_go_on(
    suite: Path, augbench: CommandLine, tmp_path: Path
) -> None:
    code, _, errors = augbench(*with_method("leaving", suite, tmp_path))
    assert code == 2
    assert "The worker process ended by itself with status 0" in errors
    assert {run.state() for run in run_folders(tmp_path / "out")} == {RunState.KILLED, RunState.DONE}


def test_runs_go_on_to_their_end_if_nobody_reads_what_is_said_of_them(suite: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "augbench.bench.commands", *with_method("scale", suite, tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
    assert process.returncode == 0
    assert errors == "Standard output was closed by its reader; the command continues without it.\n"
    assert {run.state() for run in run_folders(tmp_path / "out")} == {RunState.DONE}
