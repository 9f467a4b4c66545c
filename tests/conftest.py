"""Fixtures that several folders of tests share."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from hypothesis import settings
from method_factories import required

from augbench.bench.commands.main import main
from augbench.bench.common.files import write_json
from augbench.bench.data.dataset import DatasetOptions, ImageData, Split
from augbench.bench.data.source_files import FileResolver
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.protocol import Budget, Protocol
from augbench.bench.experiment.spec import RunSpec, dataset_component, method_component, network_component
from augbench.bench.runs.claim import this_machine
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.output_folder import mark_output_folder
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.submissions import Submission, new_submission
from augbench.bench.training import plain_step
from augbench.bench.training.stopping import StopRequested, StopSignal
from augbench.datasets.cifar10 import Cifar10
from augbench.datasets.mnist import Mnist
from augbench.datasets.mnist5k import Mnist5k
from augbench.datasets.rotmnist import RotMnist

T = TypeVar("T")

NOT_REPEATABLE = ("seconds", "plain_steps", "plain_step_timings", "attempts")  # may differ between attempts at one run

MakeSpec = Callable[..., RunSpec]
CommandLine = Callable[..., tuple[int, str, str]]
SetRoom = Callable[..., None]

settings.register_profile("patient", deadline=None)  # how long an example takes says how busy the machine is
settings.load_profile("patient")


def pytest_configure() -> None:
    """Let no process that tests start wait for its threads by spinning, which takes cores from other tests."""
    os.environ.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that at the end no process waits for another one."""
    long = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Give every test the same number of threads, on which floating-point sums depend."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def few_plain_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runs time two plain steps, which else take longer than all the rest of a short run."""
    for name in ("WARM_UP_STEPS", "FEWEST_STEPS", "ENOUGH_STEPS"):
        monkeypatch.setattr(plain_step, name, 2)


def _fixed_work() -> None:
    """Compute something that takes 0.3 seconds on the machine that the limits of tests were chosen on."""
    for number in range(80_000):  # one after the other, since the collector of garbage would make many at once slower
        json.loads(json.dumps({"number": number, "values": [number / 7, number / 3]}))


@pytest.fixture
def effort() -> Callable[[Callable[[], T]], tuple[T, float]]:
    """Call something; returns its result, and its processor time in multiples of that of some fixed work.

    The fixed work is done before and after it. So the number says little about the machine, or about what else it does.
    """

    def measure(call: Callable[[], T]) -> tuple[T, float]:
        clock = [time.process_time()]
        _fixed_work()
        clock.append(time.process_time())
        result = call()
        clock.append(time.process_time())
        _fixed_work()
        before, taken, after = np.diff([*clock, time.process_time()])
        return result, float(2 * taken / (before + after))

    return measure


