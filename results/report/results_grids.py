"""The two tables of results: each method, averaged over seeds, and every single run."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from augbench.bench.runs.run_folder import RunState
from augbench.results.model.cells import SCORE_DIGITS, accuracy_digits, asked_seeds, by_comparison, score_cells
from augbench.results.model.definitions import bold_definitions
from augbench.results.model.frame import Runs
from augbench.results.model.resolution import resolution_definitions
from augbench.results.model.table import NOTHING, Cell
from augbench.results.report.cost_grid import device_cells, device_columns, mean_time_cell
from augbench.results.report.grid import NAMES, Grid, GridCell, GridColumn, cell_of, number_cell, text_cells
from augbench.results.report.units import TimeUnit, done, time_unit

MEASURES = {
    "accuracy": "Accuracy (%)",
    "nll": "NLL",
    "brier": "Brier",
    "ece": "ECE",
    "ece_equal_mass": "ECE, equal mass",
}
"""Headings of the metrics."""

_DRAWS = GridColumn("Draws", filter="draws")
_NOTE = (
    "Draws: number of test-time draws from the method's policy whose class probabilities are averaged; 0 for none. "
    "n: seeds; k/N if only k of N are finished, and then never in bold."
)


def results_grids(runs: Runs) -> list[Grid]:
    """Make both tables; without finished runs only that of single runs."""
    unit, finished = time_unit(runs), done(runs)
    return [*([_method_grid(runs, finished, unit)] if len(finished) else []), _run_grid(runs, unit)]


def _method_grid(runs: Runs, finished: pd.DataFrame, unit: TimeUnit) -> Grid:
    columns = (
        *NAMES,
        _DRAWS,
        GridColumn("n"),
        *(GridColumn(heading) for heading in MEASURES.values()),
        GridColumn(f"Search and training ({unit.name})"),
        *device_columns(finished),
    )
    draws = sorted({int(number) for number in runs.scores["draws"]})
    rows = tuple(
        (*row, *device_cells(finished, group.loc[group["label"] == row[0].text, "device"]))
        for here, group in by_comparison(runs, finished)
        for number in draws
        for row in _family(here, group, number, unit)
    )
    marked = ((row[1].text, any(cell.strong for cell in row)) for row in rows)
    notes = (_NOTE, *bold_definitions(marked), *resolution_definitions(runs, finished))
    return Grid("methods", "Methods: means over seeds", "rows of means", columns, rows, notes)


def _family(runs: Runs, group: pd.DataFrame, draws: int, unit: TimeUnit) -> Iterator[list[GridCell]]:
    """Rows of all methods on one data set with one number of draws: those that are compared with each other."""
    scores = {metric: score_cells(runs, group, metric, draws) for metric in MEASURES}
    for label in scores["accuracy"]:
        inside = group[group["label"] == label]
        count = scores["accuracy"][label].count
        asked = asked_seeds(group)
        seeds = GridCell(str(count) if count == asked else f"{count}/{asked}", count)
        cells = [*text_cells(label, inside["comparison"].iloc[0], draws), seeds]
        # the number of seeds has a column of its own
        shown = [scores[metric].get(label, Cell(NOTHING)) for metric in MEASURES]
        cells += [cell_of(replace(cell, text=cell.text.removesuffix(f" ({cell.count}/{asked})"))) for cell in shown]
        yield [*cells, mean_time_cell(inside, ["search", "training"], unit)]


def _run_grid(runs: Runs, unit: TimeUnit) -> Grid:
    table = runs.table()
    finished = table[table["state"] == RunState.DONE.value]
    columns = (
        *NAMES,
        GridColumn("Seed"),
        _DRAWS,
        GridColumn("State", numbers=False, filter="state"),
        *(GridColumn(heading) for heading in MEASURES.values()),
        *(GridColumn(f"{phase} ({unit.name})") for phase in ("Search", "Training", "Evaluation")),
        *device_columns(finished),
        GridColumn("Run", numbers=False),
    )
    digits = {name: accuracy_digits(group) for name, group in finished.groupby("comparison")}
    last = ["device", "folder"] if device_columns(finished) else ["folder"]
    rows = tuple(
        (*_run_row(row, unit, digits.get(row["comparison"], 1)), *text_cells(*(row[name] for name in last)))
        for row in table.to_dict("records")
    )
    notes = ("A run that was continued on another device has no times: seconds of different devices are never added.",)
    several = any(" + " in str(device) for device in table["device"])
    return Grid("runs", "Single runs", "rows of runs", columns, rows, notes if several else ())


def _run_row(row: Mapping[Hashable, Any], unit: TimeUnit, accuracy: int) -> Iterator[GridCell]:
    yield from text_cells(row["label"], row["comparison"], row["seed"], row["draws"], row["state"])
    is_done = row["state"] == RunState.DONE.value
    for name in MEASURES:
        factor, digits = (100, accuracy) if name == "accuracy" else (1, SCORE_DIGITS)
        yield number_cell(row[name], factor, digits) if is_done else GridCell(NOTHING)
    for phase in ("search", "training", "evaluation"):
        is_there = is_done and (phase != "search" or row["image_passes_search"])
        yield number_cell(row[f"seconds_{phase}"], unit.factor, unit.digits) if is_there else GridCell(NOTHING)
