"""Places runs by Ray Tune: small runs may share a GPU, and every run survives the loss of its worker or node."""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from augbench.bench.common.errors import UserError, shortened
from augbench.bench.common.files import make_folder, write_json, write_text
from augbench.bench.launchers.launcher import Activity, Launcher, LaunchRequest
from augbench.bench.launchers.ray_jobs import cluster as ray_cluster
from augbench.bench.launchers.ray_jobs.cluster import Node
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.planning.profile import Resources
from augbench.bench.registry.registry import register
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.claim import LAUNCHER_VARIABLE
from augbench.bench.runs.run_folder import RunState
from augbench.bench.training.provenance import COMMAND_VARIABLE, fingerprint, given_command

if TYPE_CHECKING:
    from augbench.bench.launchers.ray_jobs.trials import Task

POLL_SECONDS = 0.25
OWN_VARIABLES = "AUGBENCH_"
FOLDER_PREFIX = "ray-"


@register("ray")
class Ray(Launcher):
    """Runs on a Ray cluster, each a trial of Tune."""

    title = "Ray Tune: a cluster that runs already or one on this machine; runs may share a GPU"

    def check(self, runs: Sequence[PlannedRun], request: LaunchRequest) -> None:
        """Make sure that some node of the cluster has what each run needs.

        Raises:
            UserError: If Ray is not installed, the cluster does not answer, or no node has what a run needs.
        """
        nodes = ray_cluster.nodes(request.profile.ray)
        for method in sorted({run.spec.method.name for run in runs}):
            _check_fits(method, request.profile.resources_for(method), nodes, request.settings.device)

    def describe(self, runs: Sequence[PlannedRun], request: LaunchRequest) -> list[str]:
        """Say where runs would be placed and how many have room there."""
        nodes = ray_cluster.nodes(request.profile.ray)
        address = request.profile.ray.address
        where = f"the Ray cluster {address}" if address else "a Ray cluster of its own on this machine"
        lines = [f"{len(runs)} to do on {where}: {'; '.join(map(_described, nodes))}."]
        for method in sorted({run.spec.method.name for run in runs}):
            needs = request.profile.resources_for(method)
            room = sum(_room(needs, node) for node in nodes)
            lines.append(f"{method}: {_needs(needs)} each, at most {room} at a time.")
        return lines

    def launch(self, runs: Sequence[PlannedRun], request: LaunchRequest, poll: Callable[[Activity], None]) -> None:
        """Have every run executed and return when all have ended."""
        with ray_cluster.connected(request.profile.ray, worker_environment()):
            RayLaunch(runs, request).run(poll)


def worker_environment() -> dict[str, str]:
    """Variables of the workers: our own, and where modules are found.

    A cluster that runs already was started with other ones.
    """
    own = {name: value for name, value in os.environ.items() if name.startswith(OWN_VARIABLES)}
    given = {COMMAND_VARIABLE: given_command(), LAUNCHER_VARIABLE: "ray"}
    folders = ray_cluster.python_path()
    path = {"PYTHONPATH": os.pathsep.join([*folders, "${PYTHONPATH}"])} if folders else {}
    return own | given | path | {"PYTHONSAFEPATH": "1"}


