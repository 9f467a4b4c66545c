"""Bars of probabilities and ranges: a line for each block, with a bar for each data set in it."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from augbench.results.figures.style import dataset_look
from augbench.results.figures.text import LINE
from augbench.results.model.frame import Runs

BLOCK_NAMES = 0.9
"""Inches left of a panel, for the names of its blocks."""

PART_OF_LINE = 0.72
"""How much of a block's line its data sets take; the rest keeps blocks apart."""

_FEW_DATASETS = 3


def final_probabilities(runs: Runs) -> pd.DataFrame:
    """Select the probabilities at the end of training: the columns of `Runs.learned` with `block` and `percent`."""
    found = runs.learned[runs.learned["quantity"].str.startswith("probability/")]
    return found.assign(block=found["quantity"].str.removeprefix("probability/"), percent=100 * found["value"])


def bar_places(blocks: Sequence[str], comparisons: Sequence[str]) -> dict[tuple[str, str], float]:
    """Choose the height of the bar of each data set and block: blocks from 0 down, data sets side by side."""
    step = PART_OF_LINE / len(comparisons)
    return {
        (comparison, block): line + step * (index - (len(comparisons) - 1) / 2)
        for line, block in enumerate(blocks)
        for index, comparison in enumerate(comparisons)
    }


def row_height(panels: Sequence[pd.DataFrame], titles: Sequence[str], comparisons: Sequence[str]) -> float:
    """Height in inches of a row of panels, without margins: the one with the most bars, and the longest title.

    A title's first line is part of the margins.
    """
    bars = max(panel["block"].nunique() for panel in panels) * len(comparisons)
    per_bar = 0.105 if len(comparisons) <= _FEW_DATASETS else 0.08
    return LINE * max(title.count("\n") for title in titles) + per_bar * bars


def draw_probabilities(axes: Axes, found: pd.DataFrame, comparisons: Sequence[str]) -> None:
    """Draw a bar for the mean of each block on each data set, and a point for each run.

    Args:
        axes: Where to.
        found: A row for each run and block, with `comparison`, `block` and `percent`.
        comparisons: The data sets of all panels. This panel may lack some; each has the same look in all of them.
    """
    blocks = list(dict.fromkeys(found["block"]))
    rows = bar_places(blocks, comparisons)
    for name, inside in found.groupby("comparison", sort=False):
        comparison, look = str(name), dataset_look(comparisons.index(str(name)))
        mean = inside.groupby("block", sort=False)["percent"].mean()
        places = [rows[comparison, str(block)] for block in mean.index]
        axes.barh(places, mean, height=_height(comparisons), color=look.colour, alpha=0.45, label=comparison)
        places = [rows[comparison, block] for block in inside["block"]]
        axes.plot(inside["percent"], places, look.marker, color=look.colour, markersize=3)
    axes.set_yticks(range(len(blocks)), blocks)
    axes.set_ylim(len(blocks) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 103)


def draw_outlines(axes: Axes, found: pd.DataFrame, comparisons: Sequence[str], column: str, name: str) -> None:
    """Draw an outlined bar around each bar of `draw_probabilities`, as long as the mean of another column."""
    places = bar_places(list(dict.fromkeys(found["block"])), comparisons)
    means = found.groupby(["comparison", "block"], sort=False)[column].mean()
    heights = [places[str(comparison), str(block)] for comparison, block in means.index]
    style: Mapping[str, Any] = {"fill": False, "edgecolor": "0.2", "linewidth": 0.6}
    axes.barh(heights, means, height=_height(comparisons), label=name, **style)


def _height(comparisons: Sequence[str]) -> float:
    return 0.6 / len(comparisons)  # where the distance from one block to the next is 1
