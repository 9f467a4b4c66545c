"""What a method costs: seconds and image passes of its runs and of the tuning of its hyperparameters."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from augbench.bench.training.cost import PHASES
from augbench.results.model.cells import asked_seeds
from augbench.results.model.table import NOTHING, SEVERAL_DEVICES, Cell, Column, mean_cell

SECONDS_IN_AN_HOUR = 3600
TUNING_COLUMNS = (
    Column("Tuning (h)", "tuning_hours", None, "hours"),
    Column("Total (h)", "total_hours", None, "hours"),
)

PLAIN_STEPS = Column("Plain steps (thousands)", "plain_steps", None, "plain steps")


def time_cell(group: pd.DataFrame, inside: pd.DataFrame, column: Column) -> Cell:
    """Average the column's seconds, or their ratio to those of `none`, over the runs `inside` of one method."""
    # Seconds of different devices say nothing about one another and are never averaged.
    if inside["device"].nunique() > 1 or inside["seconds_training"].isna().any():
        return Cell(NOTHING if column.metric == "time_ratio" else SEVERAL_DEVICES)
    if column.metric == "time_ratio":
        return _ratio_cell(group, inside)
    seconds = inside[f"seconds_{column.metric.removesuffix('_seconds')}"]
    if column.metric == "search_seconds" and not inside["image_passes_search"].any():
        return Cell(NOTHING)  # nothing was searched for; finding that out took a moment
    cell = mean_cell(seconds, 1, 1 if seconds.mean() < 10 else 0)
    alone = group["device"].nunique() == 1
    return cell if alone else replace(cell, text=f"{cell.text} ({inside['device'].iloc[0]})")


def passes_cell(passes: "pd.Series[int]") -> Cell:
    """Average image passes."""
    cell = mean_cell(passes.astype(float), 1, 0)
    return replace(cell, text=f"{cell.mean:,.0f}") if cell.mean else Cell(NOTHING)


def plain_step_cells(group: pd.DataFrame) -> dict[str, Cell]:
    """Average the plain steps of each method, by label, over all devices; only the methods whose runs counted them."""
    counted = group[group["plain_steps"].notna()]
    if counted.empty:
        return {}
    by_label = counted.astype({"plain_steps": float}).groupby("label", sort=False)["plain_steps"]
    largest = float(by_label.mean().max()) / 1000
    digits = max(0, 2 - math.floor(math.log10(largest))) if largest else 0
    return {str(label): mean_cell(steps, 1 / 1000, digits).of(asked_seeds(group)) for label, steps in by_label}


def plain_steps_definition(finished: pd.DataFrame) -> list[str]:
    """Define plain steps, and tell how long one took on each device and how much that varied; nothing without any."""
    timed = finished[finished["plain_steps"].notna() & finished["plain_step_seconds"].notna()]
    if timed.empty:
        return []
    took = "; ".join(_timed(str(device), inside) for device, inside in timed.groupby("device", sort=False))
    return [
        "Plain steps: seconds of search and training, divided by those of a plain step, which each attempt at a run "
        "times for up to a second before it begins: a training step of the same network on a batch of the budget, one "
        "copy of each image, without augmentation, not compiled. It is timed on as many images at once as the method "
        "puts through the network, and the time is shared out. Plain steps may be compared between devices, as far as "
        "these slow down augmentation and network by the same factor. ± is over seeds and includes the error of the "
        f"timing. A plain step took {took}."
    ]


def _timed(device: str, inside: pd.DataFrame) -> str:
    """Tell how long a plain step took in some runs on a device, and the typical distance of its quartiles in a run."""
    seconds = inside["plain_step_seconds"].astype(float)
    ends = dict.fromkeys(f"{1000 * value:.3g}" for value in (seconds.min(), seconds.max()))
    spread = 100 * float(inside["plain_step_spread"].astype(float).median())
    mixed = " in different comparisons" * (inside["comparison"].nunique() > 1)
    return f"{' to '.join(ends)} ms on {device}{mixed} (quartiles within a run {spread:.0f} % apart)"