@pytest.fixture
def set_room(monkeypatch: pytest.MonkeyPatch) -> SetRoom:
    """Let disks have so many bytes and files left, out of so many."""

    def change(free: int, *, of: int = 10**12, files: int = 10**6, of_files: int = 10**9) -> None:
        disk = os.statvfs_result((1, 1, of, free, free, of_files, files, files, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda path: disk)

    return change


@pytest.fixture
def few_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave 400 training and 100 test images of the digits, so that a run takes a moment."""
    load = Mnist5k.load

    def load_few(self: Mnist5k, options: DatasetOptions, root: Path) -> ImageData:
        digits = load(self, options, root)
        upright = None if digits.upright_test is None else _every_tenth(digits.upright_test)
        train, test = _every_tenth(digits.train), _every_tenth(digits.test)
        return replace(digits, train=train, test=test, upright_test=upright)

    monkeypatch.setattr(Mnist5k, "load", load_few)


def _every_tenth(split: Split) -> Split:
    return Split(split.images[::10], split.labels[::10])


@pytest.fixture(scope="session")
def real_files() -> Path:
    """Folder with the real files of MNIST and CIFAR-10, in torchvision's layout; outside CI it may be missing."""
    given = os.environ.get("AUGBENCH_DATA")
    if given and all((Path(given) / folder).is_dir() for folder in ("MNIST/raw", "cifar-10-batches-py")):
        return Path(given)
    reason = f"AUGBENCH_DATA ({given or 'not set'}) is no folder that holds MNIST/raw and cifar-10-batches-py"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; in CI the real files have to be tested")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def prepared_root(real_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepare mnist, rotmnist and cifar10 once from their real files; not to be changed."""
    root = tmp_path_factory.mktemp("data")
    for source in (Mnist(), RotMnist(), Cifar10()):
        source.prepare(FileResolver(root, real_files, offline=True))
    return root


class FileServer:
    """A web server on this machine that serves the files of a folder, whole or from some byte on.

    Attributes:
        folder: What is in it is served.
        ranges: Whether requests for the rest of a file are understood.
        cut: Bytes of an answer after which the connection is closed, or nothing.
        page: A web page that is sent in place of every file, or nothing.
        asked: The path of each request and where it wanted to begin.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ranges = True
        self.cut: int | None = None
        self.page: bytes | None = None
        self.asked: list[tuple[str, int]] = []
        self.port = 0

    def url(self, name: str) -> str:
        """Address of a file."""
        return f"http://127.0.0.1:{self.port}/{name}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a request."""
        path = self.folder / handler.path.lstrip("/")
        wanted = handler.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-")
        self.asked.append((handler.path.lstrip("/"), int(wanted)))
        start = int(wanted) if self.ranges and not self.page else 0
        if not (path.is_file() or self.page):
            return handler.send_error(404)
        content = self.page or path.read_bytes()
        if start and start >= len(content):
            return handler.send_error(416)
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        handler.send_header("Content-Length", str(len(content) - start))
        handler.end_headers()
        handler.wfile.write(content[start:][: self.cut])


@pytest.fixture
def file_server(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """Serve an empty folder."""
    served = FileServer(tmp_path_factory.mktemp("served"))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("AUGBENCH_OFFLINE", raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        served.port = running.server_port
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        running.shutdown()
        thread.join()


@pytest.fixture
def make_spec() -> MakeSpec:
    """Make the specification of a short run."""

    def make(method: str = "none", *, seed: int = 0, epochs: int = 1, **hyperparameters: Any) -> RunSpec:
        return RunSpec(
            protocol=Protocol(test_time_draws=(1, 2), test_time_repeats=2, probe_angles=3),
            method=method_component(method, required(methods().get(method)) | hyperparameters, "a test"),
            dataset=dataset_component("mnist5k", {"size": 14}, "a test"),
            network=network_component("tiny"),
            budget=Budget(epochs=epochs, batch_size=64),
            seed=seed,
        )

    return make


@pytest.fixture
def settings(tmp_path: Path) -> ExecutionSettings:
    """Place runs on one CPU thread."""
    return ExecutionSettings("cpu", workers=2, threads=1, data=tmp_path / "data")


@pytest.fixture
def stop() -> StopSignal:
    """Return a signal that nobody gives."""
    return StopSignal(os.getppid())


class StopAfter(StopSignal):
    """A request to stop that comes when a run has asked so many times."""

    def __init__(self, questions: int) -> None:
        super().__init__(os.getppid())
        self.left = questions

    def check(self) -> None:
        """Count down."""
        self.left -= 1
        if self.left == 0:
            raise StopRequested


@pytest.fixture
def stop_after() -> Callable[[int], StopSignal]:
    """Make a signal that comes when a run has asked so many times."""
    return StopAfter


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[[RunSpec], RunFolder]:
    """Make the folder of a run, each call another one."""
    made: list[RunFolder] = []

    def make(spec: RunSpec) -> RunFolder:
        folder = RunFolder(tmp_path / f"out{len(made)}" / "runs" / spec.folder_name)
        folder.write_spec(spec)
        made.append(folder)
        return folder

    return make


@pytest.fixture
def augbench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Run the command line in this process; returns exit status, standard output and standard error."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["augbench", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_status:
            main()
        captured = capsys.readouterr()
        code = exit_status.value.code
        return (code if isinstance(code, int) else 0 if code is None else 1), captured.out, captured.err

    return run


COMMANDS_IN_TURN = """
import json, sys
from augbench.bench.commands.main import main
codes = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["augbench", *arguments]
    try:
        main()
    except SystemExit as end:
        codes.append(end.code or 0)
print(json.dumps([codes, list(sys.modules)]))
"""


@pytest.fixture
def imported_by() -> Callable[..., tuple[list[int], set[str]]]:
    """Run commands in one process of their own; returns their exit statuses and the modules that were imported."""

    def run(*commands: Sequence[str | Path]) -> tuple[list[int], set[str]]:
        arguments = json.dumps([list(map(str, command)) for command in commands])
        process = subprocess.run(
            [sys.executable, "-c", COMMANDS_IN_TURN, arguments], capture_output=True, text=True, check=True
        )
        codes, modules = json.loads(process.stdout.splitlines()[-1])
        return codes, set(modules)

    return run


@pytest.fixture
def outcome() -> Callable[[RunFolder], dict[str, Any]]:
    """Collect everything about a finished run that must repeat bit for bit."""
    return _outcome


def _outcome(folder: RunFolder) -> dict[str, Any]:
    """Everything about a finished run that must repeat bit for bit."""
    result = folder.read_result()
    assert result is not None
    with np.load(folder.predictions, allow_pickle=False) as arrays:
        predictions = {name: array.tobytes() for name, array in arrays.items()}
    model = torch.load(folder.model, weights_only=True)
    tensors = model["network"] | model["method"]["learnable"]
    weights = {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}
    kept = {key: value for key, value in result.items() if key not in NOT_REPEATABLE}
    return {"result": kept, "predictions": predictions, "weights": weights, "rows": folder.read_metrics()}


class Planter:
    """Plants runs in any state in an output folder, without training.

    Attributes:
        out: The output folder.
    """

    def __init__(self, out: Path, make_spec: MakeSpec) -> None:
        self.out = out
        self.make_spec = make_spec
        self.planted = 0

    def planned(self, method: str = "none") -> RunFolder:
        """Plant a run that was placed and has not begun; each has another seed."""
        mark_output_folder(self.out)
        spec = self.make_spec(method, seed=self.planted)
        self.planted += 1
        folder = RunFolder(self.out / "runs" / spec.folder_name)
        folder.write_spec(spec)
        return folder

    def done(self, method: str = "none") -> RunFolder:
        """Plant a run that looks finished to all but those who read what it has predicted."""
        folder = self.planned(method)
        np.savez(folder.predictions)
        write_json(folder.path / "result.json", {"identity": folder.read_spec().identity})
        return folder

    def ended(self, state: RunState, method: str = "none", **details: Any) -> RunFolder:
        """Plant a run that has ended without a result."""
        folder = self.planned(method)
        folder.write_status(state, **details)
        return folder

    def running(self, method: str = "none", **details: Any) -> RunFolder:
        """Plant a run that a process on another machine executes, by all that can be known here."""
        folder = self.ended(RunState.RUNNING, method, **details)
        (folder.path / "lock").touch()
        owner = {"machine": "another", "host": "node7", "pid": 1, "launcher": "slurm", "job": "31_4"}
        write_json(folder.path / "claim-1.json", {"owner": owner})
        return folder

    def killed(self, method: str = "none", **details: Any) -> RunFolder:
        """Plant a run whose process has died without a word."""
        folder = self.ended(RunState.RUNNING, method, **details)
        (folder.path / "lock").touch()
        owner = {"machine": this_machine(), "host": "here", "pid": 1, "launcher": "local", "job": None}
        write_json(folder.path / "claim-1.json", {"owner": owner})
        return folder

    def submitted(self, *folders: RunFolder, **fields: Any) -> Submission:
        """Plant the record of an array of jobs."""
        names = [folder.path.name for folder in folders]
        nothing: dict[str, Any] = {"resources": {}, "arguments": {}, "code": {}}
        made = new_submission("slurm", self.out, names, **nothing, command="augbench run demo --profile lab")
        made = made.model_copy(update={"job": "31"} | fields)
        made.write()
        return made


@pytest.fixture
def plant(tmp_path: Path, make_spec: MakeSpec) -> Planter:
    """Plant runs in the folder `out`."""
    return Planter(tmp_path / "out", make_spec)
