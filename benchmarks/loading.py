"""The cost of loading a prepared data set in a worker, and whether workers share its images.

    python -m benchmarks.loading cifar10 --data DIR --workers 2 --out loading.json

Workers are processes of their own. Each loads the data set; once all of them hold it, each takes a few training steps
of `none` with the network `tiny`, which it has done before on made-up images, so that what training needs is there.
Resident memory counts pages that are shared with other processes in each of them; private memory does not.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from augbench.bench.common.files import write_json
from augbench.bench.data.dataset import ImageData, Split
from augbench.bench.experiment.catalogues import dataset_and_options
from augbench.bench.experiment.protocol import Budget
from augbench.bench.training.provenance import code_state, describe_device
from benchmarks.machine import kernel_bytes
from benchmarks.made_up import new_run

STEPS = 10
BATCH = 64


@dataclass(frozen=True)
class Loaded:
    """The measurements of one worker; memory in megabytes (10⁶ bytes) beyond the memory before.

    Attributes:
        seconds: Wall-clock time of loading and of the statistics of the channels.
        resident: Largest resident memory up to then, pages of the files included.
        private: Memory that no other process shares, then.
        private_training: The same after a few training steps.
        images: Megabytes of the training images.
    """

    seconds: float
    resident: float
    private: float
    private_training: float
    images: float


def worker(name: str, root: Path) -> None:
    """Load the data set, report that, wait for a line, train a little, and print the measurements."""
    torch.set_num_threads(1)
    source, options = dataset_and_options(name, {})
    shape = source.load(options, root).train.images.shape[1:]
    made_up = Split(torch.randint(256, (STEPS * BATCH, *shape), dtype=torch.uint8), torch.zeros(STEPS * BATCH).long())
    _train(ImageData(made_up, made_up, 10, "made up"))
    resident, private = _memory("status", "VmRSS"), _memory("smaps_rollup", "Private_Dirty")
    start = time.perf_counter()
    data = source.load(options, root)
    _ = data.mean_and_deviation
    seconds = time.perf_counter() - start
    largest, loaded = _memory("status", "VmHWM"), _memory("smaps_rollup", "Private_Dirty")
    _say("loaded")
    sys.stdin.readline()
    _train(data)
    trained = _memory("smaps_rollup", "Private_Dirty")
    images = data.train.images.nbytes / 1e6
    _say(json.dumps(asdict(Loaded(seconds, largest - resident, loaded - private, trained - private, images))))


def _train(data: ImageData) -> None:
    trainer = new_run("none", "tiny", data, torch.device("cpu"), Budget(epochs=1, batch_size=BATCH))
    for batch in torch.arange(STEPS * BATCH).split(BATCH):
        trainer.train_step(batch)


def _memory(file: str, key: str) -> float:
    """Megabytes that the kernel counts for this process."""
    return kernel_bytes(Path("/proc/self", file), key) / 1e6


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def measure(name: str, root: Path, workers: int) -> list[Loaded]:
    """Load a data set in several workers, all holding it at the same time."""
    command = [sys.executable, "-m", "benchmarks.loading", name, "--data", str(root), "--worker"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            cwd=Path(__file__).parent.parent,
        )
        for _ in range(workers)
    ]
    for process in processes:
        if process.stdout is None or process.stdout.readline() != "loaded\n":
            raise SystemExit("A worker could not load the data set; see above.")
    return [Loaded(**json.loads(process.communicate("go on\n")[0])) for process in processes]


def main() -> None:
    """Measure, print a table and write a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="a prepared data set")
    parser.add_argument("--data", type=Path, required=True, help="folder of data sets")
    parser.add_argument("--workers", type=int, default=2, help="processes at the same time")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.dataset, arguments.data)
        return
    found = measure(arguments.dataset, arguments.data.resolve(), arguments.workers)
    table = Table("worker", "seconds", "resident (MB)", "private (MB)", "private, training (MB)", "images (MB)")
    for number, one in enumerate(found):
        table.add_row(str(number), f"{one.seconds:.2f}", *(f"{value:.0f}" for value in list(asdict(one).values())[1:]))
    Console().print(table)
    if arguments.out is not None:
        about: dict[str, Any] = {"device": describe_device(torch.device("cpu")), "python": platform.python_version()}
        about |= {"torch": torch.__version__, "dataset": arguments.dataset, "code": code_state()}
        write_json(arguments.out, {"about": about, "workers": [asdict(one) for one in found]})


if __name__ == "__main__":
    main()
