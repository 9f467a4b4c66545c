"""The calls of a run to the file system of its folder: calls that name something in it, and flushes.

On a cluster hundreds of runs share one file system, whose server has to answer every one of them. Seen with strace,
which has to be installed; without it there are no rows.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rows import Goal, Row, Settings

SECTION = "overhead"
CALLS_GOAL, RATE_GOAL, FILES_GOAL = Goal(120), Goal(2.0), Goal(6)
TRACED = "%file,fsync,fdatasync,utimensat"
CALL = re.compile(r"^(?P<pid>\d+) +(?P<time>[\d.]+) (?P<name>\w+)\((?P<arguments>.*)")
FLUSHES = ("fsync", "fdatasync", "utimensat")
SUITE = """
name = "calls"
title = "One run"
seeds = [0]
protocol = {{ test_time_draws = [1], test_time_repeats = 1, probe_angles = 1 }}
[[comparisons]]
datasets = [{{ name = "mnist5k", options = {{ size = 14 }} }}]
methods = [{{ name = "none" }}]
network = "tiny"
budget = {{ epochs = {epochs} }}
"""


@dataclass(frozen=True)
class Trace:
    """Calls of the process that executes a run.

    Attributes:
        times: When each was made, in seconds.
        training: When training began and ended, in seconds.
    """

    times: tuple[float, ...]
    training: tuple[float, float]

    @property
    def per_second(self) -> float:
        """Calls a second while the run trains."""
        begin, end = self.training
        return sum(begin <= time <= end for time in self.times) / (end - begin)


def read_trace(lines: list[str]) -> Trace:
    """Find the worker among the processes that strace has seen, and its calls in the run's folder.

    Raises:
        ValueError: If no worker has executed a run.
    """
    calls = [found for line in lines if (found := CALL.match(line))]
    claims = [call for call in calls if "claim-1.json" in call["arguments"] and "O_EXCL" in call["arguments"]]
    if not claims:
        raise ValueError("strace has seen no run")
    folder = claims[0]["arguments"].split('"')[1].rpartition("/")[0]
    own = [call for call in calls if call["pid"] == claims[0]["pid"]]
    counted = [call for call in own if folder in call["arguments"] or call["name"] in FLUSHES]
    saved = [float(call["time"]) for call in counted if ".checkpoint.pt" in call["arguments"]]
    return Trace(tuple(float(call["time"]) for call in counted), (saved[0], saved[-1]))


def count_calls(place: Path, settings: Settings) -> list[Row]:
    """Count the calls of a short run, and those of a longer one for each second of its training."""
    if shutil.which("strace") is None:
        return []
    (short, files), (long, _) = (
        _traced(place, epochs, settings) for epochs in ((2, 8) if settings.quick else (5, 400))
    )
    return [
        Row(SECTION, "calls to the file system", "a short run", [len(short.times)], unit="", goal=CALLS_GOAL),
        Row(SECTION, "calls to the file system", "a second of training", [long.per_second], unit="", goal=RATE_GOAL),
        Row(SECTION, "files", "a finished run", [files], unit="", goal=FILES_GOAL),
    ]


def _traced(place: Path, epochs: int, settings: Settings) -> tuple[Trace, int]:
    """Execute a run of so many epochs; returns its calls and the number of files that are left."""
    suite, out, trace = (place / f"calls-{epochs}{ending}" for ending in (".toml", "", ".trace"))
    suite.write_text(SUITE.format(epochs=epochs))
    command = [sys.executable, "-m", "augbench.bench.commands", "run", str(suite), "--out", str(out), "--workers", "1"]
    traced = ["strace", "-f", "-qq", "-ttt", "-s", "400", "-o", str(trace), "-e", f"trace={TRACED}", *command]
    environment = os.environ | {"OMP_NUM_THREADS": str(settings.threads)}
    subprocess.run([*traced, "--device", str(settings.device)], check=True, capture_output=True, env=environment)  # noqa: S603
    (run,) = (path for path in (out / "runs").iterdir() if path.is_dir())
    return read_trace(trace.read_text(errors="replace").splitlines()), len(list(run.iterdir()))
