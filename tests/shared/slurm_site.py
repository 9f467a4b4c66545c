"""What the tests with Slurm share: a suite of short runs, a profile, and the command that places them."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from patience import PATIENCE

from augbench.bench.experiment.suite import load_suite
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.run_states import RunStates, RunStatus
from augbench.bench.runs.submissions import Submission, read_submissions
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.worker import execute
from augbench.slurm.lab.cluster import Lab
from augbench.slurm.lab.processes import wait_until

CommandLine = Callable[..., tuple[int, str, str]]
Outcome = Callable[[RunFolder], dict[str, Any]]

PLUGIN = Path(__file__).with_name("slurm_plugin.py")
PAUSE, GATE = "AUGBENCH_TEST_PAUSE", "AUGBENCH_TEST_GATE"
EPOCHS = 40  # of 8 steps each, with a pause before each step until the gate is open


@dataclass
class Site:
    """A folder with a suite, a profile, a plug-in and an output folder, on a cluster.

    Attributes:
        root: The folder.
        lab: The cluster.
        command_line: Gives an `augbench` command in this process.
    """

    root: Path
    lab: Lab
    command_line: CommandLine

    @property
    def out(self) -> Path:
        """The output folder."""
        return self.root / "out"

    @property
    def plugin(self) -> Path:
        """The plug-in, which a test may change."""
        return self.root / "plugin.py"

    def write(
        self,
        methods: Sequence[str] = ("paced",),
        *,
        seeds: Iterable[int] = (0,),
        epochs: int = EPOCHS,
        resources: Mapping[str, Any] = MappingProxyType({}),
        slurm: str = "",
        more: str = "",
    ) -> None:
        """Write suite and profile."""
        given = {"cpus": 1, "memory_gb": 1, "time": "00:30:00"} | dict(resources)
        lines = [f"{name} = {json.dumps(value)}" for name, value in given.items() if value is not None]
        (self.root / "suite.toml").write_text(f"""
            name = "short"
            title = "Short runs"
            seeds = {list(seeds)}
            protocol = {{ test_time_draws = [1], test_time_repeats = 1, probe_angles = 2 }}
            [[comparisons]]
            datasets = [{{ name = "dots" }}]
            methods = [{", ".join(f'{{ name = "{method}" }}' for method in methods)}]
            network = "tiny"
            budget = {{ epochs = {epochs}, batch_size = 20 }}
        """)
        (self.root / "profile.toml").write_text(f"""
            launcher = "slurm"
            resources = {{ {", ".join(lines)} }}
            [slurm]
            {slurm}
            {more}
        """)

    @property
    def arguments(self) -> tuple[str | Path, ...]:
        """The command with which runs are placed."""
        return ("run", self.root / "suite.toml", "--out", self.out, "--profile", self.root / "profile.toml")

    def run(self, *options: str) -> tuple[int, str, str]:
        """Place what is left; returns exit status, standard output and standard error."""
        return self.command_line(*self.arguments, *options)

    def place(self, *options: str) -> None:
        """Place what is left, which has to succeed."""
        code, said, errors = self.run(*options)
        assert (code, errors) == (0, ""), said + errors

    def open_gate(self) -> None:
        """Let runs make no more pauses."""
        (self.root / "gate").touch()

    @property
    def runs(self) -> list[RunFolder]:
        """The run folders of the suite, in the order of its runs."""
        specs = load_suite(str(self.root / "suite.toml")).specs()
        return [RunFolder(self.out / "runs" / spec.folder_name) for spec in specs]

    @property
    def submissions(self) -> list[Submission]:
        """Records of what was submitted, oldest first."""
        return read_submissions(self.out)

    def observe(self) -> list[RunStatus]:
        """What is known of each run."""
        states = RunStates(self.out)
        return [states.of(run) for run in self.runs]

    def states(self) -> list[RunState]:
        """State of each run."""
        return [known.state for known in self.observe()]

    def wait(self, *wanted: RunState, seconds: float = PATIENCE) -> None:
        """Wait until each run is in one of some states."""
        if not wait_until(lambda: set(self.states()) <= set(wanted), seconds):
            pytest.fail(f"waited in vain for {wanted}: {self.summary()}")

    def wait_under_way(self) -> None:
        """Wait until each run has something saved and goes on."""
        if not wait_until(lambda: all(map(is_under_way, self.runs)), PATIENCE):
            pytest.fail(f"not under way: {self.summary()}")

    def summary(self) -> str:
        """What is known of each run, and what the jobs have printed, for a test that fails."""
        return "\n".join(
            [*(f"{one.state} {one.job} {one.reason}" for one in self.observe()), *self.queued("%i %T %r"), self.told()]
        )

    def told(self) -> str:
        """What the jobs have printed."""
        return "\n".join(log.read_text() for log in sorted(self.out.glob("submissions/*/jobs/*.out")))

    def queued(self, form: str = "%T", *more: str) -> list[str]:
        """Jobs of all states, a line of squeue for each."""
        return self.lab.command("squeue", "--noheader", "--array", f"--format={form}", *more).splitlines()

    def finish(self, outcome: Outcome) -> None:
        """Wait for all results, and make sure that each is that of a run that nothing has happened to."""
        self.open_gate()
        self.wait(RunState.DONE)
        for run in self.runs:
            assert outcome(run) == outcome(self.locally(run))
            assert not run.checkpoint.exists()

    def locally(self, run: RunFolder) -> RunFolder:
        """Execute a run a second time, in this process and without a break."""
        self.open_gate()
        other = RunFolder(self.root / "local" / run.path.name)
        other.write_spec(run.read_spec())
        execute(other, ExecutionSettings("cpu", 1, 1, self.root), StopSignal(os.getppid()))
        return other


def new_site(root: Path, lab: Lab, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Make a site; the gate is shut, so that runs go on for almost three minutes."""
    site = Site(root, lab, command_line)
    shutil.copy(PLUGIN, site.plugin)
    variables = {PAUSE: "0.5", GATE: str(root / "gate"), "OMP_NUM_THREADS": "1", "AUGBENCH_PLUGINS": str(site.plugin)}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    site.write()
    return site


def is_under_way(run: RunFolder) -> bool:
    """Whether a run goes on and has something saved."""
    return run.checkpoint.exists() and run.state() is RunState.RUNNING and run.read_status().get("phase") == "training"


def attempt(run: RunFolder) -> int:
    """Number of the last attempt at a run that has begun."""
    return int(run.read_status().get("attempt", 0))


def kill_owner(run: RunFolder) -> None:
    """Kill the process that executes a run."""
    os.kill(int(run.read_status()["owner"]["pid"]), signal.SIGKILL)


def start_command(site: Site, *options: str | Path, **variables: str) -> "subprocess.Popen[str]":
    """Give the command that places runs, with other options and variables, in a process of its own."""
    given, kept = list(map(str, options)), list(map(str, site.arguments))
    for name in given:
        if name.startswith("--") and name in kept:
            place = kept.index(name)
            del kept[place : place + 2]
    command = [sys.executable, "-P", "-m", "augbench.bench.commands", *kept, *given]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, env=os.environ | variables, text=True, **pipes)  # type: ignore[call-overload, no-any-return]
