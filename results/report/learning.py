"""What was learned: its course over the epochs, thinned so that a page can hold it, and where it ended."""

from typing import Any

import numpy as np
import pandas as pd

from augbench.bench.runs.run_folder import RunState
from augbench.results.figures.learned import NOT_LEARNED, OTHER, PROBABILITY, RANGE, as_drawn
from augbench.results.figures.style import block_looks
from augbench.results.model.frame import Runs
from augbench.results.report.chart_data import Json
from augbench.results.report.grid import NAMES, Grid, GridColumn, number_cell, significant, text_cells
from augbench.results.report.looks import look_data

MOST_EPOCHS = 80  # points of a line; more could not be told apart at the width of a panel
TRAINING = "training"
KINDS = (
    {"name": PROBABILITY, "label": "Probability π (%)", "in_percent": True},
    {"name": RANGE, "label": "Range α (% of the maximum)", "in_percent": True},
    {"name": OTHER, "label": "Other learned numbers", "in_percent": False},
    {"name": TRAINING, "label": "Training loss and accuracy", "in_percent": False},
)


def learned_data(runs: Runs) -> Json | None:
    """Lines over the epochs: mean, lowest and highest of the finished seeds; None if no run is finished.

    Probabilities and ranges are in percent, as in the figure `learned`. Methods that search before training learn
    nothing in training: they only have loss and accuracy.
    """
    if RunState.DONE.value not in runs.states:
        return None
    lines = thinned_means(runs)
    kinds = [kind for kind in KINDS if kind["name"] in set(lines["kind"])]
    panels = [
        _panel(str(comparison), str(label), str(kind), inside)
        for (comparison, label, kind), inside in lines.groupby(["comparison", "label", "kind"], sort=False)
    ]
    looks = {name: look_data(look) for name, look in block_looks(lines["block"]).items()}
    return {"kinds": kinds, "looks": looks, "panels": panels}


def thinned_means(runs: Runs) -> pd.DataFrame:
    """Average what finished runs recorded over seeds, at no more than `MOST_EPOCHS` epochs.

    Returns:
        A row for each `comparison`, `label`, `quantity` and kept `epoch`: `mean`, `low`, `high`, number of `seeds`,
        and `kind` and `block`, as in the figure `learned`. Epochs that some seeds lack are left out: the mean would
        jump.

    Raises:
        UserError: If no run is finished.
    """
    finished, numbers = runs.finished(), runs.trajectories
    numbers = numbers[numbers["folder"].isin(finished["folder"])]
    last = numbers.groupby("comparison", sort=False)["epoch"].max()
    kept = {(comparison, epoch) for comparison, most in last.items() for epoch in kept_epochs(int(most))}
    numbers = numbers[pd.MultiIndex.from_frame(numbers[["comparison", "epoch"]]).isin(kept)]
    numbers = as_drawn(numbers, finished)
    kinds = numbers["kind"].mask(numbers["quantity"].isin(NOT_LEARNED), TRAINING)
    searched = set(finished.loc[finished["image_passes_search"] > 0, "folder"])
    numbers = numbers.assign(kind=kinds)[(kinds == TRAINING) | ~numbers["folder"].isin(searched)]
    keys = ["comparison", "label", "quantity", "kind", "block", "epoch"]
    means = numbers.groupby(keys, sort=False)["drawn"].agg(["mean", "min", "max", "size"]).reset_index()
    means = means.rename(columns={"min": "low", "max": "high", "size": "seeds"})
    complete = means.groupby(["comparison", "label", "quantity"], sort=False)["seeds"].transform("max")
    return means[means["seeds"] == complete]


def kept_epochs(last: int) -> list[int]:
    """Choose at most `MOST_EPOCHS` epochs, evenly spread, with the first and the last among them."""
    return sorted({round(epoch) for epoch in np.linspace(1, last, min(last, MOST_EPOCHS)).tolist()})


def _panel(comparison: str, label: str, kind: str, inside: pd.DataFrame) -> Json:
    epochs = sorted({int(epoch) for epoch in inside["epoch"]})
    lines = [_line(str(name), of_name, epochs) for name, of_name in inside.groupby("block", sort=False)]
    seeds = int(inside["seeds"].max())
    return {"comparison": comparison, "label": label, "kind": kind, "seeds": seeds, "epochs": epochs, "lines": lines}


def _line(name: str, inside: pd.DataFrame, epochs: list[int]) -> Json:
    by_epoch = inside.set_index("epoch").reindex(epochs)
    columns = ("mean", "low", "high")
    return {"name": name, **{column: [significant(value, 4) for value in by_epoch[column]] for column in columns}}


def learned_grid(runs: Runs) -> Grid | None:
    """Make the table of the numbers learned in the end, as stored; None if there are none."""
    if runs.learned.empty:
        return None
    rows, keys = [], ["comparison", "label", "quantity"]
    for (comparison, label, quantity), values in runs.learned.groupby(keys, sort=False)["value"]:
        numbers: list[Any] = [values.mean(), values.min(), values.max()]
        cells = [number_cell(number, 1, 4) for number in numbers]
        rows.append((*text_cells(label, comparison, quantity), *cells, *text_cells(len(values))))
    columns = (
        *NAMES,
        GridColumn("Number", numbers=False),
        *(GridColumn(heading) for heading in ("Mean", "Lowest seed", "Highest seed", "n")),
    )
    notes = (
        "As stored: probabilities in [0, 1]; rotation in radians; scales as logarithms of a factor; shifts in halves "
        "of an image.",
    )
    return Grid("learned-numbers", "Learned numbers at the end of training", "numbers", columns, tuple(rows), notes)
