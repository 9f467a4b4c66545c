"""Accuracy against what it costs, with the front of those that nobody beats in both."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from augbench.bench.common.errors import UserError
from augbench.bench.common.wording import counted, few_names
from augbench.results.figures.notes import caveats, means_text
from augbench.results.figures.panels import new_panels, padded
from augbench.results.figures.style import Look, figure_style, in_front, method_looks
from augbench.results.model.frame import Runs

FRONT = "Pareto front"
_UNITS = (("Hours", 3600.0, 0.5), ("Minutes", 60.0, 1.0), ("Seconds", 1.0, 0.0))
"""Name of a unit, its seconds, and how many of it the dearest run must cost for it to be used."""
_TICKS = ((1, 2, 3, 5, 7), (1, 2, 5), (1,))  # of a logarithmic axis over less than a decade, less than two, more
_FADED = 0.35
_WIDE = 4  # times the smallest cost, from which on the axis is logarithmic


def pareto_front(costs: Sequence[float], gains: Sequence[float]) -> list[int]:
    """Select the points that no other dominates.

    One point dominates another if it costs no more and gains no less, and differs in one of the two. Of equal points,
    all are kept.

    Args:
        costs: Less is better; (N,).
        gains: More is better; (N,).

    Returns:
        Positions of the points on the front, from the cheapest to the most expensive; equal points in their order.

    Raises:
        ValueError: If a number is NaN, which compares with nothing, or the lengths differ.
    """
    points = list(zip(costs, gains, strict=True))
    if any(cost != cost or gain != gain for cost, gain in points):  # only NaN differs from itself
        raise ValueError("A point with NaN can be neither on a front nor behind it.")
    front: list[int] = []
    for position in sorted(range(len(points)), key=lambda index: (points[index][0], -points[index][1])):
        if not front or points[position][1] > points[front[-1]][1] or points[position] == points[front[-1]]:
            front.append(position)
    return front


def clocked_runs(runs: Runs) -> pd.DataFrame:
    """Put the cost of each finished run beside its accuracy without test-time draws.

    Returns:
        The rows of `Runs.runs` that are done, with `seconds` of search and training and `accuracy` in [0, 1]. Runs that
        were continued on another device are left out, since their seconds cannot be added up.
    """
    finished = runs.finished()
    scores = runs.scores[(runs.scores["metric"] == "accuracy") & (runs.scores["draws"] == 0)]
    accuracy = finished["folder"].map(scores.set_index("folder")["value"])
    seconds = finished["seconds_search"] + finished["seconds_training"]
    costs = finished.assign(seconds=seconds.astype(float), accuracy=accuracy.astype(float))
    return costs.dropna(subset=["seconds", "accuracy"])


def pareto_figure(runs: Runs) -> Figure:
    """Draw accuracy (%) against the time of search and training, a panel for each data set and device.

    A large marker for the mean of each method over seeds, a small one for each seed, and the front of the means.
    Methods with fewer seeds than requested are faded and never on the front.

    Raises:
        UserError: If no run is finished or all were continued on another device.
    """
    clocked = clocked_runs(runs)
    if clocked.empty:
        raise UserError("All finished runs were continued on another device: no times can be compared.")
    clocked, below = _in_units(clocked)
    pairs = list(clocked[["comparison", "device"]].drop_duplicates().itertuples(index=False, name=None))
    several = clocked["device"].nunique() > 1
    titles = [f"{comparison}, {device}" if several else comparison for comparison, device in pairs]
    with figure_style():
        notes = _notes(runs, clocked, len(runs.finished()) - len(clocked))
        panels = new_panels(titles, list(clocked["label"].unique()), notes, others=[FRONT], share_y=False)
        looks = method_looks(runs.runs)
        for panel in panels:
            comparison, device = pairs[panel.index]
            inside = clocked[(clocked["comparison"] == comparison) & (clocked["device"] == device)]
            _draw(panel.axes, inside, in_front(looks, panel.labels))
        panels.label(below, "Accuracy (%)")
        panels.legend()
        for legend in panels.figure.findobj(Legend):
            for entry in filter(None, legend.legend_handles):
                entry.set_alpha(1)  # a method may lack seeds in one panel alone
    return panels.figure


def _in_units(clocked: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Add a column `cost` in hours, or in minutes or seconds where all cost little, and name the axis."""
    dearest = clocked["seconds"].max()
    name, unit = next((name, unit) for name, unit, least in _UNITS if dearest >= least * unit)
    if clocked["on_gpu"].eq(True).all():
        name = f"GPU-{name.lower()}"
    return clocked.assign(cost=clocked["seconds"] / unit), f"{name} of search and training"


