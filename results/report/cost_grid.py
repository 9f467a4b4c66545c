"""The table of costs: time and image passes of each method on each data set, and of all runs together."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from augbench.bench.training.cost import PHASES
from augbench.results.model.costs import (
    PLAIN_STEPS,
    SECONDS_IN_AN_HOUR,
    TUNING_COLUMNS,
    passes_cell,
    plain_step_cells,
    plain_steps_definition,
    tuning_cell,
    tuning_definitions,
)
from augbench.results.model.frame import Runs
from augbench.results.model.table import NOTHING, SEVERAL_DEVICES, Cell, Column, mean_cell
from augbench.results.report.grid import (
    NAMES,
    Grid,
    GridCell,
    GridColumn,
    cell_of,
    number_cell,
    only_device,
    text_cells,
)
from augbench.results.report.units import TimeUnit, done, time_unit


def cost_grid(runs: Runs) -> Grid | None:
    """Make the table of costs; None if no run is finished.

    Times are means over seeds. They are left out where the runs of a row were computed on several devices.
    """
    finished = done(runs)
    if finished.empty:
        return None
    unit = time_unit(runs)
    counts_steps = bool(finished["plain_steps"].notna().any())
    tuning = TUNING_COLUMNS if finished["tuning_trials"].notna().any() else ()
    is_compiled = bool((finished["seconds_compilation"] > 0).any())  # only where a budget asks for it
    phases = [phase for phase in PHASES if is_compiled or phase != "compilation"]
    columns = (
        *NAMES,
        GridColumn("n"),
        *(GridColumn(f"{phase.capitalize()} ({unit.name})") for phase in phases),
        GridColumn("All seeds together (h)"),
        *([GridColumn(PLAIN_STEPS.heading)] if counts_steps else []),
        *(GridColumn(column.heading) for column in tuning),
        GridColumn("Search passes"),
        GridColumn("Training passes"),
        *device_columns(finished),
    )
    rows = []
    for _, group in finished.groupby("comparison", sort=False):
        steps = plain_step_cells(group) if counts_steps else None
        for _, inside in group.groupby("label", sort=False):
            cells = _row(group, inside, unit, phases, tuning, steps)
            rows.append((*cells, *device_cells(finished, inside["device"])))
    notes = (*_totals(finished), *plain_steps_definition(finished), *(tuning_definitions(tuning) if tuning else []))
    return Grid("costs", "Time and image passes: means over seeds", "rows", columns, tuple(rows), notes)


def _row(
    group: pd.DataFrame,
    inside: pd.DataFrame,
    unit: TimeUnit,
    phases: Sequence[str],
    tuning: Sequence[Column],
    steps: Mapping[str, Cell] | None,
) -> list[GridCell]:
    cells = [*text_cells(inside["label"].iloc[0], inside["comparison"].iloc[0], len(inside))]
    cells += [mean_time_cell(inside, [phase], unit) for phase in phases]
    hours = _hours(inside)
    one_clock = only_device(inside["device"]) != SEVERAL_DEVICES and not math.isnan(hours)
    cells.append(number_cell(hours, 1, 2 if hours >= 1 else 3) if one_clock else GridCell(NOTHING))
    cells += [] if steps is None else [cell_of(steps.get(str(inside["label"].iloc[0]), Cell(NOTHING)))]
    cells += [cell_of(tuning_cell(group, inside, column)) for column in tuning]
    cells += [cell_of(passes_cell(inside[f"image_passes_{phase}"])) for phase in ("search", "training")]
    return cells


def _hours(inside: pd.DataFrame) -> float:
    """Add up all phases of some runs; NaN if any time is missing."""
    return float(inside[[f"seconds_{phase}" for phase in PHASES]].to_numpy(dtype=float).sum()) / SECONDS_IN_AN_HOUR


def device_columns(finished: pd.DataFrame) -> list[GridColumn]:
    """Make a column for the device if there are several; a single one stands in the table of data sets."""
    return [GridColumn("Device", numbers=False)] if finished["device"].nunique() > 1 else []


def device_cells(finished: pd.DataFrame, devices: "pd.Series[str]") -> list[GridCell]:
    """Name the device of some runs, if there is a column for it."""
    return text_cells(only_device(devices)) if device_columns(finished) else []


def mean_time_cell(inside: pd.DataFrame, phases: list[str], unit: TimeUnit) -> GridCell:
    """Average the time of some phases over the runs of a method, never over several devices."""
    if only_device(inside["device"]) == SEVERAL_DEVICES:
        return GridCell(SEVERAL_DEVICES)
    if phases == ["search"] and not inside["image_passes_search"].any():
        return GridCell(NOTHING)  # there was nothing to search for; finding that out took a moment
    seconds = inside[[f"seconds_{phase}" for phase in phases]].astype(float).sum(axis=1, skipna=False)
    return GridCell(NOTHING) if seconds.isna().any() else cell_of(mean_cell(seconds, unit.factor, unit.digits))


def _totals(finished: pd.DataFrame) -> list[str]:
    """Tell the hours of all runs of each device together."""
    return [
        f"All {len(inside):,} finished runs on {device} together: {_hours(inside):,.2f} hours."
        for device, inside in finished.groupby("device", sort=False)
        if " + " not in str(device)
    ]
