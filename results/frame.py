"""From run folders to data frames: one row for each run, and tidy frames of everything measured in them."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from augbench.bench.clock import PHASES
from augbench.bench.errors import UserError
from augbench.bench.law import PlantedLaw, recovery_error
from augbench.bench.run_folder import DamagedError, RunFolder, RunState, run_folders
from augbench.bench.spec import RunSpec, brief
from augbench.bench.tuning.cost import TuningCost
from augbench.results.labels import RunLabels, label_runs, method_rank, same_run_key
from augbench.results.record import Record, Result, read_record

KEYS = ("folder", "comparison", "label", "method", "seed")
"""Columns that every frame has: they say which run a row belongs to."""


@dataclass(frozen=True)
class Runs:
    """All runs below a folder. Every frame has the columns `KEYS` and keeps the order of `runs`.

    Attributes:
        root: The folder that was read.
        runs: A row for each run folder, ordered by comparison, method and seed. Beside `KEYS`: `identity`, `state`,
            `dataset`, `dataset_label`, `settings` (of the method, those that differ from their defaults, as text),
            `network`, `budget`, `protocol`, `device`, `code`, `train_images`,
            `test_images`; `seconds_<phase>` (NaN for a run that went on on another device) and
            `image_passes_<phase>` for each of `PHASES`; and the decisions of the protocol that tables and figures
            quote: `calibration_bins`, `test_time_repeats`, `maximum_rotation` (radians), `maximum_log_scale`,
            `maximum_shear`. Where a law was planted: `law`, its name; `recovery_error` over all coordinates and
            `recovery_error_planted` over those that it changes; `law_comparison` and `law_label`, what `comparison`
            and `label` would be if no law told the data sets apart. Where hyperparameters were tuned: `tuning_trials`,
            `tuning_search`, `tuning_device` and `tuning_seconds` of all trials together, the same for each seed (NaN
            for those of several devices). Results are NaN or None for runs that are not done.
        scores: Finished runs × `draws` × `metric`: `value`, the mean over repeats, and `sd_repeats`.
        trajectories: Runs × `epoch` (from 1) × `quantity`: `value`. Quantities are `loss`, `accuracy` in [0, 1]
            and the learned numbers `probability/<block>` and `range/<block>`. Runs under way are in it.
        learned: Finished runs × `quantity`: `value` at the end of training.
        probe: Finished runs × `degrees`: `accuracy` in [0, 1] on test images turned by so much.
        reliability: Finished runs × `bin` (from 0): `count`, mean `confidence` and `accuracy`, NaN in empty bins.
        recovery: Finished runs on planted data × `coordinate`: `distance` of the learned law from the planted one,
            and `planted`, whether the law changes the coordinate.
        damaged: What is wrong with folders that were left out.
        trials: Number of runs that were left out since they are trials of a tuning: what they have reached on
            validation images stands beside no result on test images.
    """

    root: Path
    runs: pd.DataFrame
    scores: pd.DataFrame
    trajectories: pd.DataFrame
    learned: pd.DataFrame
    probe: pd.DataFrame
    reliability: pd.DataFrame
    recovery: pd.DataFrame
    damaged: tuple[str, ...] = ()
    trials: int = 0

    @property
    def states(self) -> dict[str, int]:
        """Number of runs in each state that occurs."""
        return dict(sorted(Counter(str(state) for state in self.runs["state"]).items()))

    @property
    def failed(self) -> int:
        """Number of runs that failed."""
        return self.states.get(RunState.FAILED, 0)

    @property
    def unfinished(self) -> int:
        """Number of runs that are neither done nor failed."""
        return len(self.runs) - self.failed - self.states.get(RunState.DONE, 0)

    def finished(self) -> pd.DataFrame:
        """Rows of `runs` that are done.

        Raises:
            UserError: If none is, with the states that the runs are in and the command that goes on.
        """
        done = self.runs[self.runs["state"] == RunState.DONE.value]
        if len(done):
            return done
        states = [f"{count} {state}" for state, count in self.states.items()]
        states += [f"{len(self.damaged)} damaged"] if self.damaged else []
        total = len(self.runs) + len(self.damaged)
        raise UserError(
            f"None of the {total} runs in {self.root} is finished: {', '.join(states)}. Go on with "
            f"`augbench run SUITE --out {self.root}`, or make a small comparison with `augbench demo`."
        )


def load_runs(root: Path, *, skip_damaged: bool = False) -> Runs:
    """Read every run folder below a folder.

    Args:
        root: What was given to `augbench run` or `augbench demo` as --out.
        skip_damaged: Leave damaged folders out and list them in `Runs.damaged`.

    Raises:
        DamagedError: If a folder is damaged or holds the same run as another one, unless `skip_damaged`.
        UserError: If there is no such folder, it holds no runs, or only trials of a tuning.
    """
    everything, damaged = _read_all(run_folders(root), skip_damaged=skip_damaged)
    records = [record for record in everything if record.spec.protocol.evaluated_on == "test"]
    if everything and not records:
        raise UserError(
            f"{root} holds only trials of a tuning, which are evaluated on validation images and are no results on "
            "test images. The same `augbench tune` command shows them; run the suite that it has written."
        )
    labels = label_runs([record.spec for record in records])
    ordered = sorted(zip(records, labels, strict=True), key=lambda pair: _order(*pair))
    without_law = label_runs([_without_law(record.spec) for record, _ in ordered])
    return Runs(
        root=root,
        runs=_frame([_run_row(*pair, bare) for pair, bare in zip(ordered, without_law, strict=True)], _RUN_COLUMNS),
        scores=_frame(_rows(ordered, _scores), ("draws", "metric", "value", "sd_repeats")),
        trajectories=_frame(_rows(ordered, _trajectory), ("epoch", "quantity", "value")),
        learned=_frame(_rows(ordered, _learned), ("quantity", "value")),
        probe=_frame(_rows(ordered, _probe), ("degrees", "accuracy")),
        reliability=_frame(_rows(ordered, _reliability), ("bin", "count", "confidence", "accuracy")),
        recovery=_frame(_rows(ordered, _recovery), ("coordinate", "distance", "planted")),
        damaged=damaged,
        trials=len(everything) - len(records),
    )


def _without_law(spec: RunSpec) -> RunSpec:
    """Take the planted law out of the data set's options, so that runs can be named and grouped across laws."""
    dataset, law = spec.dataset, PlantedLaw.model_fields
    kept = {
        "settings": {name: value for name, value in dataset.settings.items() if name not in law},
        "defaults": {name: value for name, value in dataset.defaults.items() if name not in law},
    }
    return spec.model_copy(update={"dataset": dataset.model_copy(update=kept)})


