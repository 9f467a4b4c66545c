"""What learners start with and what they end with: probabilities π and ranges α of every block."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from augbench.bench.common.errors import UserError
from augbench.bench.common.wording import few_names
from augbench.results.figures.learned import (
    OTHER,
    explain_maxima,
    learned_numbers,
    panel_columns,
    panel_titles,
)
from augbench.results.figures.notes import caveats, means_text
from augbench.results.figures.overview import bar_height, bar_places, draw_probabilities, row_height
from augbench.results.figures.panels import side_by_side
from augbench.results.figures.style import TWO_COLUMNS, drawn_in, figure_style, legend_below, legend_height, with_note
from augbench.results.figures.text import LINE
from augbench.results.model.frame import Runs

START, AFTER_THE_FIRST = "at the start", "after the first epoch"
_MARGINS = 0.45  # inches above and below a row of panels
_MOST_HEIGHT = 8.2  # inches of the rows of panels of a page
_BLOCK_NAMES = 0.9  # inches left of a panel

Column = tuple[str, str]
"""Label of a method and kind of its numbers."""

Row = Sequence[Column]
"""Panels side by side."""


def start_and_end(runs: Runs) -> pd.DataFrame:
    """Select the first and the last of the probabilities and ranges that finished runs learned in training.

    Returns:
        A row for each run and number: the columns of `learned_numbers` at the last epoch, with `percent` for `drawn`;
        `start`, what it was first, in percent too; and `start_epoch`: 0 if that was before the first step; runs that
        have not recorded so much have 1.
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

    A panel for the probabilities and one for the ranges of each method; in it, for each block and data set, a filled
    bar for the mean over seeds at the end with a point for each seed, and an outlined bar for the mean at the start.

    Raises:
        UserError: If no run is finished or none learned probabilities or ranges.
    """
    found = start_and_end(runs)
    if found.empty:
        raise UserError("No finished run learned probabilities or ranges in training: there is nothing to draw.")
    columns = panel_columns(found)
    wide = side_by_side(len(columns))
    rows = [columns[start : start + wide] for start in range(0, len(columns), wide)]
    with figure_style():
        titles = dict(zip(columns, panel_titles(columns, TWO_COLUMNS / wide - _BLOCK_NAMES), strict=True))
        heights = [_height(found, row, titles) for row in rows]
        return [_page(runs, found, page, titles) for page in _pages(rows, heights)]


def _pages(rows: Sequence[Row], heights: Sequence[float]) -> Iterator[list[tuple[Row, float]]]:
    """Fill pages with rows of panels, each with its height."""
    page: list[tuple[Row, float]] = []
    for row, height in zip(rows, heights, strict=True):
        if page and sum(of_page for _, of_page in page) + height > _MOST_HEIGHT:
            yield page
            page = []
        page.append((row, height))
    yield page


def _inside(found: pd.DataFrame, column: Column) -> pd.DataFrame:
    return found[(found["label"] == column[0]) & (found["kind"] == column[1])]


def _height(found: pd.DataFrame, row: Row, titles: Mapping[Column, str]) -> float:
    """Height in inches of a row of panels: that of the one with the most bars, and its longest title."""
    comparisons = list(found["comparison"].unique())
    bars = max(_inside(found, column)["block"].nunique() for column in row) * len(comparisons)
    lines = 1 + max(titles[column].count("\n") for column in row)
    return _MARGINS + LINE * lines + row_height(comparisons) * bars


def _page(runs: Runs, found: pd.DataFrame, rows: Sequence[tuple[Row, float]], titles: Mapping[Column, str]) -> Figure:
    comparisons = list(dict.fromkeys(found["comparison"]))
    heights = [height for _, height in rows]
    shown = pd.concat([_inside(found, column) for row, _ in rows for column in row])
    start = AFTER_THE_FIRST if (shown["start_epoch"] > 0).all() else START
    notes = [*_notes(shown), *explain_maxima(runs, shown), *caveats(runs)]
    below = 0.3 + legend_height([*comparisons, start], TWO_COLUMNS)
    figure, body = with_note(TWO_COLUMNS, sum(heights) + below, *notes)
    grid = body.add_gridspec(len(rows), side_by_side(len(titles)), height_ratios=heights)
    panels = []
    for line, (row, _) in enumerate(rows):
        for place, column in enumerate(row):
            panels.append(body.add_subplot(grid[line, place]))
            _draw(panels[-1], _inside(found, column), comparisons, start)
            panels[-1].set_title(titles[column])
            panels[-1].set_xlim(0, 1.03 * max(100, shown["percent"].max(), shown["start"].max()))
    legend_below(body, drawn_in(panels), TWO_COLUMNS)
    return figure


def _draw(axes: Axes, inside: pd.DataFrame, comparisons: Sequence[str], start_name: str) -> None:
    draw_probabilities(axes, inside, comparisons)
    places = bar_places(list(dict.fromkeys(inside["block"])), comparisons)
    start = inside.groupby(["comparison", "block"], sort=False)["start"].mean()
    heights = [places[str(comparison), str(block)] for comparison, block in start.index]
    style: dict[str, Any] = {"fill": False, "edgecolor": "0.2", "linewidth": 0.6}
    axes.barh(heights, start, height=bar_height(comparisons), label=start_name, **style)


def _notes(shown: pd.DataFrame) -> Iterator[str]:
    yield f"Filled bars: {means_text(shown)} after the last epoch; points: single seeds."
    late = list(dict.fromkeys(shown[shown["start_epoch"] > 0]["label"]))
    first = "Outlined bars: means before the first step"
    yield (
        f"{first}, or after the first epoch where the start is not recorded: {few_names(late)}."
        if late
        else f"{first}."
    )
