"""Reliability diagrams: how often a prediction is right, against how confident it is."""

from collections.abc import Iterator, Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from augbench.bench.common.errors import UserError
from augbench.bench.common.wording import few_names
from augbench.results.figures.notes import caveats, seeds_text
from augbench.results.figures.panels import new_panels
from augbench.results.figures.style import CROWD, Look, draw_mean, figure_style, in_front, method_looks
from augbench.results.model.frame import Runs

FEW = 10
"""Bins with fewer images, all seeds together, are left out of the lines: their accuracy is chance."""

CALIBRATED = "calibrated"  # name of the diagonal


def most_draws(runs: Runs) -> int:
    """Largest number of test-time draws with binned predictions; 0 for none."""
    return int(runs.reliability["draws"].max()) if len(runs.reliability) else 0


def reliability_figure(runs: Runs, draws: int = 0) -> Figure:
    """Draw accuracy against confidence, and the fraction of images in each bin below it.

    A panel for each data set, a line for each method; the images of all seeds (and of all repeats of the draws) are
    pooled. A calibrated network lies on the diagonal, an overconfident one below it.

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
    labels = list(bins["label"].unique())
    with figure_style(len(labels)):
        notes = _notes(runs, bins, draws)
        panels = new_panels(comparisons, labels, notes, others=[CALIBRATED], height=2.0, lower_height=0.85)
        looks = method_looks(runs.runs)
        for panel in panels:
            inside, lower = bins[bins["comparison"] == comparisons[panel.index]], panel.lower
            _draw(panel.axes, lower, inside, in_front(looks, panel.labels))
            # Most images lie in the last bin: on a linear axis the others could not be told from none.
            lower.set_yscale("log")
            ticks = (0.1, 1, 10, 100) if len(labels) <= CROWD else (1, 100)  # panels of a crowd can be low
            lower.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
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


def _draw(upper: Axes, lower: Axes, bins: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    upper.plot([0, 100], [0, 100], color="0.6", linewidth=0.8, linestyle="dotted", label=CALIBRATED)
    for label, inside in pooled_bins(bins).groupby("label", sort=False):
        look = looks[str(label)]
        shown = inside[inside["count"] >= FEW]
        confidence, accuracy = list(100 * shown["confidence"]), list(100 * shown["accuracy"])
        draw_mean(upper, confidence, accuracy, str(label), look, marked=True)
        edges = [100 * index / len(inside) for index in range(len(inside) + 1)]
        steps = lower.stairs(100 * inside["count"] / inside["count"].sum(), edges, color=look.colour)
        steps.set(linestyle=look.dashes, zorder=0.5 if look.behind else 1)
    upper.set_xlim(0, 103)
    upper.set_ylim(0, 103)
