"""What learners start with and what they end with: probabilities π and ranges α of every block."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from augbench.bench.common.errors import UserError
from augbench.bench.common.wording import few_names
from augbench.results.figures.bars import BLOCK_NAMES, draw_outlines, draw_probabilities, row_height
from augbench.results.figures.learned import OTHER, explain_maxima, learned_numbers, panel_columns, panel_titles
from augbench.results.figures.notes import caveats, means_text
from augbench.results.figures.panels import side_by_side
from augbench.results.figures.style import TWO_COLUMNS, drawn_in, figure_style, legend_below, legend_height, with_note
from augbench.results.figures.text import LINE
from augbench.results.model.frame import Runs

START, AFTER_THE_FIRST = "at the start", "after the first epoch"
_MARGINS = 0.45  # inches above and below a row of panels
_MOST_HEIGHT = 8.2  # inches of the rows of panels of a page

Column = tuple[str, str]
"""Label of a method and kind of its numbers."""

Row = Sequence[Column]
"""Panels side by side."""


def start_and_end(runs: Runs) -> pd.DataFrame:
    """Select the first and the last of the probabilities and ranges that finished runs learned in training.

    Returns:
        A row for each run and number: the columns of `learned_numbers` at the last epoch, with `percent` for `drawn`;
        `start`, the first value, in percent too; and `start_epoch`: 0 if that was before the first step, 1 for runs
        that have not recorded it.
    """
    numbers = learned_numbers(runs)
    numbers = numbers[numbers["kind"] != OTHER].sort_values("epoch", kind="stable")
    by_number = numbers.groupby(["folder", "quantity"], sort=False)
    first = by_number[["folder", "quantity", "epoch", "drawn"]].head(1)
    first = first.rename(columns={"epoch": "start_epoch", "drawn": "start"})
    last = by_number.tail(1).rename(columns={"drawn": "percent"})
    order = {folder: place for place, folder in enumerate(runs.runs["folder"])}
    return last.merge(first, on=["folder", "quantity"]).sort_values(
        "folder", key=lambda folders: folders.map(order), kind="stable"
    )


def parameters_figures(runs: Runs) -> list[Figure]:
    """Draw the first and the last probabilities and ranges, on as many pages as are needed to read them.

    A panel for the probabilities and one for the ranges of each method. For each block and data set, a filled bar is
    the mean over seeds at the end, with a point for each seed, and an outlined bar the mean at the start.

    Raises:
        UserError: If no run is finished or none learned probabilities or ranges.
    """
    found = start_and_end(runs)
    if found.empty:
        raise UserError("No finished run learned probabilities or ranges in training: there is nothing to draw.")
    columns, comparisons = panel_columns(found), list(found["comparison"].unique())
    wide = side_by_side(len(columns))
    with figure_style():
        titles = dict(zip(columns, panel_titles(columns, TWO_COLUMNS / wide - BLOCK_NAMES), strict=True))
        inside = {column: found[(found["label"] == column[0]) & (found["kind"] == column[1])] for column in columns}
        rows = []
        for row in (columns[start : start + wide] for start in range(0, len(columns), wide)):
            height = row_height([inside[column] for column in row], [titles[column] for column in row], comparisons)
            rows.append((row, _MARGINS + LINE + height))
        return [_page(runs, inside, comparisons, page, titles) for page in _pages(rows)]


def _pages(rows: Sequence[tuple[Row, float]]) -> Iterator[list[tuple[Row, float]]]:
    """Fill pages with rows of panels, each with its height."""
    page: list[tuple[Row, float]] = []
    for row in rows:
        if page and sum(height for _, height in [*page, row]) > _MOST_HEIGHT:
            yield page
            page = []
        page.append(row)
    yield page


def _page(
    runs: Runs,
    inside: Mapping[Column, pd.DataFrame],
    comparisons: Sequence[str],
    rows: Sequence[tuple[Row, float]],
    titles: Mapping[Column, str],
) -> Figure:
    heights = [height for _, height in rows]
    shown = pd.concat([inside[column] for row, _ in rows for column in row])
    start = AFTER_THE_FIRST if (shown["start_epoch"] > 0).all() else START
    notes = [*_notes(shown), *explain_maxima(runs, shown), *caveats(runs)]
    below = 0.3 + legend_height([*comparisons, start], TWO_COLUMNS)
    figure, body = with_note(TWO_COLUMNS, sum(heights) + below, *notes)
    grid = body.add_gridspec(len(rows), side_by_side(len(titles)), height_ratios=heights)
    for line, (row, _) in enumerate(rows):
        for place, column in enumerate(row):
            axes = body.add_subplot(grid[line, place])
            draw_probabilities(axes, inside[column], comparisons)
            draw_outlines(axes, inside[column], comparisons, "start", start)
            axes.set_title(titles[column])
            axes.set_xlim(0, 1.03 * max(100, shown["percent"].max(), shown["start"].max()))
    legend_below(body, drawn_in(figure.axes), TWO_COLUMNS)
    return figure


def _notes(shown: pd.DataFrame) -> Iterator[str]:
    yield f"Filled bars: {means_text(shown)} after the last epoch; points: single seeds."
    late = list(dict.fromkeys(shown[shown["start_epoch"] > 0]["label"]))
    rest = f", or after the first epoch where the start is not recorded: {few_names(late)}" if late else ""
    yield f"Outlined bars: means before the first step{rest}."
