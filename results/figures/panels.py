"""A page of panels of one kind: how many stand side by side, their titles, one legend and one note below them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from augbench.results.figures.style import (
    ONE_COLUMN,
    TITLE_SIZE,
    TWO_COLUMNS,
    legend_below,
    legend_height,
    with_note,
)
from augbench.results.figures.text import LINE, wrap_text

BESIDE_PANEL = 0.5
"""Inches beside a panel, for the numbers and the label of its vertical axis."""

PANEL_HEIGHT = 2.1
"""Inches from one row of panels to the next, without titles that take more than a line."""


@dataclass(frozen=True)
class Panels:
    """Empty panels with their titles, and what is below them.

    Attributes:
        figure: The figure.
        body: All of it but the note.
        axes: A panel for each title, row by row.
        extra: A lower panel for each title where they were asked for, else none.
        width: Of the figure, in inches.
        entries: What may stand in the legend, in order.
    """

    figure: Figure
    body: FigureBase
    axes: Sequence[Axes]
    extra: Sequence[Axes]
    width: float
    entries: Sequence[str]

    def label(self, below: str, left: str, lower_left: str = "") -> None:
        """Name the axes: the horizontal one where no other panel is below, the vertical one at the left.

        Args:
            below: Name of the horizontal axis.
            left: Name of the vertical axis.
            lower_left: Name of the vertical axis of the lower panels.
        """
        columns = side_by_side(len(self.axes))
        for index, axes in enumerate(self.axes):
            lowest = self.extra[index] if self.extra else axes
            if index + columns >= len(self.axes):
                lowest.set_xlabel(below)
            if index % columns == 0:
                axes.set_ylabel(left)
                if self.extra:
                    lowest.set_ylabel(lower_left)

    def legend(self) -> None:
        """Put one legend below the panels."""
        legend_below(self.body, self.axes, self.width, self.entries)


def side_by_side(count: int) -> int:
    """Choose how many of so many panels stand side by side: three at most, and no row with a single one of four."""
    return 2 if count == 4 else min(3, count)


def new_panels(
    titles: Sequence[str],
    entries: Iterable[str],
    notes: Iterable[str],
    *,
    height: float = PANEL_HEIGHT,
    lower_height: float = 0.0,
    share_y: bool = True,
) -> Panels:
    """Make a figure with a panel for each title: as wide as a column for one, as a page for several.

    Args:
        titles: Of the panels; long ones are broken into lines.
        entries: What will stand in the legend, which gets room below.
        notes: Sentences of the note.
        height: Of a row of panels, inches.
        lower_height: Of a second panel below each, inches; 0 for none.
        share_y: Whether all panels have one vertical axis.
    """
    columns = side_by_side(len(titles))
    rows, entries = -(-len(titles) // columns), list(entries)
    width = ONE_COLUMN if len(titles) == 1 else TWO_COLUMNS
    lines = [wrap_text(title, width / columns - BESIDE_PANEL, TITLE_SIZE) for title in titles]
    breaks = max(line.count("\n") for line in lines)
    below = max(0.5, 0.2 + legend_height(entries, width))
    figure, body = with_note(width, (height + lower_height + LINE * breaks) * rows + below, *notes)
    heights = [height, lower_height] if lower_height else [height]
    grid = body.add_gridspec(rows * len(heights), columns, height_ratios=heights * rows)
    places = [(len(heights) * (index // columns), index % columns) for index in range(len(titles))]
    axes: list[Axes] = []
    extra: list[Axes] = []
    for (row, column), line in zip(places, lines, strict=True):
        axes.append(body.add_subplot(grid[row, column], sharey=axes[0] if axes and share_y else None))
        axes[-1].set_title(line)
        if share_y and column:
            axes[-1].tick_params(labelleft=False)
        if lower_height:
            lower = body.add_subplot(grid[row + 1, column], sharex=axes[-1], sharey=extra[0] if extra else None)
            axes[-1].tick_params(labelbottom=False)
            lower.tick_params(labelleft=not column)
            extra.append(lower)
    return Panels(figure, body, axes, extra, width, entries)


def padded(values: Iterable[float], share: float = 0.06) -> tuple[float, float]:
    """Limits of an axis that leave room on both sides of the values, also where they are all the same."""
    numbers = np.array(list(values), dtype=float)
    lowest, highest = float(numbers.min()), float(numbers.max())
    room = share * (highest - lowest) or max(abs(highest) * share, 0.1)
    return lowest - room, highest + room
