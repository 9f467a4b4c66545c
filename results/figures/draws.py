"""Accuracy against the number of test-time draws."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from augbench.bench.common.errors import UserError
from augbench.bench.common.wording import few_names
from augbench.results.figures.notes import caveats, lines_text
from augbench.results.figures.panels import new_panels, padded
from augbench.results.figures.style import Look, draw_mean, figure_style, in_front, method_looks
from augbench.results.model.definitions import numbers
from augbench.results.model.frame import Runs

_GAP = 1.0
"""How far 0 draws stand to the left of the fewest, in doublings."""


def accuracy_by_draws(runs: Runs) -> pd.DataFrame:
    """Select the accuracies of finished runs, as in `Runs.scores`, on the data sets that have test-time draws."""
    scores = runs.scores[runs.scores["metric"] == "accuracy"]
    drawn = set(scores[scores["draws"] > 0]["comparison"])
    return scores[scores["comparison"].isin(drawn)]


def draws_figure(runs: Runs) -> Figure:
    """Draw accuracy (%) against the number of test-time draws, a panel for each data set, a line for each method.

    The horizontal axis doubles from tick to tick and has no draws apart at the left. Thick lines are means over seeds,
    thin ones single seeds. Methods without a policy to draw from are a dotted line.

    Raises:
        UserError: If no run is finished or none has test-time draws.
    """
    runs.finished()
    scores = accuracy_by_draws(runs)
    if scores.empty:
        raise UserError("No finished run was evaluated with test-time draws; set test_time_draws in the protocol.")
    comparisons = list(dict.fromkeys(scores["comparison"]))
    labels = list(scores["label"].unique())
    with figure_style(len(labels)):
        panels = new_panels(comparisons, labels, _notes(runs, scores), share_y=False)
        looks = method_looks(runs.runs)
        for panel in panels:
            inside = scores[scores["comparison"] == comparisons[panel.index]]
            _draw(panel.axes, inside, in_front(looks, panel.labels))
        panels.label("Test-time draws", "Accuracy (%)")
        panels.legend()
    return panels.figure


def _draw(axes: Axes, scores: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    asked = sorted({int(draws) for draws in scores["draws"]} - {0})
    nothing = np.log2(asked[0]) - _GAP
    for label, of_method in scores.groupby("label", sort=False):
        look = looks[str(label)]
        several = of_method["seed"].nunique() > 1 and not look.behind
        for _, of_seed in of_method.groupby("seed") if several else ():
            for part in _parts(of_seed.set_index("draws")["value"]):
                (line,) = axes.plot(_places(part, nothing), 100 * part, ".", color=look.colour, markersize=2)
                line.set(linestyle="solid", linewidth=0.5, alpha=0.45)
        means = _parts(of_method.groupby("draws")["value"].mean())
        for part, name in zip(means, [str(label), "_"], strict=False):
            draw_mean(axes, _places(part, nothing), list(100 * part), name, look, marked=True)
        if len(means) == 1 and means[0].index[0] == 0 and not look.behind:  # no policy to draw from
            axes.axhline(100 * float(means[0].iloc[0]), color=look.colour, linewidth=0.8, linestyle="dotted", zorder=1)
    axes.axvline(nothing + _GAP / 2, color="0.75", linewidth=0.6, linestyle="dotted")
    ticks = [0, *(asked if len(asked) <= 8 else asked[:: -(-len(asked) // 8)])]
    axes.set_xticks([_place(draws, nothing) for draws in ticks], [str(draws) for draws in ticks])
    axes.set_xlim(nothing - 0.4, np.log2(asked[-1]) + 0.4)
    axes.set_ylim(padded(100 * scores["value"]))


def _place(draws: int, nothing: float) -> float:
    return float(np.log2(draws)) if draws else nothing


def _places(part: "pd.Series[float]", nothing: float) -> list[float]:
    return [_place(int(draws), nothing) for draws in part.index]


def _parts(values: "pd.Series[float]") -> Sequence["pd.Series[float]"]:
    """Separate 0 draws from the others, since no line joins them."""
    return [part for part in (values[values.index > 0].sort_index(), values[values.index == 0]) if len(part)]


def _notes(runs: Runs, scores: pd.DataFrame) -> Iterator[str]:
    yield lines_text(scores)
    repeats = numbers(runs.finished()["test_time_repeats"])
    yield f"Probabilities averaged over the draws; each value is the mean of {repeats} repeats. 0: no draws."
    drawn = set(scores[scores["draws"] > 0]["label"])
    without = [label for label in dict.fromkeys(scores["label"]) if label not in drawn]
    if without:
        yield f"Dotted, since they have no policy to draw from: {few_names(without)}."
    yield from caveats(runs)
