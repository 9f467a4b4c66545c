"""Reliability diagrams: how often a prediction is right, against how confident it is."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from augbench.results.figures.style import (
    ONE_COLUMN,
    TITLE_SIZE,
    TWO_COLUMNS,
    figure_style,
    legend_below,
    legend_height,
    method_looks,
    with_note,
)
from augbench.results.figures.text import LINE, wrap_text
from augbench.results.frame import Runs

FEW = 10
"""Bins with fewer images, all seeds together, are left out of the lines: their accuracy is chance."""

_BESIDE_PANEL = 0.5  # inches, for the numbers and the label of the vertical axis
_NOTE = f"Bins of fewer than {FEW} images are left out of the lines; seeds pooled; no test-time draws."


def reliability_figure(runs: Runs) -> Figure:
    """Draw accuracy against confidence without test-time draws, and the share of images in each bin below it.

    A panel for each data set, a line for each method, the images of all seeds together. A calibrated network lies on
    the diagonal, an overconfident one below it.

    Raises:
        UserError: If no run is finished.
    """
    comparisons = list(dict.fromkeys(runs.finished()["comparison"]))
    with figure_style():
        width = ONE_COLUMN if len(comparisons) == 1 else max(TWO_COLUMNS, 2.2 * len(comparisons))
        titles = [wrap_text(name, width / len(comparisons) - _BESIDE_PANEL, TITLE_SIZE) for name in comparisons]
        legend = legend_height(["calibrated", *runs.reliability["label"].unique()], width)
        height = 2.9 + LINE * max(title.count("\n") for title in titles) + max(0.5, 0.2 + legend)
        figure, body = with_note(width, height, _NOTE)
        panels = body.subplots(2, len(comparisons), sharex=True, sharey="row", squeeze=False, height_ratios=(3, 1))
        for upper, lower, comparison, title in zip(*panels, comparisons, titles, strict=True):
            _draw(upper, lower, runs, comparison)
            upper.set_title(title)
            lower.set_xlabel("Confidence (%)")
        panels[0][0].set_ylabel("Accuracy (%)")
        panels[1][0].set_ylabel("Images (%,\nlog scale)")
        # Most images lie in the last bin: on a linear axis the others could not be told from none.
        panels[1][0].set_yscale("log")
        panels[1][0].set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
        panels[1][0].yaxis.set_minor_locator(NullLocator())
        legend_below(body, panels[0], width)
    return figure


def pooled_bins(runs: Runs, comparison: str) -> pd.DataFrame:
    """Add up the bins of all seeds.

    Returns:
        A row for each `label` and `bin`, with `count`, mean `confidence` and `accuracy` in [0, 1], NaN in empty bins.
    """
    bins = runs.reliability[runs.reliability["comparison"] == comparison].copy()
    for column in ("confidence", "accuracy"):
        bins[column] *= bins["count"]
    sums = bins.groupby(["label", "bin"], sort=False)[["count", "confidence", "accuracy"]].sum()
    filled = sums["count"].where(sums["count"] > 0)
    return sums.assign(confidence=sums["confidence"] / filled, accuracy=sums["accuracy"] / filled).reset_index()


def _draw(upper: Axes, lower: Axes, runs: Runs, comparison: str) -> None:
    looks = method_looks(runs.runs)
    upper.plot([0, 100], [0, 100], color="0.6", linewidth=0.8, linestyle="dotted", label="calibrated")
    for label, bins in pooled_bins(runs, comparison).groupby("label", sort=False):
        look = looks[str(label)]
        shown = bins[bins["count"] >= FEW]
        confidence, accuracy = 100 * shown["confidence"], 100 * shown["accuracy"]
        (line,) = upper.plot(confidence, accuracy, look.marker, color=look.colour, linestyle=look.dashes)
        line.set(label=str(label), markerfacecolor=look.inside)
        edges = [100 * index / len(bins) for index in range(len(bins) + 1)]
        lower.stairs(100 * bins["count"] / bins["count"].sum(), edges, color=look.colour, linestyle=look.dashes)
    upper.set_xlim(0, 103)
    upper.set_ylim(0, 103)
