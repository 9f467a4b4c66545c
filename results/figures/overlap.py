"""Gains on corruptions against how near learners came to them in training."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from augbench.bench.common.errors import UserError, to_paste
from augbench.results.figures.notes import caveats
from augbench.results.figures.panels import new_panels, padded
from augbench.results.figures.style import Look, figure_style, in_front, method_looks
from augbench.results.model.corruptions import BENCHMARKS
from augbench.results.model.definitions import numbers
from augbench.results.model.frame import Runs
from augbench.results.model.overlap import gains

AXES = ("Smallest distance (% of that of unchanged images)", "Gain over none (points)")
_BEHIND_SIZE, _SIZE = 2.5, 3.5
_UNCHANGED: Any = {"color": "0.5", "linewidth": 0.7, "linestyle": "dashed", "zorder": 1}


def overlap_figure(runs: Runs) -> Figure:
    """Draw the gain in accuracy over `none` (points) against the smallest distance, a mark for each corruption.

    A panel for each data set and set of corruptions. Dashed lines stand where `none` is: no gain, at the distance of
    unchanged images.

    Raises:
        UserError: If there is no probe of overlap of these runs, or they lack scores of `none` and of another learner.
    """
    points = gains(runs.corruptions, runs.overlap)
    if points.empty:
        probe = to_paste("probe", "OUT", "--kind", "corruptions", "--kind", "overlap", "--out", "PROBES")
        raise UserError(f"There is no probe of overlap of these runs beside scores of `none`. Make one with `{probe}`.")
    parts = list(points.groupby(["comparison", "corruptions"], sort=False))
    titles = [f"{comparison}, {BENCHMARKS[str(name)]}" for (comparison, name), _ in parts]
    labels = list(points["label"].unique())
    notes = [
        f"A mark: a corruption, mean over severities and seeds, n = {numbers(points['seeds'])}. Dashed: none.",
        f"Distance of mean features of none to the nearest of {numbers(runs.overlap['transforms'])} transforms of the "
        "learner. Upper left: gains near what it was trained on.",
        *caveats(runs),
    ]
    with figure_style():
        panels = new_panels(titles, labels, notes, height=2.6, share_y=False)
        looks = method_looks(runs.runs)
        for panel in panels:
            _draw(panel.axes, parts[panel.index][1], in_front(looks, panel.labels))
        panels.label(*AXES)
        panels.legend()
    return panels.figure


def _draw(axes: Axes, points: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    axes.axvline(100, **_UNCHANGED)
    axes.axhline(0, **_UNCHANGED)
    for label, inside in points.groupby("label", sort=False):
        look = looks[str(label)]
        (marks,) = axes.plot(100 * inside["relative"], 100 * inside["gain"], look.marker, color=look.colour)
        marks.set(markersize=_BEHIND_SIZE if look.behind else _SIZE, zorder=2 if look.behind else 3)
        if not look.behind:
            marks.set(label=str(label), markerfacecolor=look.inside, alpha=0.85)
    axes.set_xlim(padded([0, 100, *(100 * points["relative"])]))
    axes.set_ylim(padded([0, *(100 * points["gain"])]))