def _read_all(folders: Sequence[RunFolder], *, skip_damaged: bool) -> tuple[list[Record], tuple[str, ...]]:
    records: dict[str, Record] = {}
    damaged = []
    for folder in folders:
        try:
            record = read_record(folder)
            _keep(records, record)
        except DamagedError as error:
            if not skip_damaged:
                raise
            damaged.append(str(error))
    return list(records.values()), tuple(damaged)


def _keep(records: dict[str, Record], record: Record) -> None:
    """Add a record unless its run is there already: counted twice it would look like another seed."""
    key = same_run_key(record.spec)
    if key in records:
        raise DamagedError(
            f"{record.folder.path} holds the same run as {records[key].folder.path}. Move one of the two away or "
            "delete it."
        )
    records[key] = record


def _order(record: Record, labels: RunLabels) -> tuple[str, int, str, int]:
    method = record.spec.method.name
    return labels.comparison, method_rank(method), labels.label, record.spec.seed


_RESULT_COLUMNS = (
    *("device", "code", "train_images", "test_images"),
    *(f"seconds_{phase}" for phase in PHASES),
    *(f"image_passes_{phase}" for phase in PHASES),
)
_PROTOCOL_COLUMNS = (
    *("calibration_bins", "test_time_repeats"),
    *("maximum_rotation", "maximum_log_scale", "maximum_shear"),
)
_PLANTED_COLUMNS = ("law", "recovery_error", "recovery_error_planted", "law_comparison", "law_label")
_TUNING_COLUMNS = ("tuning_trials", "tuning_search", "tuning_device", "tuning_seconds")
_RUN_COLUMNS = (
    *("identity", "state", "dataset", "dataset_label", "settings", "network", "budget", "protocol"),
    *_RESULT_COLUMNS,
    *_PROTOCOL_COLUMNS,
    *_PLANTED_COLUMNS,
    *_TUNING_COLUMNS,
)


