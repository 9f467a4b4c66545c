"""What searches before training found: how often each block or operation is drawn."""

import pandas as pd
from matplotlib.figure import Figure

from augbench.bench.errors import UserError
from augbench.results.figures.overview import draw_probabilities
from augbench.results.figures.style import TWO_COLUMNS, figure_style, new_figure
from augbench.results.frame import Runs

_PANEL_WIDTH, _ROW_HEIGHT = 2.4, 0.105
_MARGINS = 0.95  # inches above and below the panels, with the legend


def searched_numbers(runs: Runs) -> pd.DataFrame:
    """Select the probabilities that searches found.

    Returns:
        A row for each finished run with a search and each block or operation: the columns of `Runs.learned` with
        `block` and `percent`, the share of draws that contain it.
    """
    finished = runs.finished()
    searched = finished[finished["image_passes_search"] > 0]
    found = runs.learned[runs.learned["folder"].isin(searched["folder"])]
    found = found[found["quantity"].str.startswith("probability/")]
    return found.assign(block=found["quantity"].str.removeprefix("probability/"), percent=100 * found["value"])


def searched_figure(runs: Runs) -> Figure:
    """Draw a panel for each learner with a search: a bar for each block and data set, a point for each seed.

    Raises:
        UserError: If no run is finished or none searched.
    """
    found = searched_numbers(runs)
    if found.empty:
        raise UserError("No finished run has searched for a policy: there is nothing to draw.")
    labels = list(dict.fromkeys(found["label"]))
    rows = found.groupby("label")["block"].nunique().max() * found["comparison"].nunique()
    with figure_style():
        figure = new_figure(max(TWO_COLUMNS, _PANEL_WIDTH * len(labels)), _MARGINS + _ROW_HEIGHT * rows)
        panels = figure.subplots(1, len(labels), squeeze=False)[0]
        for axes, label in zip(panels, labels, strict=True):
            draw_probabilities(axes, found[found["label"] == label])
            axes.set_title(label)
            axes.set_xlabel("Share of draws (%)")
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
    return figure
