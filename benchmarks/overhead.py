"""The cost of a run, a suite and the command line beside training and evaluation.

`a run` is `execute()` in this process, everything imported: its wall-clock time without its own clocks of search,
training, evaluation and compilation. `augbench run` is measured from outside, with one worker: start-up is what the
command takes beyond the clocks of its runs when there is one run, `each further run` what every other one adds. Needs
all libraries of the package.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from augbench.bench.experiment.protocol import Budget, Protocol
from augbench.bench.experiment.spec import RunSpec, dataset_component, method_component, network_component
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.output_folder import run_folders
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.worker import execute
from benchmarks.file_calls import count_calls
from benchmarks.rows import Goal, Row, Settings

SECTION = "overhead"
RUN_GOAL, HELP_GOAL = Goal(1.0), Goal(0.4)
RUNS = 5
SUITE = """
name = "overhead"
title = "Short runs"
seeds = {seeds}
protocol = {{ test_time_draws = [1], test_time_repeats = 1, probe_angles = 1 }}
[[comparisons]]
datasets = [{{ name = "mnist5k", options = {{ size = 14 }} }}]
methods = [{{ name = "none" }}]
network = "tiny"
budget = {{ epochs = 1 }}
"""


def measure(settings: Settings) -> list[Row]:
    """Measure run, suite and `augbench --help`."""
    rounds = 1 if settings.quick else max(1, settings.repeats // 4)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        settings.progress(0, 4, "a run")
        rows = [_row("a run", "methods none and scale", _runs(place, settings, rounds), RUN_GOAL)]
        settings.progress(1, 4, "a suite")
        rows += _suites(place, settings, rounds)
        settings.progress(2, 4, "calls to the file system")
        rows += count_calls(place, settings)
    settings.progress(3, 4, "augbench --help")
    seconds = [_command(["--help"], settings) for _ in range(2 if settings.quick else settings.repeats)]
    return [
        *rows,
        _row("augbench --help", "each time", seconds, HELP_GOAL),
        _row("augbench --help", "the fastest", [min(seconds)], HELP_GOAL),
    ]


def _row(case: str, contestant: str, seconds: list[float], goal: Goal | None = None) -> Row:
    return Row(SECTION, case, contestant, seconds, goal=goal)


def _runs(place: Path, settings: Settings, rounds: int) -> list[float]:
    """Execute runs one after the other; the first one, which warms up, is not counted."""
    execution = ExecutionSettings(str(settings.device), workers=1, threads=settings.threads, data=place)
    methods = [method for _ in range(rounds) for method in ("none", "scale")]
    specs = [short_run(method, seed) for seed, method in enumerate(["none", *methods])]
    seconds = [overhead_of_a_run(spec, place, execution) for spec in specs]
    return seconds[1:]


def short_run(method: str, seed: int, epochs: int = 1) -> RunSpec:
    """Specify a run of `tiny` on 4,000 digits."""
    return RunSpec(
        protocol=Protocol(test_time_draws=(1,), test_time_repeats=1, probe_angles=1),
        method=method_component(method, {}, "the benchmark"),
        dataset=dataset_component("mnist5k", {"size": 14}, "the benchmark"),
        network=network_component("tiny"),
        budget=Budget(epochs=epochs),
        seed=seed,
    )


def overhead_of_a_run(spec: RunSpec, place: Path, settings: ExecutionSettings) -> float:
    """Execute a run and return its wall-clock seconds beside those on its clocks."""
    start = time.perf_counter()
    result = result_of(spec, place, settings)
    return time.perf_counter() - start - clocked(result)


def result_of(spec: RunSpec, place: Path, settings: ExecutionSettings) -> Mapping[str, Any]:
    """Execute a run below a folder and return its result.

    Raises:
        RuntimeError: If it did not finish.
    """
    folder = RunFolder(place / "runs" / spec.folder_name)
    folder.write_spec(spec)
    state = execute(folder, settings, StopSignal())
    if state is not RunState.DONE:
        raise RuntimeError(f"the run ended as {state}: {folder.read_status()}")
    return folder.read_result() or {}


def clocked(result: Mapping[str, Any]) -> float:
    """Seconds on the clocks of a result: all phases on all devices."""
    return sum(sum(phases.values()) for phases in result["seconds"].values())


def _suites(place: Path, settings: Settings, rounds: int) -> list[Row]:
    """Run suites of one and of several runs."""
    first, further, runs = [], [], 2 if settings.quick else RUNS
    for number in range(rounds):
        beyond = [_beyond_clocks(place / f"suite{number}-{count}", count, settings) for count in (1, runs)]
        first.append(beyond[0])
        further.append((beyond[1] - beyond[0]) / (runs - 1))
    return [_row("augbench run", "start-up and one run", first), _row("augbench run", "each further run", further)]


def _beyond_clocks(place: Path, count: int, settings: Settings) -> float:
    """Seconds that `augbench run` takes for so many runs beyond the sum of their clocks."""
    place.mkdir()
    suite = place / "suite.toml"
    suite.write_text(SUITE.format(seeds=list(range(count))))
    where = ["--out", str(place / "out"), "--device", str(settings.device), "--workers", "1"]
    wall = _command(["run", str(suite), *where], settings)
    results = [folder.read_result() for folder in run_folders(place / "out")]
    if len(results) != count or None in results:
        raise RuntimeError(f"{len(results)} of {count} runs have ended in {place}")
    return wall - sum(clocked(result) for result in results if result is not None)


def _command(arguments: list[str], settings: Settings) -> float:
    """Return the seconds of one call of `augbench`.

    Raises:
        RuntimeError: If it fails.
    """
    command = [sys.executable, "-m", "augbench.bench.commands", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": str(settings.threads)}
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment)  # noqa: S603 - our own
    wall = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stdout}{done.stderr}")
    return wall
