"""What was compared, and how: data sets, methods, definitions and notes."""

from collections.abc import Iterable

import pandas as pd

from augbench.results.model.definitions import accuracy_definition, calibration_definition
from augbench.results.model.frame import Runs
from augbench.results.model.notes import run_notes
from augbench.results.report.grid import Grid, only_device, plain_grid
from augbench.results.report.units import done

TIMES = (
    "Search and training: wall-clock time of these phases; other load on the machine slows them. Times of different "
    "devices are never averaged or compared. Image passes: images through a network, forwards."
)
_METHOD_HEADINGS = ("Method", "Version", "Settings that are not defaults", "Runs")


def headline_numbers(runs: Runs) -> list[tuple[str, int]]:
    """Count data sets, methods, runs and finished runs."""
    frame = runs.runs
    return [
        ("data sets", frame["comparison"].nunique()),
        ("methods", frame["label"].nunique()),
        ("runs", len(frame)),
        ("finished", len(done(runs))),
    ]


def notes(runs: Runs) -> list[str]:
    """Sentences on how to read the numbers of these runs."""
    finished = done(runs)
    return [] if finished.empty else list(run_notes(runs, finished, alone=False))


def definitions(runs: Runs) -> list[str]:
    """Sentences on what the numbers mean; the same as below the tables of `augbench tables`."""
    finished = done(runs)
    if finished.empty:
        return []
    draws = sorted({int(number) for number in runs.scores["draws"]} - {0})
    measures = (accuracy_definition(finished, draws), calibration_definition(finished, equal_mass=True))
    return [*measures, TIMES]


def subject_grids(runs: Runs) -> list[Grid]:
    """Make a table of the data sets and one of the methods."""
    frame, finished = runs.runs, done(runs)
    headings = (
        *("Data set", "Version", "Training images", "Evaluated on", "Network", "Budget", "Protocol"),
        *("Methods", "Seeds", "Runs", "Finished", "Device"),
    )
    counts = finished["comparison"].value_counts()
    rows = [_dataset_row(inside, int(counts.get(name, 0))) for name, inside in frame.groupby("comparison", sort=False)]
    title = "Data sets, and how networks were trained on them"
    methods = [
        [label, _listed(inside["method_version"]), _listed(inside["settings"]), len(inside)]
        for label, inside in frame.groupby("label", sort=False)
    ]
    return [
        plain_grid("data-sets", title, "data sets", headings, rows),
        plain_grid("compared-methods", "Methods", "methods", _METHOD_HEADINGS, methods),
    ]


def _dataset_row(inside: pd.DataFrame, finished: int) -> list[object]:
    first = inside.iloc[0]
    images = _listed(f"{int(count):,}" for count in inside["test_images"].dropna())
    return [
        first["comparison"],
        _listed(inside["dataset_version"]),
        _listed(f"{int(count):,}" for count in inside["train_images"].dropna()),
        f"{images} images of the {_listed(inside['split'])} split" if images else _listed(inside["split"]),
        f"{first['network']} (version {_listed(inside['network_version'])})",
        first["budget"],
        f"version {_listed(inside['protocol_version'])}{', ' if first['protocol'] else ''}{first['protocol']}",
        inside["label"].nunique(),
        int(first["asked"]),
        len(inside),
        finished,
        only_device(inside["device"]),
    ]


def _listed(values: Iterable[object]) -> str:
    """List different values in their order."""
    return "; ".join(dict.fromkeys(str(value) for value in values if str(value)))