class RayLaunch:
    """One launch: its runs as trials, and the thread in which Tune places them, whose loop cannot be polled."""

    def __init__(self, runs: Sequence[PlannedRun], request: LaunchRequest) -> None:
        from augbench.bench.launchers.ray_jobs.trials import CODE_FILE, STOP_FILE, Progress

        self.runs = {str(run.folder.path.resolve()): run for run in runs}
        self.request = request
        self.progress = Progress()
        parent = make_folder(request.out.resolve() / "submissions")
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent))
        self.stop_file = self.folder / STOP_FILE
        self.code_file = self.folder / CODE_FILE
        write_json(self.code_file, fingerprint())
        self.looked_at = 0

    def run(self, poll: Callable[[Activity], None]) -> None:
        """Have every run executed.

        Raises:
            KeyboardInterrupt: After every run has been stopped with its state saved.
            UserError: If a run could not be started, or Ray could not go on.
        """
        threads = ThreadPoolExecutor(1, thread_name_prefix="tune")
        placing = threads.submit(self._place)
        try:
            while wait([placing], timeout=POLL_SECONDS).not_done:
                self._look_at_ended()
                poll(self._activity())
        finally:
            if not placing.done():  # Ctrl-C, or something went wrong here
                self.stop()
                wait([placing])
            threads.shutdown(wait=False)
            self._look_at_ended()
            if placing.done() and placing.exception() is None and not self.progress.lost:
                shutil.rmtree(self.folder, ignore_errors=True)  # Ray's files say nothing unless Ray itself failed
        placing.result()
        if self.progress.problems:
            raise UserError(self.progress.problems[0])
        poll(self._activity())

    def stop(self) -> None:
        """Have every running run saved, and begin no other."""
        if not self.progress.stopping:
            write_text(self.stop_file, "")
            self.progress.stopping = True

    def _place(self) -> None:
        from ray.exceptions import RayError
        from ray.tune import TuneError

        try:
            self.place(self.folder / "ray")
        except (RayError, TuneError, ConnectionError, TimeoutError) as error:
            raise UserError(
                f"Ray failed: {shortened(' '.join(str(error).split()))} Its files are in {self.folder}. The "
                "same command resumes the runs that have no result."
            ) from None

    def place(self, folder: Path) -> None:
        """Have Tune place the runs and return when all of them have ended.

        Args:
            folder: Where Tune writes its files.
        """
        from augbench.bench.launchers.ray_jobs.trials import place

        place([self.task(run) for run in self.runs.values()], folder, self.request.profile.ray.failures, self.progress)

    @cached_property
    def nodes(self) -> list[Node]:
        """What the machines of the cluster have."""
        return ray_cluster.connected_nodes()

    def task(self, run: PlannedRun) -> "Task":
        """Describe a run to its worker."""
        from augbench.bench.launchers.ray_jobs.trials import Task

        needs = self.request.profile.resources_for(run.spec.method.name)
        where = self.request.settings
        return Task(
            folder=str(run.folder.path.resolve()),
            device="cuda" if needs.gpus and where.device != "cpu" else "cpu",
            cpus=needs.cpus,
            gpus=needs.gpus or 0.0,
            memory=_bytes(needs),
            workers=sum(_room(needs, node) for node in self.nodes),
            data=str(where.data.resolve()),
            stop_file=str(self.stop_file),
            code_file="" if self.request.allow_changed_code else str(self.code_file),
        )

    def _look_at_ended(self) -> None:
        """Stop the others after a failure if that was asked for, or if no run can be started at all."""
        new = self.progress.ended[self.looked_at :]
        self.looked_at += len(new)
        for folder in new:
            run = self.runs[folder].folder
            lost = self.progress.lost.get(folder)
            if lost is not None and (problem := run.record_death(Cause.KILLED, lost)):
                self.progress.problems.append(problem)
            if self.request.fail_fast and run.read_status().get("state") == RunState.FAILED:
                self.stop()
        if self.progress.hopeless:
            self.stop()

    def _activity(self) -> Activity:
        running, ended = list(self.progress.running.values()), list(self.progress.ended)
        return Activity(tuple(self.runs[one].folder for one in running), tuple(self.runs[one].folder for one in ended))


def _check_fits(method: str, needs: Resources, nodes: Sequence[Node], device: str) -> None:
    where = f"for runs of {method}"
    gpus = needs.gpus or 0.0
    if gpus > 1 and gpus != int(gpus):
        raise UserError(
            f"The profile's [resources] {where} say gpus = {gpus:g}, but Ray shares one GPU between runs or gives "
            "whole ones. Give a fraction up to 1, such as 0.25, or a whole number."
        )
    if device.startswith("cuda:"):
        raise UserError(f"The launcher ray chooses GPUs itself and does not take --device {device}. Give auto or cpu.")
    is_open = device == "cuda" or (needs.gpus is None and any(node.gpus for node in nodes))
    if not gpus and device != "cpu" and is_open:
        raise UserError(
            "The cluster has GPUs, but Ray hides them from runs that ask for none, and the profile's [resources] "
            f"{where} set no gpus. Write gpus = 1, or a fraction such as 0.25 to let runs share one; for runs on the "
            "CPU write gpus = 0 or give --device cpu."
        )
    if not any(_room(needs, node) for node in nodes):
        most = "; ".join(map(_described, nodes)) or "no node at all"
        raise UserError(
            f"No node of the cluster can execute a run of {method}, which needs {_needs(needs)}; there are: "
            f"{most}. Ask for less in [resources] or [methods.{method}] of the profile, or use another cluster."
        )


def _room(needs: Resources, node: Node) -> int:
    """How many runs fit a node at the same time."""
    wanted = ((needs.cpus, node.cpus), (needs.gpus or 0, node.gpus), (_bytes(needs), node.memory))
    return min(int(there / each + 1e-9) for each, there in wanted if each)


def _bytes(needs: Resources) -> int:
    return int((needs.memory_gb or 0) * 1e9)


def _needs(needs: Resources) -> str:
    memory = f", {needs.memory_gb:g} GB" if needs.memory_gb else ""
    return f"{_counted(needs.cpus, 'CPU')}, {_counted(needs.gpus or 0, 'GPU')}{memory}"


def _described(node: Node) -> str:
    return f"{_counted(node.cpus, 'CPU')}, {_counted(node.gpus, 'GPU')}, {node.memory / 1e9:.0f} GB"


def _counted(number: float, what: str) -> str:
    return f"{number:g} {what}" if number == 1 else f"{number:g} {what}s"
