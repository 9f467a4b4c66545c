"""What searches before training found: how often each block or operation is drawn."""

import pandas as pd
from matplotlib.figure import Figure

from augbench.bench.common.errors import UserError
from augbench.results.figures.bars import BLOCK_NAMES, draw_probabilities, final_probabilities, row_height
from augbench.results.figures.notes import caveats, means_text
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
from augbench.results.figures.text import wrap_text
from augbench.results.model.frame import Runs

_MARGINS = 0.5  # inches above and below each row of panels


def searched_numbers(runs: Runs) -> pd.DataFrame:
    """Select the probabilities that searches found.

    Returns:
        A row for each finished run with a search and each block or operation: the columns of `Runs.learned` with
        `block` and `percent`, the percentage of draws that contain it.
    """
    finished = runs.finished()
    searched = finished.loc[finished["image_passes_search"] > 0, "folder"]
    found = final_probabilities(runs)
    return found[found["folder"].isin(searched)]


def searched_figure(runs: Runs) -> Figure:
    """Draw a panel for each learner with a search: a bar for each block and data set, a point for each seed.

    Raises:
        UserError: If no run is finished or none searched.
    """
    found = searched_numbers(runs)
    if found.empty:
        raise UserError("No finished run has searched for a policy: there is nothing to draw.")
    comparisons = list(dict.fromkeys(found["comparison"]))
    inside = {str(label): of_label for label, of_label in found.groupby("label", sort=False)}
    columns = side_by_side(len(inside))
    rows = [list(inside)[start : start + columns] for start in range(0, len(inside), columns)]
    with figure_style():
        titles = {label: wrap_text(label, TWO_COLUMNS / columns - BLOCK_NAMES, TITLE_SIZE) for label in inside}
        heights = [
            _MARGINS + row_height([inside[label] for label in row], [titles[label] for label in row], comparisons)
            for row in rows
        ]
        bars = f"Bars: {means_text(found)}; points: single seeds."
        height = sum(heights) + 0.3 + legend_height(comparisons, TWO_COLUMNS)
        figure, body = with_note(TWO_COLUMNS, height, bars, *caveats(runs))
        grid = body.add_gridspec(len(rows), columns, height_ratios=heights)
        for index, (label, of_label) in enumerate(inside.items()):
            axes = body.add_subplot(grid[divmod(index, columns)])
            draw_probabilities(axes, of_label, comparisons)
            axes.set_title(titles[label])
            axes.set_xlabel("Share of draws (%)")
        legend_below(body, drawn_in(figure.axes), TWO_COLUMNS)
    return figure
