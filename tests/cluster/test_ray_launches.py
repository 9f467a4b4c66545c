"""Launches on a real Ray that lose their launcher, a worker or a node, and go on with the same command."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from augbench.bench.experiment.suite import load_suite
from augbench.bench.launchers.ray_jobs.cluster import LOOPBACK
from augbench.bench.registry.plugins import PLUGINS_VARIABLE
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.worker import execute
from augbench.slurm.lab.processes import kill, with_variables

pytestmark = pytest.mark.slow

Outcome = Callable[[RunFolder], dict[str, Any]]

MARK = "AUGBENCH_TEST_MARK"
NODES = Path(__file__).parents[1] / "shared" / "ray_nodes.py"


def wait_until(is_so: Callable[[], bool], what: str, process: "subprocess.Popen[str] | None" = None) -> None:
    """Wait for something that other processes do, as long as that one goes on which is given."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if process is not None and process.poll() is not None:
            pytest.fail(f"ended before {what}: {finished(process)}")
        if time.monotonic() > deadline:
            pytest.fail(f"waited in vain: {what}")
        time.sleep(0.05)


@dataclass
class Place:
    """A suite, a profile and an output folder, and the processes that were started with them.

    Attributes:
        root: Folder of all files.
        mark: Value of a variable in the environment of each of these processes and of what they start.
        started: The processes themselves.
        more: Other variables in their environment.
    """

    root: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: list["subprocess.Popen[str]"] = field(default_factory=list)
    more: dict[str, str] = field(default_factory=dict)

    @property
    def out(self) -> Path:
        """The output folder."""
        return self.root / "out"

    @property
    def runs(self) -> list[RunFolder]:
        """The run folders of the suite."""
        specs = load_suite(str(self.root / "suite.toml")).specs()
        return [RunFolder(self.out / "runs" / spec.folder_name) for spec in specs]

    def write(self, *, seeds: int, epochs: int, ray: str, method: str = "none") -> None:
        """Write suite and profile."""
        (self.root / "suite.toml").write_text(f"""
            name = "short"
            title = "Short runs"
            seeds = {list(range(seeds))}
            [[comparisons]]
            datasets = [{{ name = "mnist5k", options = {{ size = 14 }} }}]
            methods = [{{ name = "{method}" }}]
            network = "tiny"
            budget = {{ epochs = {epochs} }}
        """)
        (self.root / "profile.toml").write_text(f"""
            launcher = "ray"
            resources = {{ cpus = 1, gpus = 0.5 }}
            ray = {{ {ray} }}
        """)

    def environment(self) -> dict[str, str]:
        """Variables of a process that belongs to this place."""
        return os.environ | {MARK: self.mark, "OMP_NUM_THREADS": "1", "TMPDIR": "/tmp"} | self.more  # noqa: S108

    def start(self, *command: str | Path, **more: str) -> "subprocess.Popen[str]":
        """Start a process in a session of its own."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(
            [sys.executable, "-P", *map(str, command)],
            env=self.environment() | more,
            cwd=self.root,
            text=True,
            start_new_session=True,
            **pipes,  # type: ignore[call-overload]
        )
        self.started.append(process)
        return process

    def run(self, *options: str) -> "subprocess.Popen[str]":
        """Give the command `augbench run`."""
        command = ("run", "suite.toml", "--profile", "profile.toml", "--device", "cpu", "--out", "out", *options)
        return self.start("-m", "augbench.bench.commands", *command)

    def descendants(self) -> set[int]:
        """Ids of the processes that were started here or by what was started here, and that still run."""
        return with_variables({MARK: self.mark})

    def close(self) -> None:
        """End all that is left, which a test that passes leaves nothing of."""
        kill(self.descendants)
        for process in self.started:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None and not pipe.closed:
                    pipe.close()


@pytest.fixture
def place(ray_is_installed: None, tmp_path: Path) -> Iterator[Place]:
    """Give a place for files and processes; nothing that was started there is left running."""
    new = Place(tmp_path)
    yield new
    new.close()


def finished(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Wait for the end of a command; returns its exit status and all that it said."""
    said, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, said


def owner(run: RunFolder) -> int:
    """Id of the process that has written the last status of a run."""
    return int(run.read_status()["owner"]["pid"])


def is_running(run: RunFolder) -> bool:
    """Whether a process has written that it executes a run."""
    return run.read_status().get("state") == RunState.RUNNING


def is_under_way(run: RunFolder) -> bool:
    """Whether a run has something to go on from."""
    return run.checkpoint.exists()


def goes_on(run: RunFolder, attempt: int) -> bool:
    """Whether an attempt at a run has begun where the one before it was."""
    return f"attempt {attempt} goes on from step" in run.log.read_text()