def _frame(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Build a frame that has its columns even without rows."""
    return pd.DataFrame(rows, columns=[*KEYS, *columns])


def _keys(record: Record, labels: RunLabels) -> dict[str, Any]:
    name, spec = record.folder.path.name, record.spec
    return dict(zip(KEYS, (name, labels.comparison, labels.label, spec.method.name, spec.seed), strict=True))


def _run_row(record: Record, labels: RunLabels, without_law: RunLabels) -> dict[str, Any]:
    spec = record.spec
    row = _keys(record, labels) | {"identity": spec.identity, "state": record.state.value, "dataset": spec.dataset.name}
    row |= {"dataset_label": labels.dataset, "network": labels.network}
    row |= {"settings": ", ".join(f"{key}={brief(value)}" for key, value in sorted(spec.method.settings.items()))}
    row |= {"budget": labels.budget, "protocol": labels.protocol}
    row |= {column: getattr(spec.protocol, column) for column in _PROTOCOL_COLUMNS}
    if record.tuning is not None:
        row |= _tuning(record.tuning)
    result = record.result
    if result is not None:
        row |= {"device": " + ".join(result.seconds), "code": result.code.label}
        row |= {"train_images": result.train_images, "test_images": result.test_images}
        # seconds of different devices are never added up
        seconds = next(iter(result.seconds.values())) if len(result.seconds) == 1 else {}
        row |= {f"seconds_{phase}": seconds.get(phase, math.nan) for phase in PHASES}
        row |= {f"image_passes_{phase}": result.image_passes.get(phase, 0) for phase in PHASES}
        row |= _planted(result, without_law)
    return row


def _tuning(cost: TuningCost) -> dict[str, Any]:
    seconds = next(iter(cost.seconds.values())) if len(cost.seconds) == 1 else math.nan
    values = (cost.trials, cost.search, " + ".join(cost.seconds), seconds)
    return dict(zip(_TUNING_COLUMNS, values, strict=True))


def _planted(result: Result, without_law: RunLabels) -> dict[str, Any]:
    if result.planted is None:
        return {}
    row = {"law": result.planted.law, "law_comparison": without_law.comparison, "law_label": without_law.label}
    planted = {name: result.recovery[name] for name in result.planted.coordinates if name in result.recovery}
    errors = {"recovery_error": result.recovery, "recovery_error_planted": planted}
    return row | {name: recovery_error(distances) for name, distances in errors.items() if distances}


def _rows(
    ordered: Sequence[tuple[Record, RunLabels]], of: Callable[[Record], Iterator[dict[str, Any]]]
) -> list[dict[str, Any]]:
    return [_keys(record, labels) | row for record, labels in ordered for row in of(record)]


def _scores(record: Record) -> Iterator[dict[str, Any]]:
    metrics = record.result.metrics if record.result else {}
    for draws, summaries in sorted(metrics.items()):
        for metric, summary in summaries.items():
            yield {"draws": draws, "metric": metric, "value": summary.mean, "sd_repeats": summary.sd}


def _trajectory(record: Record) -> Iterator[dict[str, Any]]:
    for row in record.epochs:
        quantities = {"loss": row.loss, "accuracy": row.accuracy, **row.learned}
        yield from ({"epoch": row.epoch, "quantity": name, "value": value} for name, value in quantities.items())


def _learned(record: Record) -> Iterator[dict[str, Any]]:
    numbers = record.result.learned if record.result else {}
    yield from ({"quantity": name, "value": value} for name, value in numbers.items())


def _probe(record: Record) -> Iterator[dict[str, Any]]:
    if record.result:
        probe = record.result.rotation_probe
        for degrees, accuracy in zip(probe.degrees, probe.accuracy, strict=True):
            yield {"degrees": degrees, "accuracy": accuracy}


def _reliability(record: Record) -> Iterator[dict[str, Any]]:
    bins = record.reliability
    if bins:
        for index, (count, confidence, accuracy) in enumerate(
            zip(bins.count.tolist(), bins.confidence.tolist(), bins.accuracy.tolist(), strict=True)
        ):
            yield {"bin": index, "count": count, "confidence": confidence, "accuracy": accuracy}


def _recovery(record: Record) -> Iterator[dict[str, Any]]:
    if record.result and record.result.planted:
        planted = record.result.planted.coordinates
        for coordinate, distance in record.result.recovery.items():
            yield {"coordinate": coordinate, "distance": distance, "planted": coordinate in planted}
