"""What a figure shows: its texts, the data of its lines and bars, and whether things lie on the page and apart."""

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text


def text(figure: Figure) -> str:
    """All that is written, on one line."""
    return " ".join(" ".join(found.get_text() for found in figure.findobj(Text)).split())


def found_text(figure: Figure, part: str) -> Text:
    """The only text in which this occurs."""
    (found,) = [one for one in figure.findobj(Text) if part in one.get_text()]
    return found


def named(axes: Axes) -> list[str]:
    """Labels of the lines that have one."""
    return [label for line in axes.lines if not (label := str(line.get_label())).startswith("_")]


def line(axes: Axes, label: str) -> list[list[float]]:
    """Data of the only line with this label; (N, 2)."""
    (found,) = [np.asarray(line.get_xydata(), dtype=float).tolist() for line in axes.lines if line.get_label() == label]
    return found


def unnamed(axes: Axes) -> list[list[list[float]]]:
    """Data of the lines without a label: single seeds."""
    lines = [line for line in axes.lines if str(line.get_label()).startswith("_")]
    return [np.asarray(line.get_xydata(), dtype=float).tolist() for line in lines]


def points(*pairs: tuple[float, float]) -> Any:
    """Data to compare with those of a line."""
    return [pytest.approx(pair) for pair in pairs]


def bars(axes: Axes, *, filled: bool = True) -> list[float]:
    """Lengths of the filled or of the outlined bars, from above."""
    alphas = [(patch, to_rgba(patch.get_facecolor())[3]) for patch in axes.patches]
    return [patch.get_width() for patch, alpha in alphas if (alpha > 0) == filled]  # type: ignore[attr-defined]


def titles(figure: Figure) -> list[Artist]:
    """Titles of all panels that have one."""
    return [axes.title for axes in figure.axes if axes.get_title()]


def legends(figure: Figure) -> list[Legend]:
    """All legends."""
    return [found for found in figure.findobj(Legend) if isinstance(found, Legend)]


def overlap(figure: Figure, artists: Iterable[Artist]) -> bool:
    """Whether any two of these overlap when drawn."""
    figure.draw_without_rendering()
    boxes = [artist.get_window_extent() for artist in artists]
    assert boxes
    return any(one.overlaps(other) for one, other in combinations(boxes, 2))


def on_the_page(figure: Figure) -> bool:
    """Whether all text but the numbers of axes lies on the page, give or take two pixels."""
    figure.draw_without_rendering()
    page = figure.bbox
    ticks = {label for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())}
    shown = [one for one in figure.findobj(Text) if one.get_text() and one.get_visible() and one not in ticks]
    boxes = [one.get_window_extent() for one in shown]
    return bool(boxes) and all(
        box.x0 >= -2 and box.y0 >= -2 and box.x1 <= page.x1 + 2 and box.y1 <= page.y1 + 2 for box in boxes
    )
