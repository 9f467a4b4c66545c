"""Preparing 10,000 photographs of one's own beside what Pillow alone needs to open and resize them on as many cores.

The photographs are made up: coarse noise, enlarged, as JPEG. Both take turns. `augbench data prepare` is measured from
outside, with its start; memory is the largest resident one of its process, which has no others.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from augbench.bench.training.provenance import usable_cores
from benchmarks.rows import Goal, Row, Settings
from benchmarks.timing import paired_ratio

SECTION = "own_images"
TIME_GOAL, MEMORY_GOAL = Goal(1.5), Goal(1e9)
WIDTH, HEIGHT = 500, 400  # pixels
SIDE = 32  # pixels
CLASSES = 10
PHOTOGRAPHS, FEW = 10_000, 40
ROUNDS = 3


def measure(settings: Settings) -> list[Row]:
    """Measure time and memory."""
    count = FEW if settings.quick else PHOTOGRAPHS
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        settings.progress(0, 2, "making photographs")
        files = _make(place / "photographs", count)
        settings.progress(1, 2, "preparing them")
        alone, prepared, memory = [], [], []
        for number in range(1 if settings.quick else ROUNDS):
            alone.append(_pillow(files))
            seconds, most = _prepare(place / "photographs", place / f"data{number}")
            prepared.append(seconds)
            memory.append(most)
    case, ours = f"{count:,} of {WIDTH}×{HEIGHT} pixels", "augbench data prepare"
    ratio = paired_ratio(prepared, alone)
    return [
        Row(SECTION, case, "Pillow", alone, images=count),
        Row(SECTION, case, ours, prepared, images=count, reference="Pillow", ratio=ratio, goal=TIME_GOAL),
        Row(SECTION, f"{case}, memory", ours, memory, unit="B", goal=MEMORY_GOAL),
    ]


def _make(folder: Path, count: int) -> list[Path]:
    random = np.random.RandomState(0)
    files = [folder / f"class{number % CLASSES}" / f"{number}.jpg" for number in range(count)]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(random.randint(0, 256, (HEIGHT // 8, WIDTH // 8, 3)).astype(np.uint8))
        coarse.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC).save(file, quality=85)
    return files


def _pillow(files: list[Path]) -> float:
    start = time.perf_counter()
    with ThreadPoolExecutor(usable_cores()) as pool:
        for _ in pool.map(_resized, files):
            pass
    return time.perf_counter() - start


def _resized(file: Path) -> bytes:
    with Image.open(file) as image:
        return image.resize((SIDE, SIDE)).tobytes()


def _prepare(folder: Path, data: Path) -> tuple[float, int]:
    """Return the seconds of the command, and its largest resident memory in bytes.

    Raises:
        RuntimeError: If it fails.
    """
    command = [sys.executable, "-m", "augbench.bench.commands", "data", "prepare", "images", str(folder)]
    start = time.perf_counter()
    process = subprocess.Popen([*command, "--data", str(data)], stdout=subprocess.DEVNULL)  # noqa: S603 - our own
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed")
    return seconds, usage.ru_maxrss * 1024
