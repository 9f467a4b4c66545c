"""What searches before training found: how often each block or operation is drawn."""

import pandas as pd
from matplotlib.figure import Figure

from augbench.bench.errors import UserError
from augbench.results.figures.overview import draw_probabilities
from augbench.results.figures.style import (
    TITLE_SIZE,
    TWO_COLUMNS,
    figure_style,
    legend_below,
    legend_height,
    new_figure,
)
from augbench.results.figures.text import LINE, wrap_text
from augbench.results.frame import Runs

_PANEL_WIDTH, _ROW_HEIGHT = 2.4, 0.105
_MARGINS = 0.8  # inches above and below the panels, without the legend
_BLOCK_NAMES = 0.9  # inches left of a panel


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
    comparisons = list(dict.fromkeys(found["comparison"]))
    rows = found.groupby("label")["block"].nunique().max() * len(comparisons)
    width = max(TWO_COLUMNS, _PANEL_WIDTH * len(labels))
    with figure_style():
        titles = [wrap_text(label, width / len(labels) - _BLOCK_NAMES, TITLE_SIZE) for label in labels]
        margins = _MARGINS + LINE * max(title.count("\n") for title in titles) + legend_height(comparisons, width)
        figure = new_figure(width, margins + _ROW_HEIGHT * rows)
        panels = figure.subplots(1, len(labels), squeeze=False)[0]
        for axes, label, title in zip(panels, labels, titles, strict=True):
            draw_probabilities(axes, found[found["label"] == label], comparisons)
            axes.set_title(title)
            axes.set_xlabel("Share of draws (%)")
        legend_below(figure, panels, width)
    return figure
