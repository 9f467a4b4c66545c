"""What searches before training found: how often each block or operation is drawn."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from augbench.bench.common.errors import UserError
from augbench.results.figures.notes import caveats, means_text
from augbench.results.figures.overview import draw_probabilities, row_height
from augbench.results.figures.panels import side_by_side
from augbench.results.figures.style import (
    TITLE_SIZE,
    TWO_COLUMNS,
    drawn_in,
    figure_style,
    legend_below,
    legend_height,
    with_note,
)
from augbench.results.figures.text import LINE, wrap_text
from augbench.results.model.frame import Runs

_MARGINS = 0.5  # inches above and below each row of panels
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
    columns = side_by_side(len(labels))
    rows = [labels[start : start + columns] for start in range(0, len(labels), columns)]
    with figure_style():
        titles = {label: wrap_text(label, TWO_COLUMNS / columns - _BLOCK_NAMES, TITLE_SIZE) for label in labels}
        heights = [_row_height(found, row, titles) for row in rows]
        bars = f"Bars: {means_text(found)}; points: single seeds."
        height = sum(heights) + 0.3 + legend_height(comparisons, TWO_COLUMNS)
        figure, body = with_note(TWO_COLUMNS, height, bars, *caveats(runs))
        grid = body.add_gridspec(len(rows), columns, height_ratios=heights)
        panels = [body.add_subplot(grid[line, column]) for line, row in enumerate(rows) for column, _ in enumerate(row)]
        for axes, label in zip(panels, labels, strict=True):
            draw_probabilities(axes, found[found["label"] == label], comparisons)
            axes.set_title(titles[label])
            axes.set_xlabel("Share of draws (%)")
        legend_below(body, drawn_in(panels), TWO_COLUMNS)
    return figure


def _row_height(found: pd.DataFrame, labels: Sequence[str], titles: Mapping[str, str]) -> float:
    """Height in inches of a row of panels: that of the one with the most bars."""
    inside = found[found["label"].isin(labels)]
    comparisons = list(found["comparison"].unique())
    bars = int(inside.groupby("label")["block"].nunique().max()) * len(comparisons)
    return _MARGINS + LINE * max(titles[label].count("\n") for label in labels) + row_height(comparisons) * bars
