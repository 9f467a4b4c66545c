"""Measure everything on a machine with one H100 and write it as JSON; see `benchmarks/gpu.py`, which starts this."""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import torch
import torch._dynamo  # takes seconds, which the forks of this process need not spend again

from augbench.bench.augmentation import fused_resampling
from augbench.bench.common.files import write_json
from benchmarks import gpu_kernel, gpu_networks, gpu_runs
from benchmarks.gpu_parts import GOAL, Outcome, Part, Work, measure_parts
from benchmarks.rows import Row, Settings
from benchmarks.sections import section

ROUNDS = 20
KERNEL = "kernel"


def parts() -> tuple[Part, ...]:
    """All parts, the most important first; together they have as much time as `benchmarks/gpu.py` gives."""
    return (
        Part("machine", 12, gpu_kernel.measure_machine),
        Part(KERNEL, 45, gpu_kernel.measure),
        Part("waiting", 35, gpu_runs.measure_waiting, needs_gpu=True),
        Part("smallnet", 35, partial(gpu_networks.measure, name="smallnet")),
        Part("wrn-28-10", 60, partial(gpu_networks.measure, name="wrn-28-10")),
        Part("augmentation of wrn-28-10", 15, gpu_networks.measure_augmentation),
        Part("resnet34", 30, partial(gpu_networks.measure, name="resnet34")),
        Part("rotmnist", 65, gpu_runs.measure_paper_budget),
        Part("leaderboard", 30, gpu_runs.measure_leaderboard),
        Part("section augmentation", 20, partial(measure_section, name="augmentation", rounds=10)),
        Part("section step", 8, partial(measure_section, name="step")),
        Part("section epoch", 16, partial(measure_section, name="epoch", rounds=5)),
        Part("section seeds", 12, partial(measure_section, name="seeds")),
        Part("cifar10", 35, gpu_runs.measure_short_runs),
        Part("launches", 21, gpu_kernel.measure_launches, needs_gpu=True),
        Part("section memory", 20, partial(measure_section, name="memory", rounds=1)),
    )


def measure_section(work: Work, name: str, rounds: int = ROUNDS) -> None:
    """Measure a section of `python -m benchmarks`; the goals of its rows are those for two CPU cores."""

    def keep(rows: Sequence[Row]) -> None:
        for row in rows:
            work.add(f"{row.case}: {row.contestant}", row.as_json())

    repeats = min(2, rounds) if work.quick else rounds
    section(name)(Settings(work.device, repeats, threads=1, quick=work.quick, keep=keep))


def with_a_kernel_that_works(measure: Callable[[Work], None], work: Work) -> None:
    """Measure with the plain path if the fused kernel was tried and did not finish, and record which path is used."""
    tried = work.earlier.get(KERNEL)
    works = any(name.startswith("fused") and "failed" not in found for name, found in (tried or {}).items())
    if work.device.type != "cuda" or tried is None or works:
        measure(work)
        return
    work.add("resampling", "by the plain path, since the fused kernel failed")
    with patch.object(fused_resampling, "usable", return_value=False):
        measure(work)


def measure(work: Work, chosen: Sequence[Part], seconds: float, out: Path) -> dict[str, Outcome]:
    """Measure parts, writing the file anew after every number.

    Args:
        work: Device, sizes and what was carried along.
        chosen: The parts.
        seconds: Time for everything.
        out: JSON file.
    """
    start = time.monotonic()
    about = {"device": str(work.device), "quick": work.quick, "allowed": seconds}

    def keep(outcomes: Mapping[str, Outcome]) -> None:
        taken = about | {"seconds": time.monotonic() - start}
        content = {"about": taken, "parts": {name: asdict(outcome) for name, outcome in outcomes.items()}}
        # what is not finite, as a word; what is no JSON after all, as text: nothing else may be lost by it
        write_json(out, json.loads(json.dumps(content, default=str), parse_constant=str))

    safe = [replace(part, measure=partial(with_a_kernel_that_works, part.measure)) for part in chosen]
    return measure_parts(safe, work, seconds, keep)


def summary(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Write a line for the outcome of each part, each of its goals and each of its failures."""
    for name, outcome in outcomes.items():
        reason = outcome.reason.strip().rpartition("\n")[2]
        yield f"{name}: {outcome.state}, {outcome.seconds:.1f} s of {outcome.allowed:.0f} s {reason}".rstrip()
        for key, value in outcome.found.items():
            if key.startswith(GOAL):
                bound = f"{'≥' if value['at_least'] else '≤'} {value['bound']:g}"
                verdict = "met" if value["met"] else "NOT MET"
                yield f"    {key.removeprefix(GOAL)}: {value['value']:.4g} ({bound}: {verdict})"
            elif isinstance(value, dict) and "failed" in value:
                yield f"    {key}: {value['failed']}"


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", nargs="*", default=[])
    given = parser.parse_args()
    names = [part.name for part in parts()]
    if unknown := set(given.parts) - set(names):
        parser.error(f"no part {', '.join(sorted(unknown))}; choose from {', '.join(names)}")
    return given


def main() -> None:
    """Measure the chosen parts and print their outcomes; nothing before may touch the GPU, or no fork could use it."""
    given = parse()
    torch.set_num_threads(1)  # threads do not survive a fork
    gc.freeze()  # what is imported is no garbage, and collecting would copy it into every fork
    chosen = [part for part in parts() if not given.parts or part.name in given.parts]
    work = Work(torch.device(given.device), given.folder, given.quick)
    outcomes = measure(work, chosen, given.seconds, given.out)
    sys.stdout.writelines(line + "\n" for line in summary(outcomes))


if __name__ == "__main__":
    main()
