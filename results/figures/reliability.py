"""Reliability diagrams: how often a prediction is right, against how confident it is."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from augbench.bench.errors import UserError
from augbench.results.figures.notes import caveats, seeds_text
from augbench.results.figures.panels import new_panels
from augbench.results.figures.style import figure_style, method_looks
from augbench.results.frame import Runs
from augbench.results.wording import few_names

FEW = 10
"""Bins with fewer images, all seeds together, are left out of the lines: their accuracy is chance."""


def most_draws(runs: Runs) -> int:
    """Largest number of test-time draws for which predictions are binned; 0 where there are none with draws."""
    return int(runs.reliability["draws"].max()) if len(runs.reliability) else 0


def reliability_figure(runs: Runs, draws: int = 0) -> Figure:
    """Draw accuracy against confidence, and the share of images in each bin below it.

    A panel for each data set, a line for each method, the images of all seeds (and of all repeats of the draws)
    together. A calibrated network lies on the diagonal, an overconfident one below it.

    Args:
        runs: What to draw.
        draws: Number of test-time draws; 0 for none.

    Raises:
        UserError: If no run is finished or none was evaluated with so many draws.
    """
    runs.finished()
    bins = runs.reliability[runs.reliability["draws"] == draws]
    if bins.empty:
        raise UserError(
            f"No finished run was evaluated with {draws} test-time draws; set test_time_draws in the suite's protocol."
        )
    comparisons = list(dict.fromkeys(bins["comparison"]))
    entries = ["calibrated", *bins["label"].unique()]
    with figure_style(len(entries)):
        panels = new_panels(comparisons, entries, _notes(runs, bins, draws), height=2.0, lower_height=0.85)
        for upper, lower, comparison in zip(panels.axes, panels.extra, comparisons, strict=True):
            _draw(upper, lower, runs, bins[bins["comparison"] == comparison])
            # Most images lie in the last bin: on a linear axis the others could not be told from none.
            lower.set_yscale("log")
            lower.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
            lower.yaxis.set_minor_locator(NullLocator())
        panels.label("Confidence (%)", "Accuracy (%)", "Images (%,\nlog scale)")
        panels.legend()
    return panels.figure


def _notes(runs: Runs, bins: pd.DataFrame, draws: int) -> Iterator[str]:
    pooled = f"Images of {seeds_text(bins)} pooled"
    few = f"bins of fewer than {FEW} images are left out of the lines"
    with_draws = set(bins["label"])
    without = [label for label in dict.fromkeys(runs.reliability["label"]) if label not in with_draws]
    if draws:
        yield f"{pooled}, and of all repeats of {draws} test-time draws, whose probabilities are averaged; {few}."
    else:
        yield f"{pooled}; {few}; no test-time draws."
    if without:
        yield f"Not evaluated with {draws} draws: {few_names(without)}."
    yield from caveats(runs)


def pooled_bins(bins: pd.DataFrame) -> pd.DataFrame:
    """Add up the bins of all seeds.

    Args:
        bins: Rows of `Runs.reliability` of one data set and one number of draws.

    Returns:
        A row for each `label` and `bin`, with `count`, mean `confidence` and `accuracy` in [0, 1], NaN in empty bins.
    """
    bins = bins.copy()
    for column in ("confidence", "accuracy"):
        bins[column] *= bins["count"]
    sums = bins.groupby(["label", "bin"], sort=False)[["count", "confidence", "accuracy"]].sum()
    filled = sums["count"].where(sums["count"] > 0)
    return sums.assign(confidence=sums["confidence"] / filled, accuracy=sums["accuracy"] / filled).reset_index()


def _draw(upper: Axes, lower: Axes, runs: Runs, bins: pd.DataFrame) -> None:
    looks = method_looks(runs.runs)
    upper.plot([0, 100], [0, 100], color="0.6", linewidth=0.8, linestyle="dotted", label="calibrated")
    for label, inside in pooled_bins(bins).groupby("label", sort=False):
        look = looks[str(label)]
        shown = inside[inside["count"] >= FEW]
        confidence, accuracy = 100 * shown["confidence"], 100 * shown["accuracy"]
        (line,) = upper.plot(confidence, accuracy, look.marker, color=look.colour, linestyle=look.dashes)
        line.set(label=str(label), markerfacecolor=look.inside)
        edges = [100 * index / len(inside) for index in range(len(inside) + 1)]
        lower.stairs(100 * inside["count"] / inside["count"].sum(), edges, color=look.colour, linestyle=look.dashes)
    upper.set_xlim(0, 103)
    upper.set_ylim(0, 103)
