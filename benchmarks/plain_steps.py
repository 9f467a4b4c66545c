"""Whether the cost of runs in plain steps is the same with one thread and with two, though their seconds are not.

Whole runs take turns: a method runs with one thread, then with two, then the next method, and so on with other seeds.
`tiny` on small digits is the hardest case, since augmentation is a large part of the step. The numbers of threads are
those of this section, whatever `--threads` says; it needs two idle cores.
"""

import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.training.cost import COMPARED
from benchmarks.overhead import result_of, short_run
from benchmarks.rows import Goal, Row, Settings
from benchmarks.timing import paired_ratio

SECTION = "plain_steps"
METHODS, THREADS, EPOCHS = ("none", "scale", "trivialaugment-wide"), (1, 2), 10
GOAL = Goal(0.10)

Costs = dict[int, list[float]]
"""By number of threads, one for each seed."""


def measure(settings: Settings) -> list[Row]:
    """Measure seconds and plain steps of search and training, and by how much the means of the latter differ."""
    rounds = 1 if settings.quick else max(1, settings.repeats // 4)
    methods = METHODS[:1] if settings.quick else METHODS
    seconds: dict[str, Costs] = {method: {count: [] for count in THREADS} for method in methods}
    steps: dict[str, Costs] = {method: {count: [] for count in THREADS} for method in methods}
    cases = [(seed, method, count) for seed in range(rounds) for method in methods for count in THREADS]
    for done, (seed, method, count) in enumerate(cases):
        settings.progress(done, len(cases), f"{method}, threads: {count}")
        result = _result(method, seed, count, settings)
        (spent,) = result["seconds"].values()
        seconds[method][count].append(sum(spent[phase] for phase in COMPARED))
        steps[method][count].append(sum(result["plain_steps"][phase] for phase in COMPARED))
    torch.set_num_threads(settings.threads)
    rows = [_rows(f"{method}, seconds", seconds[method], "s") for method in methods]
    rows += [
        [*_rows(f"{method}, plain steps", steps[method], ""), _difference(method, steps[method])] for method in methods
    ]
    return [row for case in rows for row in case]


def _result(method: str, seed: int, threads: int, settings: Settings) -> Mapping[str, Any]:
    spec = short_run(method, seed, epochs=1 if settings.quick else EPOCHS)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        return result_of(spec, place, ExecutionSettings(str(settings.device), workers=1, threads=threads, data=place))


def _rows(case: str, costs: Costs, unit: Literal["s", ""]) -> list[Row]:
    first, *others = THREADS
    rows = [Row(SECTION, case, _named(first), costs[first], unit)]
    for count in others:
        ratio = paired_ratio(costs[count], costs[first])
        rows.append(Row(SECTION, case, _named(count), costs[count], unit, reference=_named(first), ratio=ratio))
    return rows


def _named(threads: int) -> str:
    return f"threads: {threads}"


def difference_of_means(costs: Costs) -> float:
    """Return by what fraction of the mean with the first number of threads the farthest other mean differs."""
    first, *others = (statistics.mean(costs[count]) for count in THREADS)
    return max(abs(other / first - 1) for other in others)


def _difference(method: str, steps: Costs) -> Row:
    return Row(
        SECTION, f"{method}, plain steps", "difference of the means", [difference_of_means(steps)], "", goal=GOAL
    )
