"""Measure sections side by side, print a table for each and write everything as JSON.

python -m benchmarks --out benchmarks.json
python -m benchmarks augmentation --device cuda
"""

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from augbench.bench.common.files import write_json
from augbench.bench.training.process_memory import keep_freed_memory
from augbench.bench.training.provenance import choose_device
from benchmarks import machine
from benchmarks.rows import Row, Settings
from benchmarks.sections import SECTIONS, section
from benchmarks.showing import progress_bar, tables


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks", description="Measure speed and memory side by side.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="smallest shapes only: whether it runs, not how fast")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--threads", type=int, default=2, help="threads on a CPU")
    parser.add_argument("--repeats", type=int, default=20, help="rounds of each comparison")
    parser.add_argument(
        "--processor-time", action="store_true", help="seconds of the processor, not of the clock, on a CPU"
    )
    parser.add_argument("--out", type=Path, help="JSON file to write, after each section")
    given = parser.parse_args()
    if unknown := set(given.sections) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; choose from {', '.join(SECTIONS)}")
    given.device = choose_device(given.device)
    if given.processor_time and given.device.type != "cpu":
        parser.error(f"--processor-time leaves out what {given.device} does; add --device cpu")
    return given


def as_json(settings: Settings, rows: list[Row]) -> dict[str, Any]:
    """Collect rows with everything that they depend on."""
    return {
        "about": machine.describe(settings.device),
        "command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
        "settings": {name: getattr(settings, name) for name in ("repeats", "threads", "quick", "processor_time")},
        "rows": [row.as_json() for row in rows],
    }


def main() -> None:
    """Measure, print and write."""
    given = parse()
    torch.set_num_threads(given.threads)
    keep_freed_memory()  # as runs do, and for all contestants
    settings = Settings(given.device, given.repeats, given.threads, given.quick, given.processor_time)
    console = Console()
    rows: list[Row] = []
    for name in given.sections or SECTIONS:
        with progress_bar(console, name) as tell:
            found = section(name)(replace(settings, progress=tell))
        console.print(tables(SECTIONS[name], found))
        rows += found
        if given.out is not None:
            write_json(given.out, as_json(settings, rows))


if __name__ == "__main__":
    main()
