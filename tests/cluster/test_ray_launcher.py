"""What the launcher of Ray finds wrong before anything is placed, and what it does without a cluster."""

import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import write_json
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.launchers.launcher import Activity, LaunchRequest, launchers
from augbench.bench.launchers.ray import RayLaunch
from augbench.bench.launchers.ray_jobs.cluster import own_node
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.planning.profile import Profile, RaySettings
from augbench.bench.runs.claim import claimed
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.provenance import fingerprint

CHECK = pytest.mark.usefixtures("ray_is_installed", "no_gpu")

MakeFolder = Callable[[RunSpec], RunFolder]
MakeSpec = Callable[..., RunSpec]


@pytest.fixture
def launch_request(settings: ExecutionSettings, tmp_path: Path) -> Callable[..., LaunchRequest]:
    """Make an order of runs on the CPU, with a profile of the values given."""

    def make(device: str = "cpu", **values: Any) -> LaunchRequest:
        return LaunchRequest(
            tmp_path, replace(settings, device=device), Profile.model_validate({"launcher": "ray"} | values)
        )

    return make


@pytest.fixture
def runs(make_folder: MakeFolder, make_spec: MakeSpec) -> list[PlannedRun]:
    """Plan one run."""
    spec = make_spec()
    return [PlannedRun(spec, make_folder(spec), RunState.PLANNED)]


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no GPU, whatever this machine has."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)


def refusal(runs: list[PlannedRun], launch_request: LaunchRequest) -> str:
    """Return what the check says against an order."""
    with pytest.raises(UserError) as refused:
        launchers().get("ray")().check(runs, launch_request)
    return str(refused.value)


def test_without_ray_the_extra_to_install_is_named(
    runs: list[PlannedRun], launch_request: Callable[..., LaunchRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install 'augbench[ray]'" in refusal(runs, launch_request())


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ({"cpus": 3}, "needs 3 CPUs, 0 GPUs; there are: 2 CPUs, 1 GPU,"),
        ({"gpus": 2.0}, "needs 1 CPU, 2 GPUs"),
        ({"memory_gb": 1e6}, "needs 1 CPU, 0 GPUs, 1e+06 GB"),
        ({"gpus": 1.5}, "whole ones"),
    ],
)
@CHECK
def test_more_than_any_node_has(
    runs: list[PlannedRun], launch_request: Callable[..., LaunchRequest], resources: dict[str, float], said: str
) -> None:
    assert said in refusal(runs, launch_request(resources=resources, ray={"cpus": 2, "gpus": 1}))


@CHECK
def test_gpus_that_runs_would_not_see(runs: list[PlannedRun], launch_request: Callable[..., LaunchRequest]) -> None:
    there = {"cpus": 2, "gpus": 1}
    assert "Say gpus = 1" in refusal(runs, launch_request("auto", ray=there))
    assert "which chooses" in refusal(runs, launch_request("cuda:1", ray=there, resources={"gpus": 1.0}))
    launchers().get("ray")().check(runs, launch_request("auto", ray=there, resources={"gpus": 0.0}))
    launchers().get("ray")().check(runs, launch_request("auto", ray=there, resources={"gpus": 0.25}))


