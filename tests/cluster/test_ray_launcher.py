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

Request = Callable[..., LaunchRequest]
Refusal = Callable[..., str]


@pytest.fixture
def request_of(settings: ExecutionSettings, tmp_path: Path) -> Request:
    """Ask for runs on the CPU, with a profile of the values given."""

    def make(device: str = "cpu", **values: Any) -> LaunchRequest:
        profile = Profile.model_validate({"launcher": "ray"} | values)
        return LaunchRequest(tmp_path, replace(settings, device=device), profile)

    return make


@pytest.fixture
def run(make_folder: Callable[[RunSpec], RunFolder], make_spec: Callable[..., RunSpec]) -> PlannedRun:
    """Plan a run."""
    spec = make_spec()
    return PlannedRun(spec, make_folder(spec), RunState.PLANNED)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no GPU, whatever this machine has."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)


@pytest.fixture
def refusal(run: PlannedRun, request_of: Request) -> Refusal:
    """Say what the check has against a request."""

    def say(device: str = "cpu", **values: Any) -> str:
        with pytest.raises(UserError) as refused:
            launchers().get("ray")().check([run], request_of(device, **values))
        return str(refused.value)

    return say


def test_without_ray_the_extra_to_install_is_named(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install 'augbench[ray]'" in refusal()


@pytest.mark.parametrize(
    ("device", "resources", "words"),
    [
        ("cpu", {"cpus": 3}, "needs 3 CPUs, 0 GPUs; there are: 2 CPUs, 1 GPU,"),
        ("cpu", {"gpus": 2.0}, "needs 1 CPU, 2 GPUs"),
        ("cpu", {"memory_gb": 1e6}, "needs 1 CPU, 0 GPUs, 1e+06 GB"),
        ("cpu", {"gpus": 1.5}, "whole ones"),
        ("auto", {}, "Write gpus = 1"),
        ("cuda:1", {"gpus": 1.0}, "chooses GPUs itself"),
        ("auto", {"gpus": 0.0}, ""),
        ("auto", {"gpus": 0.25}, ""),
    ],
)
@CHECK
def test_more_than_any_node_has_and_gpus_that_runs_would_not_see_are_refused(
    device: str, resources: dict[str, float], words: str, run: PlannedRun, request_of: Request, refusal: Refusal
) -> None:
    values = {"resources": resources, "ray": {"cpus": 2, "gpus": 1}}
    if words:
        assert words in refusal(device, **values)
    else:
        launchers().get("ray")().check([run], request_of(device, **values))


@CHECK
def test_an_address_that_does_not_answer_is_not_given_to_ray_which_would_wait_for_minutes(
    refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.init", lambda **_: pytest.fail("Ray was asked"))
    with socket.socket() as taken:  # but does not listen
        taken.bind(("127.0.0.2", 0))
        assert "does not answer" in refusal(ray={"address": f"127.0.0.2:{taken.getsockname()[1]}"})


@pytest.mark.parametrize("address", ["ray://host:10001", "host", "host:port", "local"])
@CHECK
def test_no_address(refusal: Refusal, address: str) -> None:
    assert 'such as "host:6379"' in refusal(ray={"address": address})


@CHECK
def test_says_how_many_runs_have_room(run: PlannedRun, request_of: Request) -> None:
    needed = {"gpus": 0.25, "memory_gb": 0.001}
    lines = launchers().get("ray")().describe([run], request_of(resources=needed, ray={"cpus": 8, "gpus": 1}))
    assert "1 to do on a Ray cluster of its own on this machine: 8 CPUs, 1 GPU," in lines[0]
    assert lines[1] == "none: 1 CPU, 0.25 GPUs, 0.001 GB each, at most 4 at a time."


def test_an_own_cluster_has_what_this_process_may_use(monkeypatch: pytest.MonkeyPatch, no_gpu: None) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    for of_job, cores in (("", 8), ("3", 3), ("0", 8), ("64", 8)):
        monkeypatch.setenv("SLURM_CPUS_ON_NODE", of_job)
        assert own_node(RaySettings()).cpus == cores
    assert own_node(RaySettings(cpus=5, gpus=2)).cpus == 5
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert own_node(RaySettings()).gpus == 2
    with pytest.raises(UserError, match="but 2 are visible here"):
        own_node(RaySettings(gpus=3))


@pytest.fixture
def task(ray_is_installed: None, run: PlannedRun, settings: ExecutionSettings, tmp_path: Path) -> Any:
    """Make what a worker gets for the run."""
    from augbench.bench.launchers.ray_jobs.trials import Task

    return Task(str(run.folder.path), "cpu", 1, 0.5, 0, 2, str(settings.data), str(tmp_path / "stop"))


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
    result = {"ended": ended, "problem": problem}
    trial: Any = SimpleNamespace(trial_id="1", config={"run": {"folder": task.folder}}, last_result=result)
    Observer(progress).on_trial_complete(0, [trial], trial)
    assert (progress.hopeless, progress.problems) == (True, [problem])


def test_a_run_is_left_alone_on_a_node_with_other_code_and_after_a_request_to_stop(task: Any, tmp_path: Path) -> None:
    now, file = fingerprint(), tmp_path / "code.json"
    write_json(file, now | {"files": now["files"] | {"bench/training/worker.py": "another"}})
    ended, problem = executed(replace(task, code_file=str(file)))
    assert (ended, "bench/training/worker.py has changed" in problem) == ("unfit", True)
    Path(task.stop_file).touch()
    assert executed(task) == ("not started", "")
    assert RunFolder(Path(task.folder)).state() is RunState.PLANNED


@pytest.mark.usefixtures("few_digits")
def test_a_run_that_another_process_owns_is_waited_for(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("augbench.bench.training.scheduled.SECONDS_BETWEEN_LOOKS", 0.0)
    monkeypatch.setattr("augbench.bench.training.scheduled.SECONDS_TO_WAIT_FOR_OWNER", 0.05)
    with claimed(Path(task.folder)):
        assert executed(task) == ("running", "")
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


def test_a_share_of_a_node(task: Any) -> None:
    assert task.bundle() == {"CPU": 1.0, "GPU": 0.5}
    assert replace(task, gpus=0.0, memory=10).bundle() == {"CPU": 1.0, "memory": 10.0}


class Scripted(RayLaunch):
    """A launch whose runs are placed by a script."""

    script: Callable[["Scripted"], None]

    def place(self, folder: Path) -> None:
        """Do what the script says."""
        self.script()

    def wait_for_stop(self) -> None:
        """Go on until the stop file is there, as trials do."""
        deadline = time.monotonic() + 300
        while not self.stop_file.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self.stop_file.exists()


Script = Callable[..., Scripted]


@pytest.fixture
def script(ray_is_installed: None, run: PlannedRun, request_of: Request) -> Script:
    """Make a launch of the run, which a function places."""

    def make(does: Callable[[Scripted], None], **request: Any) -> Scripted:
        made = Scripted([run], replace(request_of(), **request))
        made.script = lambda: does(made)  # type: ignore[method-assign]
        return made

    return make


@pytest.mark.parametrize("fail_fast", [False, True])
def test_a_failed_run_stops_the_others_only_where_that_is_wanted(
    run: PlannedRun, script: Script, fail_fast: bool
) -> None:
    def fail(made: Scripted) -> None:
        run.folder.write_status(RunState.FAILED, attempt=1)
        made.progress.ended.append(str(run.folder.path.resolve()))
        if fail_fast:
            made.wait_for_stop()

    made = script(fail, fail_fast=fail_fast)
    seen: list[Activity] = []
    made.run(seen.append)
    assert made.progress.stopping is fail_fast
    assert seen[-1] == Activity((), (run.folder,))
    assert not made.folder.exists()


def test_an_interrupted_launch_waits_until_every_run_is_saved(script: Script) -> None:
    saved = []

    def interrupt(activity: Activity) -> None:
        raise KeyboardInterrupt

    def save(made: Scripted) -> None:
        made.wait_for_stop()
        saved.append(True)

    with pytest.raises(KeyboardInterrupt):
        script(save).run(interrupt)
    assert saved == [True]


@pytest.mark.parametrize("damaged", [False, True])
def test_a_run_that_lost_its_worker_too_often_says_so(run: PlannedRun, script: Script, damaged: bool) -> None:
    def lose(made: Scripted) -> None:
        folder = str(run.folder.path.resolve())
        made.progress.lost[folder] = "Its worker died 4 times."
        made.progress.ended.append(folder)

    made = script(lose)
    if damaged:
        (run.folder.path / "result.json").write_text("{")
        with pytest.raises(UserError, match="is damaged"):
            made.run(lambda _: None)
    else:
        made.run(lambda _: None)
        assert run.folder.state() is RunState.NEVER_STARTED
        assert run.folder.read_status()["reason"] == "Its worker died 4 times."
    assert made.folder.exists(), "what Ray wrote may say more"


def test_what_ends_ray_itself_is_said(script: Script) -> None:
    def lose(made: Scripted) -> None:
        raise ConnectionError("no head")

    with pytest.raises(UserError, match=r"Ray failed: no head.*The same command resumes"):
        script(lose).run(lambda _: None)
