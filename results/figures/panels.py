"""A page of panels of one kind: how many stand side by side, their titles, legends and one note.

Where there are more learners than can be told apart in one panel, each title has several panels: a few learners in
colour in each, and all others in grey behind them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.gridspec import GridSpec

from augbench.results.figures.style import (
    CROWD,
    LABEL_SIZE,
    ONE_COLUMN,
    TITLE_SIZE,
    TWO_COLUMNS,
    drawn_in,
    legend_below,
    legend_height,
    legend_in,
    with_note,
)
from augbench.results.figures.text import LINE, wrap_text

BESIDE_PANEL = 0.5
"""Inches beside a panel, for the numbers and the label of its vertical axis."""

PANEL_HEIGHT = 2.1
"""Inches from one row of panels to the next, without titles that take more than a line."""

_TOGETHER, _ABREAST = 4, 4
"""In a crowd: the most learners in colour in one panel, and the most panels side by side."""

_FRACTION, _LEAST_HEIGHT, _PAGE = 0.8, 1.0, 8.6
"""Height of a crowd's rows: fraction of the usual one, least in inches, and inches of all rows if they fit a page."""

_BETWEEN, _ABOVE, _BELOW = 0.05, 0.1, 0.2
"""Inches in a crowd: between panels side by side, above the legend of a column, below all panels."""

_T = TypeVar("_T")

_BELOW_NAME = 1.8  # sizes of its font, from the name of the axis to the legend

_LYING: Any = {"rotation": 0, "ha": "right", "va": "center", "fontsize": 6}
"""Label of a lower panel of a crowd, whose height may be less than the length of the label."""

