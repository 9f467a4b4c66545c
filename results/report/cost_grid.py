"""What it all cost: time and image passes of each method on each data set, and of everything together."""

from collections.abc import Sequence

import pandas as pd

from augbench.bench.runs.run_folder import RunState
from augbench.bench.training.cost import PHASES
from augbench.results.model.costs import (
    SECONDS_IN_AN_HOUR,
    TUNING_COLUMNS,
    passes_cell,
    tuning_cell,
    tuning_definitions,
)
from augbench.results.model.frame import Runs
from augbench.results.model.table import NOTHING, SEVERAL_DEVICES, mean_cell
from augbench.results.report.grid import Grid, GridCell, GridColumn, cell_of, number_cell, only_device, text_cells
from augbench.results.report.units import TimeUnit, time_unit


def cost_grid(runs: Runs) -> Grid | None:
    """Make the table of costs; None if no run is finished.

    Times are means over seeds. They are left out where the runs of a row were computed on several devices.
    """
    finished = runs.runs[runs.runs["state"] == RunState.DONE.value]
    if finished.empty:
        return None
    unit = time_unit(runs)
    is_tuned = bool(finished["tuning_trials"].notna().any())
    phases = _phases(finished)
    columns = (
        GridColumn("Method", numbers=False, filter="method"),
        GridColumn("Data set", numbers=False, filter="dataset"),
        GridColumn("n"),
        *(GridColumn(f"{phase.capitalize()} ({unit.name})") for phase in phases),
        GridColumn("All seeds together (h)"),
        *(GridColumn(column.heading) for column in TUNING_COLUMNS if is_tuned),
        GridColumn("Search passes"),
        GridColumn("Training passes"),
        *device_columns(finished),
    )
    rows = tuple(
        (*_row(group, inside, unit, phases, is_tuned=is_tuned), *device_cells(finished, inside["device"]))
        for _, group in finished.groupby("comparison", sort=False)
        for _, inside in group.groupby("label", sort=False)
    )
    notes = (*_totals(finished), *(tuning_definitions(TUNING_COLUMNS) if is_tuned else []))
    return Grid("costs", "Time and image passes: means over seeds", "rows", columns, rows, notes)


def _phases(finished: pd.DataFrame) -> list[str]:
    """Name the phases that have a column: compilation only where a budget has asked for it."""
    compiled = bool((finished["seconds_compilation"] > 0).any())
    return [phase for phase in PHASES if compiled or phase != "compilation"]


def _row(
    group: pd.DataFrame, inside: pd.DataFrame, unit: TimeUnit, phases: Sequence[str], *, is_tuned: bool
) -> list[GridCell]:
    cells = [*text_cells(inside["label"].iloc[0], inside["comparison"].iloc[0], len(inside))]
    cells += [mean_time_cell(inside, [phase], unit) for phase in phases]
    seconds = inside[[f"seconds_{phase}" for phase in PHASES]].astype(float)
    one_clock = only_device(inside["device"]) != SEVERAL_DEVICES and not seconds.isna().any(axis=None)
    hours = float(seconds.to_numpy().sum()) / SECONDS_IN_AN_HOUR
    cells.append(number_cell(hours, 1, 2 if hours >= 1 else 3) if one_clock else GridCell(NOTHING))
    cells += [cell_of(tuning_cell(group, inside, column)) for column in TUNING_COLUMNS if is_tuned]
    cells += [cell_of(passes_cell(inside[f"image_passes_{phase}"])) for phase in ("search", "training")]
    return cells


def device_columns(finished: pd.DataFrame) -> list[GridColumn]:
    """Give the device a column where there are several; where there is one, it stands in the table of data sets."""
    return [GridColumn("Device", numbers=False)] if finished["device"].nunique() > 1 else []


def device_cells(finished: pd.DataFrame, devices: "pd.Series[str]") -> list[GridCell]:
    """Name the device of some runs, where there is a column for it."""
    return text_cells(only_device(devices)) if device_columns(finished) else []


def mean_time_cell(inside: pd.DataFrame, phases: list[str], unit: TimeUnit) -> GridCell:
    """Average the time of some phases over the runs of a method; seconds of different devices are never averaged."""
    if only_device(inside["device"]) == SEVERAL_DEVICES:
        return GridCell(SEVERAL_DEVICES)
    if phases == ["search"] and not inside["image_passes_search"].any():
        return GridCell(NOTHING)  # nothing was searched for; finding that out took a moment
    seconds = sum(inside[f"seconds_{phase}"].astype(float) for phase in phases)
    if seconds.isna().any():  # type: ignore[union-attr]  # there is at least one phase
        return GridCell(NOTHING)
    return cell_of(mean_cell(seconds, unit.factor, unit.digits))  # type: ignore[arg-type]


def _totals(finished: pd.DataFrame) -> list[str]:
    """Say what all runs of each device took together."""
    sentences = []
    for device, inside in finished.groupby("device", sort=False):
        seconds = inside[[f"seconds_{phase}" for phase in PHASES]].astype(float)
        if " + " not in str(device):
            hours = seconds.to_numpy().sum() / SECONDS_IN_AN_HOUR
            sentences.append(f"All {len(inside):,} finished runs on {device} together: {hours:,.2f} hours.")
    return sentences
