"""Rows of the frames: what each frame takes from a record."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from augbench.bench.augmentation.transform_distribution import recovery_error
from augbench.bench.experiment.labels import RunLabels
from augbench.bench.experiment.spec import SINGLE, RunSpec, settings_in_words
from augbench.bench.experiment.tuning_cost import TuningCost
from augbench.bench.training.cost import COMPARED, PHASES
from augbench.results.records.contents import Result
from augbench.results.records.outcomes import Outcomes
from augbench.results.records.record import Record

KEYS = ("folder", "comparison", "label", "method", "seed")
"""Columns that every frame has: they say which run a row belongs to."""

Row = tuple[Any, ...]

_PROTOCOL_COLUMNS = (
    *("calibration_bins", "test_time_repeats"),
    *("maximum_rotation", "maximum_log_scale", "maximum_shear"),
)
_PLAIN_STEP_COLUMNS = ("plain_steps", "plain_step_seconds", "plain_step_spread")
_TUNING_COLUMNS = ("tuning_trials", "tuning_search", "tuning_device", "tuning_seconds", "tuning_values")
RUN_COLUMNS = (
    *("identity", "state", "cause", "reason", "asked", "source"),
    *("predictor", "method_version", "settings", "dataset", "dataset_label", "dataset_version", "checksum", "split"),
    *("network", "network_version", "budget", "epochs", "baseline_copies", "protocol", "protocol_version"),
    *("device", "on_gpu", "host", "code", "commit", "dirty", "train_images", "test_images"),
    *(f"seconds_{phase}" for phase in PHASES),
    *(f"image_passes_{phase}" for phase in PHASES),
    *_PLAIN_STEP_COLUMNS,
    *_PROTOCOL_COLUMNS,
    *("law", "recovery_error", "recovery_error_planted", "law_comparison", "law_label"),
    *_TUNING_COLUMNS,
)
"""Columns of `Runs.runs` after `KEYS`."""


def run_row(record: Record, labels: RunLabels, without_law: RunLabels | None) -> dict[str, Any]:
    """Make the row of a run in `Runs.runs`, all but `asked`.

    Args:
        record: The run.
        labels: What it is called.
        without_law: Its labels if planted distributions did not tell data sets apart; None where none is planted.
    """
    spec = record.spec
    names = (record.name, labels.comparison, labels.label, spec.learner, spec.seed)
    row = dict(zip(KEYS, names, strict=True)) | {"identity": spec.identity, "state": record.state.value}
    row |= {"cause": record.cause.value if record.cause else "", "reason": record.reason}
    row |= {"source": record.stored.source, "budget": labels.budget, "protocol": labels.protocol}
    row |= _of_kind(spec, labels)
    last = record.attempts[-1] if record.attempts else None
    code = record.result.code if record.result else last.code if last else None
    row |= {"on_gpu": record.on_gpu, "host": last.host if last else None}
    row |= {"commit": code.commit if code else None, "dirty": code.dirty if code else None}
    if record.tuning is not None:
        row |= _tuning(record.tuning)
    if record.result is not None:
        row |= _of_result(record.result) | _planted(record.result, without_law)
    return row


def _of_kind(spec: RunSpec, labels: RunLabels) -> dict[str, Any]:
    return {
        "predictor": spec.predictor.label if spec.predictor else SINGLE,
        "method_version": spec.method.version,
        "settings": settings_in_words(spec.method.settings),
        "dataset": spec.dataset.name,
        "dataset_label": labels.dataset,
        "dataset_version": spec.dataset.version,
        "checksum": spec.dataset.checksum,
        "split": spec.protocol.evaluated_on,
        "network": labels.network,
        "network_version": spec.network.version,
        "epochs": spec.budget.epochs,
        "baseline_copies": spec.budget.baseline_copies,
        "protocol_version": spec.protocol_version,
        **{column: getattr(spec.protocol, column) for column in _PROTOCOL_COLUMNS},
    }


def _of_result(result: Result) -> dict[str, Any]:
    # seconds of different devices are never added up
    seconds = next(iter(result.seconds.values())) if len(result.seconds) == 1 else {}
    return {
        "device": " + ".join(result.seconds),
        "code": result.code.label,
        "train_images": result.train_images,
        "test_images": result.test_images,
        **{f"seconds_{phase}": seconds.get(phase, math.nan) for phase in PHASES},
        **{f"image_passes_{phase}": result.image_passes.get(phase, 0) for phase in PHASES},
        **_plain_steps(result),
    }


def _plain_steps(result: Result) -> dict[str, Any]:
    steps = math.nan if result.plain_steps is None else sum(result.plain_steps.get(phase, 0.0) for phase in COMPARED)
    if not result.plain_step_timings:
        return {"plain_steps": steps}
    timing = result.plain_step_timings[-1]
    lower, _, upper = timing.quartiles
    values = (steps, timing.seconds, (upper - lower) / timing.seconds)
    return dict(zip(_PLAIN_STEP_COLUMNS, values, strict=True))


def _tuning(cost: TuningCost) -> dict[str, Any]:
    seconds = next(iter(cost.seconds.values())) if len(cost.seconds) == 1 else math.nan
    values = (cost.trials, cost.search, " + ".join(cost.seconds), seconds, settings_in_words(cost.values))
    return dict(zip(_TUNING_COLUMNS, values, strict=True))


def _planted(result: Result, without_law: RunLabels | None) -> dict[str, Any]:
    if result.planted is None or without_law is None:
        return {}
    row = {"law": result.planted.law, "law_comparison": without_law.comparison, "law_label": without_law.label}
    planted = {name: result.recovery[name] for name in result.planted.coordinates if name in result.recovery}
    errors = {"recovery_error": result.recovery, "recovery_error_planted": planted}
    return row | {name: recovery_error(distances) for name, distances in errors.items() if distances}


def tidy(
    runs: pd.DataFrame, records: Sequence[Record], of: Callable[[Record], Iterable[Row]], columns: Sequence[str]
) -> pd.DataFrame:
    """Make a frame with any number of rows for each run.

    Args:
        runs: `Runs.runs`; `KEYS` are taken from it.
        records: The record of each of its rows; (N,).
        of: Makes rows of a record.
        columns: What the values of a row are called.

    Returns:
        `KEYS` and the columns, even without rows.
    """
    rows = [list(of(record)) for record in records]
    counts = [len(of_record) for of_record in rows]
    keys = runs[list(KEYS)].iloc[np.repeat(np.arange(len(records)), counts)].reset_index(drop=True)
    return pd.concat([keys, pd.DataFrame(list(chain.from_iterable(rows)), columns=list(columns))], axis=1)


def scores(record: Record) -> Iterator[Row]:
    """Draws, metric, mean and standard deviation over repeats."""
    metrics = record.result.metrics if record.result else {}
    for draws, summaries in sorted(metrics.items()):
        for metric, summary in summaries.items():
            yield draws, metric, summary.mean, summary.sd


def trajectory(record: Record) -> Iterator[Row]:
    """Epoch, quantity and value."""
    for row in record.epochs:
        yield row.epoch, "loss", row.loss
        yield row.epoch, "accuracy", row.accuracy
        yield from ((row.epoch, name, value) for name, value in row.learned.items())


def learned(record: Record) -> Iterator[Row]:
    """Quantity, value at the end and at the start of training."""
    if record.result:
        start = record.result.learned_at_start
        yield from ((name, value, start.get(name, math.nan)) for name, value in record.result.learned.items())


def probe(record: Record) -> Iterator[Row]:
    """Degrees and accuracy."""
    yield from zip(record.probe.degrees, record.probe.accuracy, strict=True)


SHIFT_COLUMNS = ("corruptions", "images", "corruption", "severity", "extra", "accuracy", "nll", "ece")
"""Columns of `Runs.shift` after `KEYS`."""


def shift(record: Record) -> Iterator[Row]:
    """One row for each corruption and severity, with `SHIFT_COLUMNS`."""
    if record.result and (found := record.result.shift):
        for row in found.scores:
            yield found.name, found.images, row.corruption, row.severity, row.extra, row.accuracy, row.nll, row.ece


def recovery(record: Record) -> Iterator[Row]:
    """Coordinate, distance and whether it was planted."""
    if record.result and record.result.planted:
        planted = record.result.planted.coordinates
        for coordinate, distance in record.result.recovery.items():
            yield coordinate, distance, coordinate in planted


def reliability(outcomes: Outcomes) -> Iterator[Row]:
    """Draws, bin, count, confidence and accuracy."""
    for draws, drawn in outcomes.items():
        bins = drawn.bins
        values = zip(bins.count.tolist(), bins.confidence.tolist(), bins.accuracy.tolist(), strict=True)
        yield from ((draws, index, *row) for index, row in enumerate(values))


ENVIRONMENT_COLUMNS = (
    *("attempt", "host", "device", "device_uuid", "platform", "python", "augbench", "commit", "dirty", "command"),
    *("torch", "torchvision", "numpy", "packages", "plugins", "threads", "cores", "workers"),
)
"""Columns of `Runs.environments` after `KEYS`."""


def environments(record: Record) -> Iterator[Row]:
    """One row for each attempt, with `ENVIRONMENT_COLUMNS`."""
    for number, one in enumerate(record.attempts, 1):
        packages = ", ".join(f"{name} {version}" for name, version in one.packages.items() if version)
        plugins = ", ".join([*(f"{file.path} ({file.sha256[:8]})" for file in one.plugins), *one.plugin_packages])
        libraries = (one.packages.get(name) for name in ("torch", "torchvision", "numpy"))
        where = (one.host, one.device, one.device_uuid, one.platform, one.python, one.augbench)
        code = (one.code.commit, one.code.dirty, one.command)
        yield one.attempt or number, *where, *code, *libraries, packages, plugins, one.threads, one.cores, one.workers
