"""Starting a lab, stopping it, and letting parts of it die."""

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import make_folder
from augbench.bench.common.locks import exclusive
from augbench.slurm.lab import accounting
from augbench.slurm.lab.configuration import (
    Layout,
    Shape,
    check_folder,
    check_programs,
    port_base,
    program,
    user_name,
    write_configuration,
)
from augbench.slurm.lab.daemons import start_daemon, start_munge, variables
from augbench.slurm.lab.processes import end, kill, wait_until, with_descendants, with_variables, writers

STARTED = ("idle", "mixed", "allocated")  # states of a node that works
DAEMONS = ("slurmctld", *accounting.DAEMONS, "munged")  # besides the nodes, in the order in which they are ended


class Lab:
    """A real Slurm on this host, its nodes told apart by their ports; as a context manager, started and stopped.

    A lab that another process has started can be used and stopped by one that knows its folder alone.

    Attributes:
        layout: Where everything of it lies.
        shape: What it consists of when it is started.
    """

    def __init__(self, folder: Path, shape: Shape | None = None, port_base: int | None = None) -> None:
        self.layout = Layout(folder.resolve())
        self.shape = shape or Shape()
        self._wanted_base = port_base

    def __enter__(self) -> "Lab":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def environment(self) -> dict[str, str]:
        """Environment variables with which Slurm's commands, and submitit, talk to this lab."""
        return {"SLURM_CONF": str(self.layout.configuration)}

    def start(self) -> None:
        """Start everything, and wait until every node is idle.

        Raises:
            UserError: If Slurm is not installed, the folder or the ports cannot be used, or a daemon does not start.
        """
        check_programs(self.shape.accounting)
        check_folder(self.layout.folder)
        if self.processes():
            raise UserError(
                f"A lab runs in {self.layout.folder} already. Stop it with "
                f"`python -m augbench.slurm.lab down {self.layout.folder}`, or choose another folder."
            )
        make_folder(self.layout.folder)
        with ExitStack() as unless_it_starts:
            unless_it_starts.callback(self.stop)
            with exclusive(Path(tempfile.gettempdir()) / f"augbench-lab-{os.getuid()}.lock", lambda: None):
                self._start_daemons()
            self._wait_for_nodes(self.shape.node_names)
            unless_it_starts.pop_all()

    def _start_daemons(self) -> None:
        base = port_base(self.shape, self._wanted_base)
        write_configuration(self.layout, self.shape, base)
        start_munge(self.layout)
        if self.shape.accounting:
            accounting.start_accounting(self.layout, base)
        self.start_controller()
        for name in self.shape.node_names:
            self._start_slurmd(name)

    def stop(self) -> None:
        """Cancel all jobs, end all daemons and whatever else runs on the nodes; nothing where nothing runs."""
        if writers(self.layout.log("slurmctld")):
            with suppress(UserError):
                self.cancel_jobs()
                self.command("scontrol", "shutdown", seconds=5)
            wait_until(lambda: not any(self._processes_of(name) for name in self.layout.nodes()), 2)
        for name in self.layout.nodes():
            kill(partial(self._processes_of, name))
        for daemon in DAEMONS:
            end(partial(writers, self.layout.log(daemon)), 15)

    def cancel_jobs(self) -> None:
        """Cancel all jobs, and kill what they have left behind.

        Raises:
            UserError: If the controller does not answer.
        """
        self.command("scancel", "--quiet", f"--user={user_name()}")
        wait_until(lambda: not self.command("squeue", "--noheader"), 10)
        for name in self.layout.nodes():
            kill(partial(self._jobs_of, name))

    def processes(self) -> set[int]:
        """Every process of this lab, with those of its jobs."""
        daemons = [writers(self.layout.log(daemon)) for daemon in DAEMONS]
        return set().union(*daemons, *(self._processes_of(name) for name in self.layout.nodes()))

    def command(self, *words: str | Path, seconds: float = 10) -> str:
        """Run one of Slurm's commands against this lab and return what it prints, without space around it.

        Args:
            words: The command and its arguments.
            seconds: How long it may take; without a controller it would take for ever.

        Raises:
            UserError: If it fails or takes too long.
        """
        text = " ".join(map(str, words))
        try:
            done = subprocess.run(  # noqa: S603
                [program(str(words[0])), *map(str, words[1:])],
                env=variables(self.layout),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"`{text}` got no answer within {seconds:g} seconds from {self.layout.folder}.") from None
        if done.returncode:
            raise UserError(f"`{text}` failed with status {done.returncode}: {done.stderr.strip()}")
        return done.stdout.strip()

    def node_states(self) -> dict[str, str]:
        """State of each node in Slurm's words, such as `idle`."""
        lines = self.command("sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %T").splitlines()
        return {name: state for name, state in (line.split() for line in lines)}

    def kill_node(self, name: str) -> None:
        """Let a node crash: kill all that runs on it at once, and tell Slurm that it is down.

        Raises:
            UserError: If there is no such node, or the controller does not answer.
        """
        self._check_node(name)
        kill(partial(self._processes_of, name))
        self.command("scontrol", "update", f"nodename={name}", "state=down", "reason=crashed")

    def start_node(self, name: str) -> None:
        """Start a node again that has crashed, and wait until it works.

        Raises:
            UserError: If there is no such node, or it does not start.
        """
        self._check_node(name)
        self._start_slurmd(name)
        self._wait_for_nodes([name])

    def wait_until_saved(self) -> None:
        """Wait until the controller has written down what it knows: it does so within 5 seconds after a change.

        A job that has started since is started again by a controller that has crashed, beside the first one.
        """
        now = time.time()
        state = self.layout.folder / "controller" / "job_state"
        wait_until(lambda: state.exists() and state.stat().st_mtime > now, 8)

    def kill_controller(self) -> None:
        """Let the controller crash; jobs go on, and commands get no answer."""
        kill(lambda: with_descendants(writers(self.layout.log("slurmctld"))))

    def start_controller(self) -> None:
        """Start the controller if it does not run, also after a crash, and wait until it answers.

        Raises:
            UserError: If it does not.
        """
        # it knows of no jobs at the first start, which is no reason to stop; later it would be one
        first = [] if (self.layout.folder / "controller" / "job_state").exists() else ["-i"]
        if not writers(self.layout.log("slurmctld")):
            start_daemon(self.layout, "slurmctld", *first, "-f", str(self.layout.configuration))
        if not wait_until(self._controller_answers, 30):
            raise UserError(f"slurmctld has not started. Its log says why: {self.layout.log('slurmctld')}")

    def _controller_answers(self) -> bool:
        try:
            self.command("sinfo", "--noheader", seconds=5)
        except UserError:
            return False
        return True

    def _start_slurmd(self, name: str) -> None:
        start_daemon(self.layout, "slurmd", "-N", name, "-f", str(self.layout.configuration))

    def _wait_for_nodes(self, names: Sequence[str]) -> None:
        def all_work() -> bool:
            states = self.node_states()
            return all(states.get(name) in STARTED for name in names)

        if not wait_until(all_work, 60):
            states = ", ".join(f"{name}: {state}" for name, state in self.node_states().items())
            raise UserError(f"Not all nodes have started ({states}). Their logs say why: {self.layout.folder / 'log'}")

    def _check_node(self, name: str) -> None:
        if name not in self.layout.nodes():
            raise UserError(f"There is no node {name!r}. Valid choices: {', '.join(self.layout.nodes())}.")

    def _processes_of(self, name: str) -> set[int]:
        """A node's slurmd, those that look after its jobs, and the jobs."""
        return with_descendants(writers(self.layout.node_log(name)) | self._jobs_of(name))

    def _jobs_of(self, name: str) -> set[int]:
        """What the jobs of a node have started, also where it has left its parents."""
        return with_variables(self.environment() | {"SLURMD_NODENAME": name})
