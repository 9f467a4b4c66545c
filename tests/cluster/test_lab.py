"""The Slurm on one host is a real one, and nothing of it outlives it."""

import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import PATIENCE

from augbench.bench.common.errors import UserError
from augbench.slurm.lab import configuration
from augbench.slurm.lab.cluster import Lab
from augbench.slurm.lab.configuration import Shape
from augbench.slurm.lab.daemons import start_daemon
from augbench.slurm.lab.processes import wait_until

NODES = ("node1", "node2", "node3", "node4")
ORPHAN = "(setsid sleep 600 &)"  # what a job starts and does not wait for


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Make a folder whose path is short enough for a lab."""
    with tempfile.TemporaryDirectory(prefix="lab") as folder:
        yield Path(folder)


@pytest.fixture
def second_lab(slurm_is_installed: None, short_path: Path) -> Lab:
    """Make a small lab of one's own, not yet started."""
    return Lab(short_path, Shape(nodes=1, gpus=0))


def submit(cluster: Lab, script: str, *options: str) -> str:
    return cluster.command("sbatch", "--parsable", "--output=/dev/null", *options, f"--wrap={script}")


def state_of(cluster: Lab, job: str) -> str:
    return cluster.command("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")


def traces_of(folder: Path) -> set[str]:
    """What runs with a folder in its command line, environment, working directory or open files; not via the lab."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        try:
            texts = [(process / "cmdline").read_bytes(), (process / "environ").read_bytes()]
            texts += [str(link.readlink()).encode() for link in (process / "cwd", *(process / "fd").iterdir())]
        except OSError:
            continue
        if any(str(folder).encode() in text for text in texts):
            found.add(process.name)
    return found


def test_all_nodes_are_idle_and_run_a_job(cluster: Lab) -> None:
    assert cluster.node_states() == dict.fromkeys(NODES, "idle")
    printed = cluster.command("srun", "--nodes=4", "--immediate=300", "printenv", "SLURMD_NODENAME", seconds=PATIENCE)
    assert sorted(printed.split()) == sorted(NODES)


def test_jobs_get_devices_that_pass_for_gpus(cluster: Lab) -> None:
    visible = cluster.command("srun", "--gpus-per-node=2", "printenv", "CUDA_VISIBLE_DEVICES", seconds=PATIENCE)
    assert visible == "0,1"


def test_what_cannot_be_had_is_refused_at_once(cluster: Lab) -> None:
    with pytest.raises(UserError, match=r"sbatch.*cpus-per-task=64.*More processors requested"):
        submit(cluster, "true", "--cpus-per-task=64")


@pytest.mark.slow
def test_a_node_that_crashes_takes_its_jobs_along_and_comes_back(cluster: Lab, tmp_path: Path) -> None:
    script = f"{ORPHAN}; touch {tmp_path}/started; exec sleep 600"
    job = submit(cluster, script, "--nodelist=node2", "--requeue")
    assert wait_until((tmp_path / "started").exists, PATIENCE)
    on_node = cluster._processes_of("node2")
    before = cluster.processes()
    cluster.kill_node("node2")
    assert len(on_node) >= 4  # slurmd, the one that looks after the job, the job, its orphan
    assert not on_node & cluster.processes()
    assert before - on_node <= cluster.processes()
    assert cluster.node_states()["node2"].startswith("down")
    assert wait_until(lambda: state_of(cluster, job) == "PENDING", PATIENCE)
    cluster.start_node("node2")
    assert cluster.node_states()["node2"] in {"idle", "mixed"}
    assert cluster.command("scontrol", "show", "job", job).count("Restarts=1") == 1


@pytest.mark.slow
def test_a_job_goes_on_while_the_controller_is_gone(cluster: Lab, tmp_path: Path) -> None:
    script = f"touch {tmp_path}/started; until test -e {tmp_path}/go; do sleep 0.1; done; touch {tmp_path}/ended"
    job = submit(cluster, script)
    assert wait_until((tmp_path / "started").exists, PATIENCE)
    cluster.wait_until_saved()
    cluster.kill_controller()
    with pytest.raises(UserError, match=r"got no answer within 1 seconds|failed with status"):
        cluster.command("squeue", seconds=1)
    (tmp_path / "go").touch()
    assert wait_until((tmp_path / "ended").exists, PATIENCE)
    cluster.start_controller()
    assert wait_until(lambda: state_of(cluster, job) == "COMPLETED", PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize(("partition", "warned"), [("scavenge", True), ("scavenge-hard", False)])
def test_jobs_make_room_with_and_without_a_warning(cluster: Lab, tmp_path: Path, partition: str, warned: bool) -> None:
    written = tmp_path / "written"
    trap = f"trap 'echo USR2 >> {written}; exit 1' USR2; echo $SLURM_RESTART_COUNT started >> {written}"
    options = ("--nodelist=node1", "--exclusive", "--requeue", "--signal=B:USR2@30", f"--partition={partition}")
    submit(cluster, f"{trap}; while true; do sleep 0.1; done", *options)
    assert wait_until(written.exists, PATIENCE)
    urgent = submit(cluster, "true", "--nodelist=node1", "--exclusive")
    assert wait_until(lambda: state_of(cluster, urgent) == "COMPLETED", PATIENCE)
    assert ("USR2" in written.read_text()) is warned


@pytest.mark.slow
def test_nothing_is_left_of_two_labs_at_once(cluster: Lab, second_lab: Lab) -> None:
    folder = second_lab.layout.folder
    for _ in range(2):
        with second_lab as other:
            other.command("sbatch", "--output=/dev/null", f"--wrap={ORPHAN}; touch {folder}/ran; exec sleep 600")
            assert wait_until((folder / "ran").exists, PATIENCE)
            assert set(cluster.node_states()) != set(other.node_states())
            assert len(traces_of(folder)) >= 6
        assert traces_of(folder) == set()
        (folder / "ran").unlink()
    assert cluster.node_states() == dict.fromkeys(NODES, "idle")


def test_a_second_start_in_one_folder_is_refused(cluster: Lab) -> None:
    with pytest.raises(UserError, match=rf"runs in {cluster.layout.folder} already.* down {cluster.layout.folder}"):
        Lab(cluster.layout.folder).start()
    assert cluster.node_states() == dict.fromkeys(NODES, "idle")


@pytest.mark.slow
def test_a_lab_can_be_stopped_whose_controller_has_crashed(second_lab: Lab) -> None:
    with second_lab:
        second_lab.kill_controller()
    assert traces_of(second_lab.layout.folder) == set()


@pytest.mark.slow
def test_a_daemon_that_does_not_start_takes_the_others_along(second_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Lab, "_start_slurmd", lambda self, name: start_daemon(self.layout, "slurmd", "--no-such-option")
    )
    with pytest.raises(UserError, match=r"slurmd could not be started: .*no-such-option"):
        second_lab.start()
    assert traces_of(second_lab.layout.folder) == set()


@pytest.mark.slow
def test_up_and_down_from_the_command_line(slurm_is_installed: None, short_path: Path) -> None:
    command = [sys.executable, "-m", "augbench.slurm.lab"]
    started = subprocess.run([*command, "up", str(short_path), "--nodes", "2"], capture_output=True, text=True)
    try:
        name, _, value = started.stdout.removeprefix("export ").strip().partition("=")
        assert (name, Path(*shlex.split(value))) == ("SLURM_CONF", short_path.resolve() / "etc" / "slurm.conf")
        assert Lab(short_path).node_states() == {"node1": "idle", "node2": "idle"}
    finally:
        stopped = subprocess.run([*command, "down", str(short_path)], capture_output=True, text=True)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (0, "", "")
    assert traces_of(short_path) == set()


@pytest.mark.slow
def test_a_database_remembers_jobs_over_a_restart(database_is_installed: None, short_path: Path) -> None:
    lab = Lab(short_path, Shape(nodes=1, accounting=True))
    with lab:
        job = submit(lab, "exit 3")
        asked = ("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}", "--format=State,ExitCode")
        assert wait_until(lambda: lab.command(*asked) == "FAILED|3:0", PATIENCE)
    with lab:
        assert lab.command(*asked) == "FAILED|3:0"
    assert traces_of(short_path) == set()


def test_without_slurm_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch, short_path: Path) -> None:
    monkeypatch.setattr(configuration, "SYSTEM_FOLDERS", ())
    monkeypatch.setenv("PATH", str(short_path))
    with pytest.raises(UserError, match=r"'munged', which is not installed.*apt-get install .* slurm-wlm munge"):
        Lab(short_path).start()


def test_without_a_database_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path: None if name == "mariadbd" else f"/usr/bin/{name}")
    with pytest.raises(UserError, match=r"'mariadbd', which is not installed.*apt-get install .* slurmdbd mariadb"):
        configuration.check_programs(accounting=True)


def test_a_folder_too_deep_for_sockets_is_refused() -> None:
    configuration.check_folder(Path("/" + 59 * "a"))
    with pytest.raises(UserError, match=r"too long for a lab.*at most 60"):
        configuration.check_folder(Path("/" + 60 * "a"))


def test_impossible_shapes_are_refused() -> None:
    for shape in ({"nodes": 0}, {"nodes": 51}, {"gpus": -1}, {"gpus": 6}):
        with pytest.raises(UserError, match=r"Choose \d to \d+ with --"):
            Shape(**shape)


def test_ports_in_use_are_passed_over_or_refused() -> None:
    chosen = configuration.port_base(Shape(nodes=1), None)
    with socket.create_server(("127.0.0.1", chosen + 11)):
        assert configuration.port_base(Shape(nodes=1), None) != chosen
        with pytest.raises(UserError, match=rf"ports above {chosen} are in use.*--port-base"):
            configuration.port_base(Shape(nodes=1), chosen)
    with pytest.raises(UserError, match=r"--port-base 80 leaves no room"):
        configuration.port_base(Shape(nodes=1), 80)


def test_an_unknown_node_is_refused(cluster: Lab) -> None:
    with pytest.raises(UserError, match=r"no node 'node9'. Valid choices: node1, node2, node3, node4"):
        cluster.kill_node("node9")