@pytest.fixture
def locally(tmp_path: Path, stop: StopSignal) -> Callable[[RunFolder], RunFolder]:
    """Execute a run a second time, in this process and without a break."""

    def again(run: RunFolder) -> RunFolder:
        other = RunFolder(tmp_path / "local" / run.path.name)
        other.write_spec(run.read_spec())
        execute(other, ExecutionSettings("cpu", workers=1, threads=1, data=tmp_path / "data"), stop)
        return other

    return again


@dataclass
class TwoNodes:
    """A Ray cluster of two nodes on this machine.

    Attributes:
        process: What holds it; it ends with its standard input.
        address: Of its head.
        head: Ids of the processes of the first node.
        second: Ids of the processes of the second node.
    """

    process: "subprocess.Popen[str]"
    address: str
    head: list[int]
    second: list[int]


@pytest.fixture
def two_nodes(place: Place) -> Iterator[TwoNodes]:
    """Start a cluster of two nodes, with one core and one GPU by name each, on the loopback interface."""
    home = place.root / "home"
    home.mkdir()
    (home / "ray_bootstrap_config.yaml").write_text("{}\n")
    place.more = {"RAY_AUTH_MODE": "disabled", **LOOPBACK}
    process = place.start(NODES, HOME=str(home), RAY_USAGE_STATS_ENABLED="0")
    assert process.stdout is not None
    line = next((line for line in process.stdout if line.startswith("{")), "{}")
    said = json.loads(line)
    yield TwoNodes(process, said["address"], said["head"], said["second"])
    assert process.stdin is not None
    process.stdin.close()
    process.wait(PATIENCE)


def check_outcomes(runs: list[RunFolder], locally: Callable[[RunFolder], RunFolder], outcome: Outcome) -> None:
    """Make sure that every run has one result, which is that of a run that nothing has happened to."""
    assert [run.state() for run in runs] == [RunState.DONE] * len(runs)
    for run in runs:
        assert outcome(run) == outcome(locally(run))
        assert not run.checkpoint.exists()


def test_a_launch_survives_ctrl_c_a_killed_launcher_and_a_killed_worker(
    place: Place, locally: Callable[[RunFolder], RunFolder], outcome: Outcome
) -> None:
    place.write(seeds=2, epochs=30, ray="cpus = 2, gpus = 1")
    runs = place.runs

    process = place.run()
    wait_until(lambda: all(map(is_running, runs)), "both share the one GPU", process)
    wait_until(lambda: is_under_way(runs[0]), "the first is under way", process)
    os.killpg(process.pid, signal.SIGINT)
    code, said = finished(process)
    assert (code, "Traceback" in said) == (130, False), said
    assert runs[0].state() is RunState.CANCELLED
    wait_until(lambda: not place.descendants(), "the cluster has ended")

    process = place.run()
    wait_until(lambda: goes_on(runs[0], attempt=2), "the first goes on", process)
    process.kill()
    process.wait()
    wait_until(lambda: not place.descendants(), "the cluster has ended with its launcher")
    assert runs[0].state() is RunState.KILLED

    process = place.run()
    wait_until(lambda: goes_on(runs[0], attempt=3), "the first goes on again", process)
    os.kill(owner(runs[0]), signal.SIGKILL)
    code, said = finished(process)
    assert (code, "Traceback" in said) == (0, False), said
    assert (runs[0].read_result() or {})["attempts"] == 4
    steps = [int(step) for step in re.findall(r"goes on from step (\d+)", runs[0].log.read_text())]
    assert (len(steps), steps) == (3, sorted(steps))
    wait_until(lambda: not place.descendants(), "the cluster has ended")
    check_outcomes(runs, locally, outcome)
    assert len(list((place.out / "submissions").glob("ray-*"))) == 1, "only the killed launcher has left Ray's files"


PLUGIN = """
from augbench.bench.registry.registry import register
from augbench.methods.none import NoAugmentation

@register("mine")
class Mine(NoAugmentation):
    title = "a method of one's own"
"""


def test_a_lost_node_costs_no_run_and_the_cluster_goes_on(
    place: Place,
    two_nodes: TwoNodes,
    locally: Callable[[RunFolder], RunFolder],
    outcome: Outcome,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (place.root / "mine.py").write_text(PLUGIN)
    monkeypatch.setenv(PLUGINS_VARIABLE, str(place.root / "mine.py"))  # which the cluster has not got
    place.write(seeds=2, epochs=10, ray=f'address = "{two_nodes.address}"', method="mine")
    runs = place.runs
    process = place.run()
    wait_until(lambda: all(map(is_under_way, runs)), "one run on each node", process)
    for pid in two_nodes.second:
        os.kill(pid, signal.SIGKILL)
    code, said = finished(process)
    assert (code, "Traceback" in said, "raylet" in said) == (0, False, False), said
    check_outcomes(runs, locally, outcome)
    assert sorted(run.read_result()["attempts"] for run in runs) == [1, 2]
    assert set(two_nodes.head) <= place.descendants()
