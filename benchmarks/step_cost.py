"""The cost of a training step of each learner, as a multiple of a plain step on the same number of images.

    python -m benchmarks.step_cost --network smallnet --size 28 --out step_cost.json

All learners take their steps in turn, in one process and on the same made-up images, so that whatever else the machine
does hits all alike. A plain step is one of `none`, with as many copies of each image as the learner has. A learner's
own bookkeeping is what it does beside making the images: its regulariser, its step, its part of the beginning and end
of an epoch. Its share in the backward pass is part of the step and not of the bookkeeping.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from augbench.bench.common.files import write_json
from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.protocol import Budget
from augbench.bench.training.process_memory import keep_freed_memory
from augbench.bench.training.provenance import choose_device, code_state, describe_device
from augbench.bench.training.trainer import Trainer
from benchmarks.made_up import made_up_data, new_run
from benchmarks.timing import paired_ratio

WARM_UP = 3
LEFT_OUT = ("none", "policy")  # the one is what all are compared with, the other has no cost of its own
IMAGES_OF_AN_EPOCH = 4000  # over whose steps the bookkeeping of an epoch is spread
IMAGES = "augment_indexed"  # what the training loop calls for them
BOOKKEEPING = ("regulariser", "after_backward", "start_epoch", "after_epoch", "learned")


@dataclass
class Stopwatch:
    """Seconds spent in named parts of the steps, a list for each."""

    device: torch.device
    seconds: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Add the duration of the block, with everything that the device has been given to do."""
        self._wait()
        start = time.perf_counter()
        yield
        self._wait()
        self.seconds.setdefault(part, []).append(time.perf_counter() - start)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def wrap(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        """Return the function with its duration measured."""

        def timed(*arguments: Any, **named: Any) -> Any:
            with self.measure(part):
                return function(*arguments, **named)

        return timed


@dataclass
class Contestant:
    """A learner whose steps are measured, once as they are and once taken apart."""

    name: str
    copies: int
    trainer: Trainer
    watch: Stopwatch
    whole: list[float] = field(default_factory=list)

    def step(self, batch: torch.Tensor) -> None:
        """Take one step without looking inside."""
        with self.watch.measure("step"):
            self.trainer.train_step(batch)

    def step_in_parts(self, batch: torch.Tensor) -> None:
        """Take one step with the start and end of an epoch, and measure the learner's hooks on their own."""
        method = self.trainer.method
        parts = {name: getattr(method, name) for name in (IMAGES, *BOOKKEEPING)}
        for name, hook in parts.items():
            setattr(method, name, self.watch.wrap(hook, name))
        method.start_epoch(0)
        self.trainer.train_step(batch)
        method.after_epoch(0)
        method.learned()
        for name in parts:
            delattr(method, name)


def contestant(name: str, copies: int, data: ImageData, options: argparse.Namespace) -> Contestant:
    """Prepare a learner; methods with no number of copies of their own get `copies`."""
    device = choose_device(options.device)
    budget = Budget(epochs=10, batch_size=options.batch, baseline_copies=copies)
    trainer = new_run(name, options.network, data, device, budget)
    return Contestant(name, trainer.method.copies, trainer, Stopwatch(device))


def measure(contestants: Sequence[Contestant], batch: int, repeats: int) -> None:
    """Let all take their steps in turn; the first few are not counted."""
    device = contestants[0].watch.device
    images = torch.arange(batch, device=device)
    for repeat in range(WARM_UP + repeats):
        if repeat == WARM_UP:
            for each in contestants:
                each.watch.seconds.clear()
        for each in contestants:
            each.step(images)
            each.step_in_parts(images)


def summarise(contestants: Sequence[Contestant], steps_per_epoch: int) -> list[dict[str, Any]]:
    """Return a row for each learner with the medians of its parts, in milliseconds, and their ratios."""
    plain = {each.copies: _milliseconds(each, "step") for each in contestants if each.name == "none"}
    rows = []
    for each in contestants:
        per_step = _milliseconds(each, "regulariser") + _milliseconds(each, "after_backward")
        per_epoch = sum(_milliseconds(each, part) for part in ("start_epoch", "after_epoch", "learned"))
        step = _milliseconds(each, "step")
        bookkeeping = per_step + per_epoch / steps_per_epoch
        plain_step = _plain(contestants, each.copies).watch.seconds["step"]
        ratio = paired_ratio(each.watch.seconds["step"], plain_step)
        rows.append(
            {
                "method": each.name,
                "copies": each.copies,
                "step_ms": step,
                "plain_step_ms": plain[each.copies],
                "ratio": ratio.median,
                "ratio_quartiles": [ratio.lower, ratio.upper],
                "augment_ms": _milliseconds(each, IMAGES),
                "bookkeeping_ms": bookkeeping,
                "bookkeeping_share": bookkeeping / step,
            }
        )
    return rows


def _milliseconds(each: Contestant, part: str) -> float:
    return 1000 * statistics.median(each.watch.seconds[part])


def _plain(contestants: Sequence[Contestant], copies: int) -> Contestant:
    return next(each for each in contestants if each.name == "none" and each.copies == copies)


def show(rows: Sequence[dict[str, Any]], title: str) -> Table:
    """Build the table for the terminal."""
    headings = ("method", "copies", "step (ms)", "/ plain step", "quartiles", "images (ms)", "bookkeeping")
    table = Table(*headings, title=title)
    for row in rows:
        low, high = row["ratio_quartiles"]
        table.add_row(
            *(row["method"], str(row["copies"]), f"{row['step_ms']:.1f}", f"{row['ratio']:.3f}"),
            *(f"{low:.3f} to {high:.3f}", f"{row['augment_ms']:.2f}", f"{100 * row['bookkeeping_share']:.2f} %"),
        )
    return table


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Cost of a training step of each learner.")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="learners beside none; all by default")
    parser.add_argument("--network", default="smallnet", help="registered network")
    parser.add_argument("--size", type=int, default=28, help="side of the images, pixels")
    parser.add_argument("--channels", type=int, default=1, help="1 for grey images, 3 for colour")
    parser.add_argument("--batch", type=int, default=128, help="images in a batch, copies not counted")
    parser.add_argument("--repeats", type=int, default=20, help="measured steps of each learner")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--threads", type=int, default=1, help="threads on a CPU")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    return parser.parse_args()


def main() -> None:
    """Measure, print the table and write the file."""
    options = parse()
    torch.set_num_threads(options.threads)
    keep_freed_memory()  # as runs do
    data = made_up_data(IMAGES_OF_AN_EPOCH, options.channels, options.size)
    names = options.methods or [entry.name for entry in methods() if entry.name not in LEFT_OUT]
    contestants = [contestant(name, 1, data, options) for name in ["none", *names]]
    for copies in sorted({each.copies for each in contestants} - {1}):
        contestants.append(contestant("none", copies, data, options))
    measure(contestants, options.batch, options.repeats)
    rows = summarise(contestants, len(data.train) // options.batch)
    device = contestants[0].watch.device
    shape = f"{options.size}×{options.size}×{options.channels}"
    title = f"{options.network}, {shape}, batch {options.batch}, {describe_device(device)}"
    Console().print(show(rows, title))
    if options.out:
        about = {"device": describe_device(device), "torch": torch.__version__, "python": platform.python_version()}
        settings = {key: str(value) for key, value in vars(options).items()}
        write_json(options.out, {"about": about | {"code": code_state()}, "settings": settings, "rows": rows})


if __name__ == "__main__":
    main()
