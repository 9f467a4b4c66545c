"""A script that for a while kills workers, nodes and launchers of a suite's runs on Slurm, and keeps a log of it."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from slurm_site import Site, start_command

from augbench.bench.runs.run_folder import RunState
from augbench.slurm.lab.processes import wait_until, with_variables

WORKER, NODE, LAUNCHER, LET_GO = "worker killed", "node crashed", "launcher killed", "launcher let go on"
WHILE_SUBMITTING = "launcher killed while it submitted"
SECONDS_BETWEEN_FAULTS = (1.0, 4.0)
SECONDS_A_NODE_IS_DOWN = (3.0, 9.0)
SECONDS_OF_A_LAUNCHER = (0.5, 8.0)
SECONDS_BETWEEN_LAUNCHERS = (0.0, 6.0)
MOST_NODES_DOWN = 2


@dataclass
class Campaign:
    """Faults that are dealt out to the runs of a site, chosen at random from a seed.

    Attributes:
        site: Where the runs are.
        seed: Seed of the choices.
        log: What was done to what, a line each.
        dealt: How often each kind of fault was dealt out.
        interrupted: Runs whose process was killed, alone or with its node.
    """

    site: Site
    seed: int
    log: list[str] = field(default_factory=list)
    dealt: Counter[str] = field(default_factory=Counter)
    interrupted: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - no secret
        self._start = time.monotonic()
        self._down: dict[str, float] = {}
        self._launcher: subprocess.Popen[str] | None = None
        self._fate, self._end_of_launcher, self._records, self._next_launcher = LET_GO, 0.0, 0, 0.0

    def deal(self, seconds: float, enough: Callable[[], bool]) -> None:
        """Deal out faults for a while, and longer until there are enough of them or no run is left to disturb.

        The command is given again and again meanwhile, as a user would.
        """
        faults: list[Callable[[], None]] = [*[self._kill_worker] * 3, self._crash_node]
        while time.monotonic() - self._start < seconds or not (enough() or set(self.site.states()) == {RunState.DONE}):
            self._look_after_nodes()
            self._random.choice(faults)()
            wait_until(self._launchers_at_work, self._random.uniform(*SECONDS_BETWEEN_FAULTS))
        self._look_after_nodes(all_of_them=True)
        if self._launcher is not None:
            self._kill_launcher()

    def finish(self, seconds: float) -> bool:
        """Give the command until all runs are done; returns whether they are after so many seconds at most."""
        return wait_until(self._all_done, seconds)

    def _all_done(self) -> bool:
        """Whether all runs are done; if one is not on the way, the command is given."""
        states = set(self.site.states())
        if not states <= {RunState.DONE, RunState.RUNNING, RunState.SUBMITTED}:
            code, said, errors = self.site.run()
            self._note(f"command given: {code} {said.splitlines()[-1:]} {errors}")
        return states == {RunState.DONE}

    def _note(self, text: str) -> None:
        self.log.append(f"{time.monotonic() - self._start:6.1f} s  {text}")

    def _fault(self, kind: str, what: str) -> None:
        self.dealt[kind] += 1
        self._note(f"{kind}: {what}")

    def _running(self) -> dict[str, int]:
        """Runs that go on, with the process of each."""
        jobs = with_variables(self.site.lab.environment())  # a process id alone may be somebody else's by now
        statuses = {run.path.name: run.read_status() for run in self.site.runs}
        pids = {name: int(status["owner"]["pid"]) for name, status in statuses.items() if status.get("step")}
        return {name: pid for name, pid in pids.items() if pid in jobs and statuses[name]["state"] == "running"}

    def _kill_worker(self) -> None:
        running = self._running()
        if not running:
            return self._note("no worker to kill")
        name = self._random.choice(sorted(running))
        with suppress(ProcessLookupError):
            os.kill(running[name], signal.SIGKILL)
            self._count_interrupted([name])
            self._fault(WORKER, f"{name}, process {running[name]}")

    def _count_interrupted(self, names: Sequence[str]) -> None:
        """Count those that had not just ended when they were killed."""
        self.interrupted.update(
            run.path.name for run in self.site.runs if run.path.name in names and run.read_result() is None
        )

    def _crash_node(self) -> None:
        up = sorted(name for name in self.site.lab.shape.node_names if name not in self._down)
        if len(self._down) >= MOST_NODES_DOWN:
            return self._note("enough nodes are down")
        name = self._random.choice(up)
        on_it = {"SLURMD_NODENAME": name} | self.site.lab.environment()
        lost = [run for run, pid in self._running().items() if pid in with_variables(on_it)]
        self.site.lab.kill_node(name)
        self._down[name] = time.monotonic() + self._random.uniform(*SECONDS_A_NODE_IS_DOWN)
        self._count_interrupted(lost)
        return self._fault(NODE, f"{name} with {', '.join(lost) or 'nothing'}")

    def _look_after_nodes(self, *, all_of_them: bool = False) -> None:
        for name, when in list(self._down.items()):
            if all_of_them or time.monotonic() > when:
                self.site.lab.start_node(name)
                del self._down[name]
                self._note(f"{name} started again")

    def _launchers_at_work(self) -> bool:
        """Give the command now and then; some are killed at any moment, some while they submit, some never."""
        if self._launcher is None:
            if time.monotonic() > self._next_launcher:
                self._launcher, self._records = start_command(self.site), self._count_records()
                self._fate = self._random.choice([LET_GO, LAUNCHER, WHILE_SUBMITTING])
                self._end_of_launcher = time.monotonic() + self._random.uniform(*SECONDS_OF_A_LAUNCHER)
        elif self._launcher.poll() is not None:
            self._note(f"{LET_GO}: {self._launcher.returncode} {self._said()}")
            self.dealt[LET_GO] += 1
        elif self._fate == LAUNCHER and time.monotonic() > self._end_of_launcher:
            self._kill_launcher()
        elif self._fate == WHILE_SUBMITTING and self._count_records() > self._records:
            self._kill_launcher()
        return False  # there is always more to come

    def _kill_launcher(self) -> None:
        assert self._launcher is not None
        self._launcher.kill()
        new = self._count_records() - self._records
        what = f"process {self._launcher.pid}, with {new} new records of submissions; {self._said()}"
        self._fault(WHILE_SUBMITTING if new else LAUNCHER, what)

    def _count_records(self) -> int:
        return len(list(self.site.out.glob("submissions/*/submission.json")))

    def _said(self) -> list[str]:
        """What the launcher has said, whose end this is."""
        assert self._launcher is not None
        said, _ = self._launcher.communicate()
        self._launcher = None
        self._next_launcher = time.monotonic() + self._random.uniform(*SECONDS_BETWEEN_LAUNCHERS)
        assert "Traceback" not in said, said
        return said.splitlines()[-1:]