_GREY = "Grey: the methods of the other panels."


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        index: Position of its title.
        labels: Learners that are drawn in colour; all others are behind them.
        axes: The panel itself.
        lower: The panel below it, if there is one; else `axes`.
        first: Whether it is the first one of its row.
        last: Whether no other panel is below it.
    """

    index: int
    labels: Sequence[str]
    axes: Axes
    lower: Axes
    first: bool
    last: bool


@dataclass(frozen=True)
class Panels:
    """Empty panels with their titles, and what is above and below them.

    Attributes:
        figure: The figure.
        body: All of it but the note.
        panels: The panels, row by row.
        width: Of the figure, in inches.
        entries: Entries of the legend below, in order.
        headings: In a crowd, room for a legend above each column of panels, and the learners in it; else none.
        foot: In a crowd, room below all panels, for the name of their axis and the rest of the legend.
    """

    figure: Figure
    body: FigureBase
    panels: Sequence[Panel]
    width: float
    entries: Sequence[str]
    headings: Sequence[tuple[Axes, Sequence[str]]] = ()
    foot: Axes | None = None

    def __iter__(self) -> Iterator[Panel]:
        """Go through the panels, row by row."""
        return iter(self.panels)

    @property
    def axes(self) -> Sequence[Axes]:
        """Where to draw, row by row."""
        return [panel.axes for panel in self.panels]

    def label(self, below: str, left: str, lower_left: str = "") -> None:
        """Name the axes: the horizontal one below the last panels, the vertical ones of panels at the left."""
        if self.foot:  # since the name is wider than a panel
            self.foot.text(0.5, 1, below, fontsize=LABEL_SIZE, ha="center", va="top")
        for panel in self:
            if panel.last and not self.foot:
                panel.lower.set_xlabel(below)
            if panel.first:
                if panel.lower is not panel.axes:
                    panel.lower.set_ylabel(lower_left, **(_LYING if self.foot else {}))
                panel.axes.set_ylabel(left)

    def legend(self) -> None:
        """Put one legend below the panels; in a crowd, learners have legends above their columns instead."""
        found = drawn_in(self.axes)
        for axes, labels in self.headings:
            columns = axes.get_gridspec().ncols  # type: ignore[union-attr]
            own = {label: found.pop(label) for label in labels if label in found}
            legend_in(axes, own, _heading_width(columns), "lower left", pad=0)
        if self.foot:
            legend_in(self.foot, found, self.width, "upper center", pad=_BELOW_NAME)
        else:
            legend_below(self.body, found, self.width, self.entries)


def side_by_side(count: int) -> int:
    """Choose how many of `count` panels stand side by side: three at most, and two of four."""
    return 2 if count == 4 else min(3, count)


def new_panels(
    titles: Sequence[str],
    labels: Sequence[str],
    notes: Iterable[str],
    *,
    others: Sequence[str] = (),
    height: float = PANEL_HEIGHT,
    lower_height: float = 0.0,
    share_y: bool = True,
    crowd: int = CROWD,
) -> Panels:
    """Make a figure with a panel for each title: as wide as a column for one, as a page for several.

    With more than `crowd` learners each title has several panels side by side, on a figure that is as wide as a page.

    Args:
        titles: Of the panels; long ones are broken into lines.
        labels: Learners, which the legend names.
        notes: Sentences of the note.
        others: Other entries of the legend.
        height: Of a row of panels, inches.
        lower_height: Of a second panel below each, inches; 0 for none.
        share_y: Whether all panels share one vertical axis; else each title has its own.
        crowd: Most learners in one panel.
    """
    heights = [height, lower_height] if lower_height else [height]
    if len(labels) > crowd:
        first, *more = notes
        return _crowd(titles, labels, [first, _GREY, *more], others, heights, share_y=share_y)
    columns = side_by_side(len(titles))
    rows, entries = -(-len(titles) // columns), [*labels, *others]
    width = ONE_COLUMN if len(titles) == 1 else TWO_COLUMNS
    lines = [wrap_text(title, width / columns - BESIDE_PANEL, TITLE_SIZE) for title in titles]
    breaks = max(line.count("\n") for line in lines)
    below = max(0.5, 0.2 + legend_height(entries, width))
    figure, body = with_note(width, (sum(heights) + LINE * breaks) * rows + below, *notes)
    grid = body.add_gridspec(rows * len(heights), columns, height_ratios=heights * rows)
    panels: list[Panel] = []
    for index, line in enumerate(lines):
        row, column = divmod(index, columns)
        axes, lower = _add(body, grid, (row * len(heights), column), len(heights), panels[:1], share_y=share_y)
        axes.set_title(line)
        panels.append(Panel(index, labels, axes, lower, first=not column, last=index + columns >= len(titles)))
    return Panels(figure, body, panels, width, entries)


def _add(
    body: FigureBase, grid: GridSpec, place: tuple[int, int], levels: int, like: Sequence[Panel], *, share_y: bool
) -> tuple[Axes, Axes]:
    """Add a panel, and a lower one if there are two levels; the numbers of a shared axis stand at the left.

    Args:
        body: Where to.
        grid: Of the places.
        place: Row and column.
        levels: 1 or 2.
        like: The panel whose lower vertical axis it shares, if any.
        share_y: Whether it shares the upper one, too.
    """
    row, column = place
    axes = body.add_subplot(grid[row, column], sharey=like[0].axes if like and share_y else None)
    axes.tick_params(labelleft=not (share_y and column))
    if levels == 1:
        return axes, axes
    lower = body.add_subplot(grid[row + 1, column], sharex=axes, sharey=like[0].lower if like else None)
    axes.tick_params(labelbottom=False)
    lower.tick_params(labelleft=not column)
    return axes, lower


def _crowd(
    titles: Sequence[str],
    labels: Sequence[str],
    notes: Iterable[str],
    others: Sequence[str],
    heights: Sequence[float],
    *,
    share_y: bool,
) -> Panels:
    """Make blocks of panels with a row for each title and a few learners in each column."""
    blocks = _spread(_spread(labels, _TOGETHER), _ABREAST)
    columns, rows = len(blocks[0]), len(blocks) * len(titles)
    names = [wrap_text(title, TWO_COLUMNS - BESIDE_PANEL, TITLE_SIZE) for title in titles]
    tops = [_ABOVE + max(legend_height(group, _heading_width(columns)) for group in block) for block in blocks]
    bottom = _BELOW + legend_height(others, TWO_COLUMNS)
    rest = sum(tops) + bottom + LINE * len(blocks) * sum(name.count("\n") for name in names)
    row_height = max(_LEAST_HEIGHT, min(_FRACTION * sum(heights), (_PAGE - rest) / rows))
    figure, body = with_note(TWO_COLUMNS, row_height * rows + rest, *notes)
    ratios = [row_height * height / sum(heights) for height in heights]
    all_heights = [height for top in tops for height in (top, *ratios * len(titles))] + [bottom]
    grid = body.add_gridspec(len(all_heights), columns, height_ratios=all_heights)
    panels: list[Panel] = []
    headings: list[tuple[Axes, Sequence[str]]] = []
    for number, block in enumerate(blocks):
        top = number * (1 + len(ratios) * len(titles))
        headings += [(body.add_subplot(grid[top, column]), group) for column, group in enumerate(block)]
        for index, name in enumerate(names):
            row = top + 1 + index * len(ratios)
            for column, group in enumerate(block):
                like = panels[:1] if share_y else panels[len(panels) - column :][:1]
                axes, lower = _add(body, grid, (row, column), len(ratios), like, share_y=True)
                panels.append(Panel(index, group, axes, lower, first=not column, last=index == len(names) - 1))
            panels[-len(block)].axes.set_title(name, loc="left")
    return Panels(figure, body, panels, TWO_COLUMNS, others, headings, body.add_subplot(grid[-1, :]))


def _heading_width(columns: int) -> float:
    """Inches for the legend above each of so many columns."""
    return (TWO_COLUMNS - BESIDE_PANEL) / columns - _BETWEEN


def _spread(things: Sequence[_T], most: int) -> list[list[_T]]:
    """Spread things evenly over as few lists as hold at most `most` each; the first ones are the longest."""
    count = -(-len(things) // most)
    ends = [-(-len(things) * index // count) for index in range(count + 1)]
    return [list(things[start:end]) for start, end in pairwise(ends)]


def padded(values: Iterable[float], fraction: float = 0.06) -> tuple[float, float]:
    """Limits of an axis that leave room on both sides of the values, also where they are all the same."""
    numbers = np.array(list(values), dtype=float)
    lowest, highest = float(numbers.min()), float(numbers.max())
    room = fraction * (highest - lowest) or max(abs(highest) * fraction, 0.1)
    return lowest - room, highest + room