def _ratio_cell(group: pd.DataFrame, inside: pd.DataFrame) -> Cell:
    """Mean time of search and training over that of `none` on the same device."""
    baseline = plain_training(group)
    baseline = baseline[baseline["device"] == inside["device"].iloc[0]]
    if baseline["label"].nunique() != 1:
        return Cell(NOTHING)
    ratio = _seconds(inside) / _seconds(baseline)
    return Cell(f"×{ratio:.1f}", ratio, None, len(inside))


def plain_training(group: pd.DataFrame) -> pd.DataFrame:
    """Runs of `none` with one copy of each image: training without augmentation, or with the group's base alone."""
    return group[(group["method"] == "none") & (group["baseline_copies"] == 1)]


def _seconds(runs: pd.DataFrame) -> float:
    return float((runs["seconds_training"] + runs["seconds_search"]).mean())


def tuning_cell(group: pd.DataFrame, inside: pd.DataFrame, column: Column) -> Cell:
    """Hours of the tuning of one method, or of the tuning and all its runs; the tuning counts once for all seeds."""
    tuned = inside[inside["tuning_trials"].notna()]
    # Of a tuning that went on with more trials, the runs of earlier calls know less.
    last = tuned.iloc[int(tuned["tuning_trials"].astype(float).argmax())] if len(tuned) else None
    devices = set(inside["device"]) if last is None else {*inside["device"], last["tuning_device"]}
    if last is not None and pd.isna(last["tuning_seconds"]):
        return Cell(SEVERAL_DEVICES)
    hours = 0.0 if last is None else float(last["tuning_seconds"]) / SECONDS_IN_AN_HOUR
    if column.metric == "tuning_hours":
        if last is None:
            return Cell(NOTHING)
        elsewhere = {*group["device"], last["tuning_device"]} != {last["tuning_device"]}
        return Cell(_hours(hours) + (f" ({last['tuning_device']})" if elsewhere else ""), hours, None, len(inside))
    seconds = inside[[f"seconds_{phase}" for phase in PHASES]]
    if len(devices) > 1 or seconds.isna().any(axis=None):
        return Cell(SEVERAL_DEVICES)
    hours += float(seconds.to_numpy().sum()) / SECONDS_IN_AN_HOUR
    return Cell(_hours(hours), hours, None, len(inside))


def _hours(hours: float) -> str:
    return f"{hours:.1f}" if hours >= 10 else f"{hours:.2g}"


def tuning_notes(finished: pd.DataFrame) -> list[str]:
    """Report which methods were tuned, how, and whether equally hard."""
    tuned = finished[finished["tuning_trials"].notna()]
    if tuned.empty:
        return []
    by_way: dict[str, dict[str, None]] = {}
    chosen: dict[str, None] = {}
    columns = ["label", "comparison", "tuning_search", "tuning_trials", "tuning_values"]
    for label, comparison, search, trials, values in tuned[columns].itertuples(index=False):
        by_way.setdefault(f"{trials:.0f} trials ({search})", {})[f"{label} on {comparison}"] = None
        chosen |= {f"{label} on {comparison}: {values}": None} if values else {}
    ways = "; ".join(f"{', '.join(names)} with {way}" for way, names in by_way.items())
    unequal = " They were not tuned equally hard." if len(by_way) > 1 else ""
    best = [f"Values chosen: {'; '.join(chosen)}."] if chosen else []
    return [f"Hyperparameters tuned on the validation split: {ways}.{unequal}", *best]


def tuning_definitions(columns: Sequence[Column]) -> list[str]:
    """Define the columns of a tuning, if there are any."""
    if TUNING_COLUMNS[0] not in columns:
        return []
    return [
        "Tuning (h): hours of all trials of the tuning together, counted once for all seeds. Total (h): tuning, and "
        "all phases of the runs of all seeds."
    ]