@CHECK
def test_an_address_that_does_not_answer_is_not_given_to_ray_which_would_wait_for_minutes(
    runs: list[PlannedRun], launch_request: Callable[..., LaunchRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.init", lambda **_: pytest.fail("Ray was asked"))
    with socket.socket() as taken:  # but does not listen
        taken.bind(("127.0.0.2", 0))
        text = refusal(runs, launch_request(ray={"address": f"127.0.0.2:{taken.getsockname()[1]}"}))
    assert "does not answer" in text


@pytest.mark.parametrize("address", ["ray://host:10001", "host", "host:port", "local"])
@CHECK
def test_no_address(runs: list[PlannedRun], launch_request: Callable[..., LaunchRequest], address: str) -> None:
    assert 'such as "host:6379"' in refusal(runs, launch_request(ray={"address": address}))


@CHECK
def test_says_how_many_runs_have_room(runs: list[PlannedRun], launch_request: Callable[..., LaunchRequest]) -> None:
    needed = {"gpus": 0.25, "memory_gb": 0.001}
    lines = launchers().get("ray")().describe(runs, launch_request(resources=needed, ray={"cpus": 8, "gpus": 1}))
    assert "1 to do on a Ray cluster of its own on this machine: 8 CPUs, 1 GPU," in lines[0]
    assert lines[1] == "none: 1 CPU, 0.25 GPUs, 0.001 GB each, at most 4 at a time."


def test_an_own_cluster_has_what_this_process_may_use(monkeypatch: pytest.MonkeyPatch, no_gpu: None) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.delenv("SLURM_CPUS_ON_NODE", raising=False)
    assert own_node(RaySettings()).cpus == 8
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "3")
    assert own_node(RaySettings()).cpus == 3
    assert own_node(RaySettings(cpus=5, gpus=2)).cpus == 5
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert own_node(RaySettings()).gpus == 2
    with pytest.raises(UserError, match="but 2 are visible here"):
        own_node(RaySettings(gpus=3))


@pytest.fixture
def task(ray_is_installed: None, runs: list[PlannedRun], settings: ExecutionSettings, tmp_path: Path) -> Any:
    """Make what a worker gets for the one run."""
    from augbench.bench.launchers.ray_jobs.trials import Task

    folder = str(runs[0].folder.path)
    return Task(folder, "cpu", 1, 0.5, 0, 2, str(settings.data), str(tmp_path / "stop"))


def executed(task: Any) -> tuple[str, str]:
    """Have a worker's part done in this process."""
    from augbench.bench.launchers.ray_jobs.trials import StopFile, execute_task

    return execute_task(task, StopFile(Path(task.stop_file)))


def test_a_gpu_that_is_not_visible_is_said_and_ends_the_launch(task: Any, no_gpu: None) -> None:
    from augbench.bench.launchers.ray_jobs.trials import UNFIT, Observer, Progress

    ended, problem = executed(replace(task, device="cuda"))
    assert (ended, "PyTorch sees none" in problem) == (UNFIT, True)
    assert RunFolder(Path(task.folder)).state() is RunState.PLANNED
    progress = Progress()
    trial: Any = SimpleNamespace(
        trial_id="1", config={"run": {"folder": task.folder}}, last_result={"ended": ended, "problem": problem}
    )
    Observer(progress).on_trial_complete(0, [trial], trial)
    assert (progress.hopeless, progress.problems) == (True, [problem])


def test_other_code_on_a_node_is_said(task: Any, tmp_path: Path) -> None:
    now = fingerprint()
    file = tmp_path / "code.json"
    write_json(file, now | {"files": now["files"] | {"bench/training/worker.py": "another"}})
    ended, problem = executed(replace(task, code_file=str(file)))
    assert (ended, "bench/training/worker.py has changed" in problem) == ("unfit", True)
    assert RunFolder(Path(task.folder)).state() is RunState.PLANNED


def test_a_run_that_is_asked_to_stop_before_it_begins_is_left_alone(task: Any) -> None:
    Path(task.stop_file).touch()
    assert executed(task) == ("not started", "")
    assert RunFolder(Path(task.folder)).state() is RunState.PLANNED


@pytest.mark.usefixtures("few_digits")
def test_a_run_that_another_process_owns_is_waited_for(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("augbench.bench.launchers.ray_jobs.trials.LOOK_SECONDS", 0.0)
    monkeypatch.setattr("augbench.bench.launchers.ray_jobs.trials.BUSY_SECONDS", 0.05)
    with claimed(Path(task.folder)):
        assert executed(task) == ("busy", "")
    assert executed(task) == ("done", "")


def test_waiting_trials_are_given_up_when_the_others_have_saved(ray_is_installed: None) -> None:
    from augbench.bench.launchers.ray_jobs.trials import Progress, UntilStopped

    progress = Progress(running={"1": "a", "2": "b"})
    until = UntilStopped(progress)
    assert not until.stop_all()
    progress.stopping = True
    assert not until.stop_all()
    del progress.running["1"]
    progress.running["3"] = "c"  # begins after all were asked to stop, and ends by itself
    assert not until.stop_all()
    del progress.running["2"]
    assert until.stop_all()


def test_a_share_of_a_node(ray_is_installed: None, task: Any) -> None:
    assert task.bundle() == {"CPU": 1.0, "GPU": 0.5}
    assert replace(task, gpus=0.0, memory=10).bundle() == {"CPU": 1.0, "memory": 10.0}


class Scripted(RayLaunch):
    """A launch whose runs are placed by a script."""

    script: Callable[["Scripted"], None]

    def place(self, folder: Path) -> None:
        """Do what the script says."""
        self.script()


def script(runs: list[PlannedRun], launch_request: LaunchRequest, does: Callable[[Scripted], None]) -> Scripted:
    """Make a launch whose runs are placed by a function."""
    ray_launch = Scripted(runs, launch_request)
    ray_launch.script = lambda: does(ray_launch)  # type: ignore[method-assign]
    return ray_launch


def end(ray_launch: RayLaunch, run: PlannedRun, lost: str = "") -> None:
    """Have the trial of a run end."""
    folder = str(run.folder.path.resolve())
    if lost:
        ray_launch.progress.lost[folder] = lost
    ray_launch.progress.ended.append(folder)


def wait_for_stop(ray_launch: RayLaunch) -> None:
    """Go on until the stop file is there, as trials do."""
    deadline = time.monotonic() + 300
    while not ray_launch.stop_file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ray_launch.stop_file.exists()


@pytest.mark.parametrize("fail_fast", [False, True])
def test_a_failed_run_stops_the_others_only_where_that_is_wanted(
    ray_is_installed: None, runs: list[PlannedRun], launch_request: Callable[..., LaunchRequest], fail_fast: bool
) -> None:
    def fail(ray_launch: Scripted) -> None:
        runs[0].folder.write_status(RunState.FAILED, attempt=1)
        end(ray_launch, runs[0])
        if fail_fast:
            wait_for_stop(ray_launch)

    ray_launch = script(runs, replace(launch_request(), fail_fast=fail_fast), fail)
    seen: list[Activity] = []
    ray_launch.run(seen.append)
    assert ray_launch.progress.stopping is fail_fast
    assert seen[-1] == Activity((), (runs[0].folder,))
    assert not ray_launch.folder.exists()


def test_an_interrupted_launch_waits_until_every_run_is_saved(
    ray_is_installed: None, runs: list[PlannedRun], launch_request: Callable[..., LaunchRequest]
) -> None:
    saved = []

    def interrupt(activity: Activity) -> None:
        raise KeyboardInterrupt

    def save(ray_launch: Scripted) -> None:
        wait_for_stop(ray_launch)
        saved.append(True)

    ray_launch = script(runs, launch_request(), save)
    with pytest.raises(KeyboardInterrupt):
        ray_launch.run(interrupt)
    assert saved == [True]


def test_a_run_that_lost_its_worker_too_often_says_so(
    ray_is_installed: None, runs: list[PlannedRun], launch_request: Callable[..., LaunchRequest]
) -> None:
    ray_launch = script(runs, launch_request(), lambda one: end(one, runs[0], lost="Its worker died 4 times."))
    ray_launch.run(lambda _: None)
    folder = runs[0].folder
    assert folder.state() is RunState.NEVER_STARTED
    assert folder.read_status()["reason"] == "Its worker died 4 times."
    assert ray_launch.folder.exists(), "what Ray wrote may say more"


def test_what_ends_ray_itself_is_said(
    ray_is_installed: None, runs: list[PlannedRun], launch_request: Callable[..., LaunchRequest]
) -> None:
    def lose(ray_launch: Scripted) -> None:
        raise ConnectionError("no head")

    with pytest.raises(UserError, match=r"Ray could not go on: no head.*The same command goes on"):
        script(runs, launch_request(), lose).run(lambda _: None)
