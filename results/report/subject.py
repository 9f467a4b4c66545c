"""What was compared, and how: data sets, methods, definitions, and what a reader must know."""

from collections.abc import Iterable

import pandas as pd

from augbench.bench.runs.run_folder import RunState
from augbench.results.model.definitions import accuracy_definition, calibration_definition
from augbench.results.model.frame import Runs
from augbench.results.model.notes import run_notes
from augbench.results.report.grid import Grid, only_device, plain_grid

TIMES = (
    "Search and training: wall-clock time of these phases, beside whatever else the machine did; times of different "
    "devices are never averaged or compared. Image passes: images through a network, forwards."
)


def headline_numbers(runs: Runs) -> list[tuple[str, int]]:
    """Count what the page is about: data sets, methods, runs and how many of them are finished."""
    frame = runs.runs
    return [
        ("data sets", frame["comparison"].nunique()),
        ("methods", frame["label"].nunique()),
        ("runs", len(frame)),
        ("finished", int((frame["state"] == RunState.DONE.value).sum())),
    ]


def notes(runs: Runs) -> list[str]:
    """Sentences that say how the numbers of these runs are to be read; all else of them is in tables of the page."""
    finished = runs.runs[runs.runs["state"] == RunState.DONE.value]
    if finished.empty:
        return []
    return list(run_notes(runs, finished, alone=False))


def definitions(runs: Runs) -> list[str]:
    """Sentences that say what the numbers mean; the same as below the tables of `augbench tables`."""
    finished = runs.runs[runs.runs["state"] == RunState.DONE.value]
    if finished.empty:
        return []
    draws = sorted({int(number) for number in runs.scores["draws"]} - {0})
    measures = (accuracy_definition(finished, draws), calibration_definition(finished, equal_mass=True))
    return [*measures, TIMES]


def subject_grids(runs: Runs) -> list[Grid]:
    """Make a table of the data sets and one of the methods."""
    return [_dataset_grid(runs.runs), _method_grid(runs.runs)]


def _dataset_grid(frame: pd.DataFrame) -> Grid:
    headings = (
        *("Data set", "Version", "Training images", "Evaluated on", "Network", "Budget", "Protocol"),
        *("Methods", "Seeds", "Runs", "Finished", "Device"),
    )
    rows = [_dataset_row(str(name), inside) for name, inside in frame.groupby("comparison", sort=False)]
    return plain_grid("data-sets", "Data sets, and how networks were trained on them", "data sets", headings, rows)


def _dataset_row(name: str, inside: pd.DataFrame) -> list[object]:
    done = inside["state"] == RunState.DONE.value
    first = inside.iloc[0]
    images = _listed(f"{int(count):,}" for count in inside["test_images"].dropna())
    return [
        name,
        _listed(inside["dataset_version"]),
        _listed(f"{int(count):,}" for count in inside["train_images"].dropna()),
        f"{images} images of the {_listed(inside['split'])} split" if images else _listed(inside["split"]),
        f"{first['network']} (version {_listed(inside['network_version'])})",
        first["budget"],
        f"version {_listed(inside['protocol_version'])}{', ' if first['protocol'] else ''}{first['protocol']}",
        inside["label"].nunique(),
        int(first["asked"]),
        len(inside),
        int(done.sum()),
        only_device(inside["device"]),
    ]


def _method_grid(frame: pd.DataFrame) -> Grid:
    rows = [
        [label, _listed(inside["method_version"]), _listed(inside["settings"]), len(inside)]
        for label, inside in frame.groupby("label", sort=False)
    ]
    headings = ("Method", "Version", "Settings that are not defaults", "Runs")
    return plain_grid("compared-methods", "Methods", "methods", headings, rows)


def _listed(values: Iterable[object]) -> str:
    """Write different values one after the other, in the order in which they come."""
    return "; ".join(dict.fromkeys(str(value) for value in values if str(value)))