def _draw(axes: Axes, clocked: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    means = clocked.groupby("label", sort=False)[["cost", "accuracy"]].mean()
    complete = _complete(clocked)
    for label, inside in clocked.groupby("label", sort=False):
        look = looks[str(label)]
        if look.behind:
            place = inside["cost"].mean(), 100 * inside["accuracy"].mean()
            axes.plot(*place, look.marker, color=look.colour, markersize=5, zorder=1)
            continue
        if len(inside) > 1:
            (small,) = axes.plot(inside["cost"], 100 * inside["accuracy"], look.marker, color=look.colour, alpha=0.6)
            small.set(markersize=3, markeredgewidth=0)
        (mean,) = axes.plot(inside["cost"].mean(), 100 * inside["accuracy"].mean(), look.marker, color=look.colour)
        mean.set(markersize=5.5, linestyle="none", zorder=3, label=str(label), markerfacecolor=look.inside)
        mean.set_alpha(1 if complete[str(label)] else _FADED)
    ranked = means[[complete[str(label)] for label in means.index]]
    front = ranked.iloc[pareto_front(list(ranked["cost"]), list(ranked["accuracy"]))]
    axes.set_ylim(padded(100 * clocked["accuracy"]))
    _set_costs(axes, clocked["cost"])
    style: dict[str, Any] = {"color": "0.4", "linewidth": 0.8, "zorder": 1}
    axes.step(front["cost"], 100 * front["accuracy"], where="post", label=FRONT, **style)
    if len(front):  # nobody who costs more is better than the last one
        last = front.iloc[-1]
        axes.plot([last["cost"], axes.get_xlim()[1]], [100 * last["accuracy"]] * 2, scalex=False, **style)


def _complete(clocked: pd.DataFrame) -> dict[str, bool]:
    """Whether each method of a panel has all requested seeds."""
    counts = clocked.groupby("label").agg(seeds=("seed", "nunique"), asked=("asked", "max"))
    return {str(label): bool(row["seeds"] >= row["asked"]) for label, row in counts.iterrows()}


def _set_costs(axes: Axes, costs: "pd.Series[float]") -> None:
    """Choose a logarithmic axis where costs differ much, with plain numbers."""
    if costs.min() > 0 and costs.max() > _WIDE * costs.min():
        axes.set_xscale("log")
        axes.set_xlim(costs.min() / 1.25, costs.max() * 1.25)
        decades = np.log10(costs.max() / costs.min())
        axes.xaxis.set_major_locator(LogLocator(subs=_TICKS[min(int(decades), 2)]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
    else:
        axes.set_xlim(padded(costs))
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))


def _notes(runs: Runs, clocked: pd.DataFrame, moved: int) -> Iterator[str]:
    points = "" if clocked.groupby(["comparison", "label"])["seed"].nunique().max() == 1 else "; small: single seeds"
    yield f"Large: {means_text(clocked)}{points}. No test-time draws. Time of evaluation and tuning is not counted."
    if clocked["device"].nunique() == 1:
        yield f"Device: {clocked['device'].iloc[0]}."
    incomplete = [
        f"{label} on {place[0]}"
        for place, inside in clocked.groupby(["comparison", "device"], sort=False)
        for label, whole in _complete(inside).items()
        if not whole
    ]
    if incomplete:
        names = few_names(list(dict.fromkeys(incomplete)))
        yield f"Faded, with fewer seeds than requested, and not on the front: {names}."
    if moved:
        yield f"Left out: {counted(moved, 'run')} of which a part was computed on another device."
    yield from caveats(runs)
