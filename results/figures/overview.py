"""The comparison at a glance: what was discovered, and what it is good for."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from augbench.bench.common.errors import UserError
from augbench.results.figures.angle import draw_angles
from augbench.results.figures.bars import PART_OF_LINE, bar_places, draw_probabilities, final_probabilities
from augbench.results.figures.notes import caveats, means_text
from augbench.results.figures.panels import BESIDE_PANEL
from augbench.results.figures.style import (
    CROWD,
    TITLE_SIZE,
    TWO_COLUMNS,
    Look,
    drawn_in,
    figure_style,
    in_front,
    legend_below,
    legend_height,
    method_looks,
    with_note,
)
from augbench.results.figures.text import LINE, wrap_text
from augbench.results.model.findings import describe_range
from augbench.results.model.frame import Runs

MOST_PANELS = 2
PREFERRED = "scale"

_HALVED = ("half-turn", "flip")  # blocks that draw from two elements, one of which is the identity

_LEAST_HEIGHT, _STACKED_HEIGHT = 2.9, 3.7
"""Inches: of the figure, and, without its legend, of a right half whose panels stand one above the other."""

_RANGE_HEIGHT, _RANGE_SIZE = 0.097, 6  # inches from one learned range to the next, and points
_TITLE_LETTERS = 30  # more in a line would reach the heading of the ranges


def overview_figure(runs: Runs) -> Figure:
    """Draw what one learner found on each data set, beside accuracy against the angle of the test images.

    Left: probability of each block at the end of training, a bar for the mean over seeds and a marker for
    each seed, and the learned ranges beside it; right: the panels of `angle_figure` for the first two
    of these data sets.

    Raises:
        UserError: If no run is finished, none learned probabilities or none has a rotation probe.
    """
    runs.finished()
    found = discovered(runs)
    probed = set(runs.probe["comparison"])
    comparisons = [name for name in dict.fromkeys(found["comparison"]) if name in probed][:MOST_PANELS]
    if not comparisons:
        raise UserError(
            "The overview needs finished runs that learn probabilities (such as scale) and a rotation probe."
        )
    with figure_style():
        left_width = 2.9 if len(comparisons) > 1 else 3.4
        right_width = TWO_COLUMNS - left_width
        height = _height(runs, found, left_width, right_width)
        figure, body = with_note(TWO_COLUMNS, height, *_notes(runs, found), below_left=left_width)
        halves = body.subfigures(1, 2, squeeze=False, width_ratios=(left_width, right_width))
        left, right = halves[0, 0], halves[0, 1]
        discovery = left.subplots()
        draw_probabilities(discovery, found, list(dict.fromkeys(found["comparison"])))
        discovery.set_xlabel("Learned probability π (%)")
        discovery.set_title(_title(found))
        _write_ranges(discovery, runs, found)
        legend_below(left, drawn_in([discovery]), left_width)
        looks = in_front(method_looks(runs.runs), _front(runs, found))
        _draw_right(right, runs, comparisons, looks, (right_width, height))
    return figure


def _height(runs: Runs, found: pd.DataFrame, left_width: float, right_width: float) -> float:
    """Choose the height in inches at which neither half is crowded."""
    comparisons = list(dict.fromkeys(found["comparison"]))
    per_block = _RANGE_HEIGHT * len(comparisons) / PART_OF_LINE
    left = 0.8 + LINE * _title(found).count("\n") + per_block * found["block"].nunique()
    right = 2.1 + legend_height(_front(runs, found), right_width)
    return max(_LEAST_HEIGHT, left + legend_height(comparisons, left_width), right)


def _front(runs: Runs, found: pd.DataFrame) -> Sequence[str]:
    """Choose the labels in colour in the right half: all, or of a crowd the learner of the left half and `none`."""
    labels = list(runs.probe["label"].unique())
    subject = {*found["label"], *runs.probe[runs.probe["method"] == "none"]["label"]}
    return labels if len(labels) <= CROWD else [label for label in labels if label in subject]


def _draw_right(
    half: FigureBase, runs: Runs, comparisons: Sequence[str], looks: Mapping[str, Look], size: tuple[float, float]
) -> None:
    width, height = size
    entries = [label for label, look in looks.items() if not look.behind]
    stacked = height - legend_height(entries, width) >= _STACKED_HEIGHT
    lines, columns = (len(comparisons), 1) if stacked else (1, len(comparisons))
    panels = list(half.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).flat)
    for axes, comparison in zip(panels, comparisons, strict=True):
        draw_angles(axes, runs, comparison, looks)
        axes.set_title(wrap_text(comparison, width / columns - BESIDE_PANEL, TITLE_SIZE))
    panels[0].set_ylim(bottom=0)
    for axes in panels[-columns:]:
        axes.set_xlabel("Rotation of the test images (°)")
    for axes in panels[::columns]:
        axes.set_ylabel("Accuracy (%)")
    legend_below(half, drawn_in(panels), width)


def discovered(runs: Runs) -> pd.DataFrame:
    """Select the final probabilities of the learner that the overview is about.

    Returns:
        A row for each run and block: the columns of `Runs.learned` with `block` and `percent`. The learner is scale if
        there is one, else the first one that learns probabilities, with the first of its settings.
    """
    found = _of_the_learner(runs)
    return found[found["label"].isin(found["label"].head(1))]


def _of_the_learner(runs: Runs) -> pd.DataFrame:
    """Select the final probabilities of one learner, with all its settings."""
    found = final_probabilities(runs)
    preferred = found[found["method"] == PREFERRED]
    return preferred if len(preferred) else found[found["method"].isin(found["method"].head(1))]


def _notes(runs: Runs, found: pd.DataFrame) -> Iterator[str]:
    """Tell what the left half does not show, and what its numbers do not mean."""
    yield f"Bars: {means_text(found)}; points: single seeds."
    settings = _of_the_learner(runs)["label"].nunique()
    if settings > 1:
        yield f"The first of {settings} settings of {found['method'].iloc[0]}."
    halved = [block for block in _HALVED if block in set(found["block"])]
    if halved:
        verb = "change" if len(halved) > 1 else "changes"
        yield f"Where drawn, {' and '.join(halved)} {verb} every other image."
    if len(_front(runs, found)) < runs.probe["label"].nunique():
        yield "Grey, at the right: all other methods."
    yield from caveats(runs)


def _title(found: pd.DataFrame) -> str:
    """Name the learner, and in lines of their own its settings where there are several."""
    method, label = found["method"].iloc[0], found["label"].iloc[0]
    settings = label.removeprefix(method).strip()
    return "\n".join([f"What {method} found", *textwrap.wrap(settings, _TITLE_LETTERS)])


def _write_ranges(axes: Axes, runs: Runs, found: pd.DataFrame) -> None:
    """Write the mean learned range of each block beside its bar."""
    beside = axes.get_yaxis_transform()
    ranges = runs.learned[
        runs.learned["folder"].isin(found["folder"]) & runs.learned["quantity"].str.startswith("range/")
    ]
    rows = bar_places(list(dict.fromkeys(found["block"])), list(dict.fromkeys(found["comparison"])))
    for (comparison, block), row in rows.items():
        chosen = ranges[(ranges["comparison"] == comparison) & (ranges["quantity"] == f"range/{block}")]
        if len(chosen):
            text = describe_range(block, list(chosen["value"]))
            axes.text(1.03, row, text, transform=beside, fontsize=_RANGE_SIZE, color="0.25", verticalalignment="center")
    if len(ranges):
        heading: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "xytext": (0, 5)}
        axes.annotate("up to", (1.03, 1), fontsize=_RANGE_SIZE, color="0.25", **heading)
