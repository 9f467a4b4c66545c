"""The peak memory of training, each run in a process of its own (Linux).

On a CPU it is what resident memory grows by, at most, from when everything is imported and the images are loaded, up to
the end of a few steps; on a GPU what torch has allocated at most, images, network and optimiser included. `images` are
the augmented float images of one step, without anything else: the least that a step can need.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from augbench.bench.experiment.protocol import Budget
from augbench.bench.training.process_memory import keep_freed_memory
from benchmarks.machine import kernel_bytes
from benchmarks.made_up import made_up_data, new_run
from benchmarks.rows import Row, Settings
from benchmarks.timing import paired_ratio

SECTION = "memory"
IMAGES = "images"
ROUNDS, STEPS = 3, 3
METHODS = ("none", "scale", "trivialaugment-wide")
# network, channels, size, images in a step
ON_CPU = (("tiny", 1, 28, 512), ("tiny", 3, 32, 512), ("smallnet", 1, 14, 128))
ON_GPU = (("tiny", 1, 28, 512), ("smallnet", 1, 28, 512), ("wrn-28-10", 3, 32, 512))
QUICK = (("tiny", 1, 14, 8),)


@dataclass(frozen=True)
class Case:
    """The data and network of a run.

    Attributes:
        network: Registered network.
        channels: Colour channels.
        size: Side of the images, pixels.
        images: Images of a step, copies counted.
    """

    network: str
    channels: int
    size: int
    images: int

    def __str__(self) -> str:
        return f"{self.network}, {self.size}×{self.size}×{self.channels}, {self.images} images"

    @property
    def bytes(self) -> int:
        """Size of the images as floats."""
        return 4 * self.images * self.channels * self.size**2


def measure(settings: Settings) -> list[Row]:
    """Measure each method in turns; ratios are to `none`."""
    shapes = QUICK if settings.quick else ON_GPU if settings.device.type == "cuda" else ON_CPU
    rounds = 1 if settings.quick else min(settings.repeats, ROUNDS)
    rows = []
    for done, case in enumerate(Case(*shape) for shape in shapes):
        settings.progress(done, len(shapes), str(case))
        found: dict[str, list[float]] = {method: [] for method in (METHODS[:2] if settings.quick else METHODS)}
        for _ in range(rounds):
            for method, values in found.items():
                values.append(measured_apart(method, case, settings))
        of_case = [Row(SECTION, str(case), IMAGES, [case.bytes], unit="B")]
        for method, values in found.items():
            reference = "" if method == "none" else "none"
            ratio = paired_ratio(values, found["none"]) if reference else None
            of_case.append(Row(SECTION, str(case), method, values, unit="B", reference=reference, ratio=ratio))
        settings.keep(of_case)
        rows += of_case
    return rows


def measured_apart(method: str, case: Case, settings: Settings) -> float:
    """Start a process that measures one method and return the bytes that it has found."""
    shape = [case.network, str(case.channels), str(case.size), str(case.images)]
    command = [sys.executable, "-m", "benchmarks.memory", method, *shape, str(settings.device), str(settings.threads)]
    environment = os.environ | {"OMP_NUM_THREADS": str(settings.threads)}
    root = Path(__file__).parent.parent
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment, cwd=root)  # noqa: S603 - our own
    return float(json.loads(done.stdout))


def peak(method: str, case: Case, device: torch.device) -> int:
    """Take a few steps and return the peak memory in bytes."""
    data = made_up_data(case.images, case.channels, case.size)
    copies = new_run(method, "tiny", data, torch.device("cpu"), Budget(epochs=100, batch_size=1)).method.copies
    before = _resident("VmRSS")
    if device.type == "cpu":
        Path("/proc/self/clear_refs").write_text("5")  # the highest mark begins anew
    batch = case.images // copies
    trainer = new_run(method, case.network, data, device, Budget(epochs=100, batch_size=batch))
    for _ in range(STEPS):
        trainer.train_step(torch.arange(batch, device=device))
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return _resident("VmHWM") - before


def _resident(key: str) -> int:
    return kernel_bytes(Path("/proc/self/status"), key)


def main() -> None:
    """Measure one method in this process and print the number of bytes."""
    parser = argparse.ArgumentParser(description="Peak memory of one method: what the section starts for each.")
    parser.add_argument("method")
    parser.add_argument("network")
    parser.add_argument("channels", type=int)
    parser.add_argument("size", type=int)
    parser.add_argument("images", type=int)
    parser.add_argument("device", type=torch.device)
    parser.add_argument("threads", type=int)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    keep_freed_memory()  # as runs do
    case = Case(given.network, given.channels, given.size, given.images)
    sys.stdout.write(json.dumps(peak(given.method, case, given.device)))


if __name__ == "__main__":
    main()
