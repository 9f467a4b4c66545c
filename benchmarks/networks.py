"""Accuracy against seconds: networks that train in few passes beside the others, on small upright and rotated digits.

Each network has the recipe that it is used with: `fast-cnn-s` the one named `fast`, `tiny` and `smallnet` Adam with one
cycle. Seconds are those of training alone. Nothing is augmented: networks are compared, and not learners.
"""

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from augbench.bench.experiment.budgets import budgets
from augbench.bench.experiment.protocol import Budget, Protocol
from augbench.bench.experiment.spec import RunSpec, dataset_component, method_component, network_component
from augbench.bench.runs.execution_settings import ExecutionSettings
from benchmarks.overhead import result_of
from benchmarks.rows import Goal, Row, Settings

SECTION = "networks"
DATASETS = ("mnist5k", "rotmnist5k")
EPOCHS = {"fast-cnn-s": (1, 2, 4, 8, 16), "tiny": (1, 2, 4, 8, 16, 32), "smallnet": (1, 2)}
FAST = "fast-cnn-s"
AHEAD = Goal(0.0, at_least=True)


class Point(NamedTuple):
    """Training seconds and accuracy on test images in [0, 1] of one network after some epochs, means over seeds."""

    network: str
    epochs: int
    seconds: float
    accuracy: float


def measure(settings: Settings) -> list[Row]:
    """Train every network for every number of epochs, and say by how much the fast one is ahead at least."""
    seeds = range(1 if settings.quick else max(1, settings.repeats // 6))
    rows = []
    for dataset in DATASETS[:1] if settings.quick else DATASETS:
        points: list[Point] = []
        for network, epochs in _cases(settings.quick):
            case = f"{dataset}, {network}, epochs: {epochs}"
            settings.progress(len(points), len(_cases(settings.quick)), case)
            results = [_result(dataset, network, epochs, seed, settings) for seed in seeds]
            seconds = [sum(phases["training"] for phases in one["seconds"].values()) for one in results]
            accuracies = [one["metrics"]["0"]["accuracy"]["mean"] for one in results]
            points.append(Point(network, epochs, statistics.mean(seconds), statistics.mean(accuracies)))
            rows += [Row(SECTION, case, "training", seconds), Row(SECTION, case, "accuracy", accuracies, "")]
        rows.append(Row(SECTION, dataset, "least lead in accuracy", [least_lead(points)], "", goal=AHEAD))
    return rows


def least_lead(points: Sequence[Point]) -> float:
    """Find by how much the fast network is ahead of every point of the others in no more seconds, where it is least so.

    Its accuracy counts as 0 where it has no point in as few seconds.
    """
    fast = [point for point in points if point.network == FAST]
    others = [point for point in points if point.network != FAST]
    return min(
        max([one.accuracy for one in fast if one.seconds <= point.seconds], default=0.0) - point.accuracy
        for point in others
    )


def _cases(quick: bool) -> list[tuple[str, int]]:
    chosen = {name: epochs[:1] for name, epochs in EPOCHS.items() if name != "smallnet"} if quick else EPOCHS
    return [(network, count) for network, epochs in chosen.items() for count in epochs]


def _result(dataset: str, network: str, epochs: int, seed: int, settings: Settings) -> Any:
    budget = budgets().paper(dataset, FAST, "fast") if network == FAST else Budget(epochs=epochs)
    spec = RunSpec(
        protocol=Protocol(test_time_draws=(), probe_angles=0),
        method=method_component("none", {}, "the benchmark"),
        dataset=dataset_component(dataset, {"size": 14}, "the benchmark"),
        network=network_component(network),
        budget=budget.model_copy(update={"epochs": epochs}),
        seed=seed,
    )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        execution = ExecutionSettings(str(settings.device), workers=1, threads=settings.threads, data=place)
        return result_of(spec, place, execution)
