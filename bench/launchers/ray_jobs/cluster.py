"""A Ray cluster to place runs on: one that runs already, or one of our own that ends with the launch.

What our own one needs stands here: the cores and GPUs of this process, not of the whole machine; a temporary folder,
ports and a secret of its own; nothing but the loopback interface; no dashboard and no usage statistics. Only what was
started here is stopped.
"""

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from augbench.bench.common.errors import UserError
from augbench.bench.planning.profile import RaySettings
from augbench.bench.training.process_memory import usable_memory
from augbench.bench.training.provenance import usable_cores

CONNECT_SECONDS = 5.0
OBJECT_STORE_BYTES = 100 * 2**20  # nothing of ours goes through it
LONGEST_TEMPORARY_FOLDER = 30  # characters; Ray puts sockets below it, whose paths may have 107
THIS_HOST = ("localhost", "127.0.0.1", "::1")
CLOUD_FILE = "ray_bootstrap_config.yaml"

# Ray reads these while it is imported or started, and Tune while it runs.
QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".?",  # of what nodes and workers print, nothing is printed here
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_THRESHOLD_S": "60",
}
LOOPBACK = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # in spite of its name: every listener is on 127.0.0.1
    "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9/",
}


@dataclass(frozen=True)
class Node:
    """What one machine of a cluster has for runs.

    Attributes:
        cpus: CPU cores.
        gpus: GPUs.
        memory: Bytes of main memory.
    """

    cpus: float
    gpus: float
    memory: float


def require_ray(settings: RaySettings) -> ModuleType:
    """Import Ray with Tune, with what it reads from the environment while it is imported, once in a process.

    Args:
        settings: Which cluster this process is to use.

    Raises:
        UserError: If it is not installed.
    """
    own = settings.address is None
    if own and "ray" not in sys.modules:  # else how it asks for secrets is settled
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", uuid.uuid4().hex)
    try:
        with variables(QUIET | LOOPBACK if own else QUIET):
            import ray
            import ray.tune
    except ImportError as error:
        raise UserError(
            f"This needs Ray Tune, which cannot be imported here ({error}). Install it with "
            "`pip install 'augbench[ray]'`; other launchers do not need it."
        ) from None
    return ray


def own_node(settings: RaySettings) -> Node:
    """What a cluster of our own has: as the profile says, else all that this process may use.

    Raises:
        UserError: If the profile says more GPUs than are visible.
    """
    import torch  # here, since a list of launchers needs none

    cpus = settings.cpus or usable_cores()
    visible = torch.cuda.device_count()
    if settings.gpus is not None and 0 < visible < settings.gpus:
        raise UserError(
            f"The profile's [ray] says gpus = {settings.gpus}, but {visible} are visible here. Lower it or leave it "
            "out, or make more visible in CUDA_VISIBLE_DEVICES."
        )
    memory = usable_memory() - OBJECT_STORE_BYTES
    return Node(cpus, visible if settings.gpus is None else settings.gpus, memory)


def nodes(settings: RaySettings) -> list[Node]:
    """What each machine of a cluster has, without starting a cluster of our own.

    Raises:
        UserError: If Ray is not installed, or the cluster does not answer.
    """
    require_ray(settings)
    if settings.address is None:
        return [own_node(settings)]
    with connected(settings, {}):
        return connected_nodes()


def connected_nodes() -> list[Node]:
    """What each machine has of the cluster that this process is connected to."""
    import ray

    every_node: Callable[[], list[dict[str, Any]]] = ray.nodes
    found = [node["Resources"] for node in every_node() if node["Alive"]]
    return [Node(one.get("CPU", 0), one.get("GPU", 0), one.get("memory", 0)) for one in found]


@contextmanager
def connected(settings: RaySettings, environment: Mapping[str, str]) -> Iterator[None]:
    """Be connected to the cluster of a profile for the length of the block; one of our own is started and stopped.

    Args:
        settings: Which cluster.
        environment: Variables of the processes that execute runs.

    Raises:
        UserError: If Ray is not installed, or the cluster does not answer or cannot be started.
    """
    ray = require_ray(settings)
    if settings.address is not None:
        _check_answers(ray, settings.address)
    with variables(QUIET), _temporary_folder() as folder:
        if settings.address is not None:
            with _attached(ray, settings.address, folder, environment):
                yield
        else:
            home = {"HOME": os.environ["HOME"]} if "HOME" in os.environ else {}
            with _started(own_node(settings), folder) as address:
                with _attached(ray, address, folder, home | dict(environment)):
                    yield


@contextmanager
def _started(node: Node, folder: Path) -> Iterator[str]:
    """Start a cluster for the length of the block; yields its address."""
    home = folder / "home"
    home.mkdir()
    (home / CLOUD_FILE).write_text("{}\n")  # without it Ray asks which cloud this is
    options = {
        "num_cpus": node.cpus,
        "num_gpus": node.gpus,
        "_memory": node.memory,
        "object_store_memory": OBJECT_STORE_BYTES,
        "_temp_dir": str(folder),
    }
    own = {"HOME": str(home), "PYTHONPATH": os.pathsep.join(python_path())}
    secrets = {"RAY_AUTH_MODE": os.environ.get("RAY_AUTH_MODE", "disabled")}
    log = folder / "head.log"
    with log.open("wb") as errors:
        head = subprocess.Popen(
            [sys.executable, "-P", "-m", "augbench.bench.launchers.ray_jobs.head"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | LOOPBACK | own | secrets,
            cwd=folder,
            start_new_session=True,
        )
    with head:
        if head.stdin is None or head.stdout is None:
            raise UserError("Ray could not be started here: its process has no pipes.")
        try:
            head.stdin.write(json.dumps(options).encode() + b"\n")
            head.stdin.flush()
            answer = head.stdout.readline()
            said = json.loads(answer) if answer else {"error": log.read_text(errors="replace")}
            if "error" in said:
                raise UserError(f"Ray could not be started here: {_one_line(said['error'])}. See [ray] in the profile.")
            yield said["address"]
        finally:
            head.stdin.close()  # which ends it
            head.wait()


@contextmanager
def _attached(ray: ModuleType, address: str, folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Be connected to a cluster that runs already."""
    problem = f"The Ray cluster {address!r} cannot be used"
    if ray.is_initialized():
        raise UserError(f"{problem}: this process is connected to a cluster already. Call ray.shutdown() first.")
    options = {"log_to_driver": False, "logging_level": logging.ERROR, "runtime_env": {"env_vars": dict(environment)}}
    try:
        with chdir(folder), _handler_kept():  # Ray puts the present folder first on the module path of its workers
            ray.init(address=address, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        ray.shutdown()
        raise UserError(f"{problem}: {_one_line(str(error))}. See [ray] in the profile; the runs are kept.") from None
    try:
        yield
    finally:
        ray.shutdown()


def _one_line(text: str) -> str:
    return " ".join(text.split())[-500:].rstrip(".")


def python_path() -> list[str]:
    """Folders of PYTHONPATH, absolute, since processes of Ray have other working directories."""
    return [str(Path(folder).absolute()) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]


def _check_answers(ray: ModuleType, given: str) -> None:
    """Make sure within seconds that a cluster answers at an address; Ray itself takes minutes to find out."""
    address = os.environ.get("RAY_ADDRESS", given) if given == "auto" else given
    if address == "auto":  # Ray looks for a cluster that was started here
        return
    host, _, port = address.rpartition(":")
    if "/" in address or not host or not port.isdecimal():
        raise UserError(
            f'{address!r} is no address of a Ray cluster. In [ray] of the profile, address is "auto" or that of the '
            'head node, such as "host:6379"; without it a cluster is started here.'
        )
    reached = ray.util.get_node_ip_address() if host in THIS_HOST else host  # as Ray itself takes them
    try:
        socket.create_connection((reached, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"The Ray cluster {address!r} does not answer at {reached}: {error}. Start it with `ray start --head`, "
            "correct address in [ray] of the profile, or leave it out to have a cluster started here."
        ) from None


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the length of the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _handler_kept() -> Iterator[None]:
    """Keep this process's handler of SIGTERM, which Ray replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    parent = tempfile.gettempdir()
    short = parent if len(parent) <= LONGEST_TEMPORARY_FOLDER else "/tmp"  # noqa: S108 - the folder in it is our own
    folder = Path(tempfile.mkdtemp(prefix="augbench-", dir=short))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
