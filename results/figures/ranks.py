"""Critical-difference diagram: average ranks over data sets, and which methods nothing tells apart."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from augbench.bench.common.errors import UserError
from augbench.bench.common.wording import few_names
from augbench.results.figures.style import LABEL_SIZE, ONE_COLUMN, figure_style, method_looks, with_note
from augbench.results.figures.text import LINE, wrap_text
from augbench.results.model.cells import asked_seeds, is_single_epoch, scores_of
from augbench.results.model.frame import Runs
from augbench.results.statistics.ranks import FEW_DATASETS, LEAST_DATASETS, LEAST_METHODS, Ranks, rank_methods

_LABEL, _PLOT, _BAR = 1.45, 1.7, 0.09
"""Widths in inches: the most that labels take, of the panel, and from one bar of alike methods to the next."""

_HEAD, _ROW, _REST = 0.3, 0.03, 0.6
"""Heights in inches: above the first row, between rows, and below the last one for the axis."""


def has_ranks(runs: Runs) -> bool:
    """Whether enough methods have all seeds on enough data sets for a test over ranks."""
    return average_ranks(runs).critical_difference is not None


def average_ranks(runs: Runs) -> Ranks:
    """Rank methods by their mean accuracy without test-time draws on each data set, and average the ranks.

    A method that lacks a seed on a data set lacks the data set. Comparisons over a single epoch, and those in which no
    method has all seeds yet, are not counted.
    """
    values = [means for means in _means_by_comparison(runs).values() if means["value"].notna().any()]
    return rank_methods(pd.concat(values) if values else pd.DataFrame(columns=["dataset", "label", "value"]))


def _means_by_comparison(runs: Runs) -> dict[str, pd.DataFrame]:
    """Mean accuracy of each method by comparison, NaN for methods that lack a seed."""
    found = {}
    for name, group in runs.runs.groupby("comparison", sort=False):
        if not is_single_epoch(group):
            seeds = scores_of(runs, group, "accuracy", 0).groupby("label")["value"]
            complete = seeds.mean()[seeds.count() >= asked_seeds(group)]
            labels = list(dict.fromkeys(group["label"]))
            means = {"dataset": str(name), "label": labels, "value": complete.reindex(labels).to_numpy()}
            found[str(name)] = pd.DataFrame(means)
    return found


def ranks_figure(runs: Runs) -> Figure:
    """Draw the critical-difference diagram (Demšar, 2006) of accuracies without test-time draws, a row for each method.

    Each method stands at its average rank over the data sets, 1 for the best. The bar at the top is as long as the
    least difference of ranks that is significant; bars at the right join methods that do not differ significantly.

    Raises:
        UserError: If there are fewer than three methods with all seeds on all data sets, or fewer than two data sets.
    """
    runs.finished()
    ranks = average_ranks(runs)
    if ranks.critical_difference is None:
        raise UserError(
            f"A diagram of ranks needs at least {LEAST_METHODS} methods that are finished with all seeds on each of at "
            f"least {LEAST_DATASETS} data sets, trained for more than one epoch; here are {len(ranks.average)} methods "
            f"on {ranks.datasets} data sets."
        )
    with figure_style():
        texts = [wrap_text(f"{label}  {rank:.2f}", _LABEL, LABEL_SIZE) for label, rank in ranks.average.items()]
        rows = _rows(texts)
        figure, body = with_note(ONE_COLUMN, rows[-1] + _REST, *_notes(runs, ranks))
        axes, beside = body.subplots(1, 2, sharey=True, width_ratios=(_PLOT, max(1, len(ranks.cliques)) * _BAR))
        _draw_methods(axes, runs, ranks, rows)
        _draw_difference(axes, len(ranks.average), ranks.critical_difference)
        _draw_cliques(beside, ranks, rows)
        axes.set_yticks(rows, texts)
        axes.set_ylim(rows[-1] + LINE, 0)
    return figure


def _rows(texts: Sequence[str]) -> list[float]:
    """Depth of the middle of each row below the top of the panel, in inches; long labels have more room."""
    heights = [LINE * (text.count("\n") + 1) + _ROW for text in texts]
    return [float(_HEAD + below - height / 2) for below, height in zip(accumulate(heights), heights, strict=True)]


def _draw_methods(axes: Axes, runs: Runs, ranks: Ranks, rows: Sequence[float]) -> None:
    looks = method_looks(runs.runs)
    for (label, rank), row in zip(ranks.average.items(), rows, strict=True):
        look = looks[label]
        axes.plot([1, rank], [row, row], color=look.colour, linewidth=0.9)
        axes.plot(
            [rank], [row], look.marker, color=look.colour, markerfacecolor=look.inside, markersize=4.5, clip_on=False
        )
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0, pad=6)  # room for the marker of a rank of 1
    axes.spines["left"].set_visible(False)
    axes.set_xlim(1, len(rows))
    axes.set_xticks(range(1, len(rows) + 1, 1 + len(rows) // 10))
    axes.set_xlabel("Average rank, 1 is best")


def _draw_difference(axes: Axes, methods: int, difference: float) -> None:
    """Draw the critical difference as a bar; where it is longer than the axis, as one that does not end."""
    end, height, grey = min(1 + difference, methods), _HEAD / 2, "0.25"
    style: Any = {"color": grey, "clip_on": False, "linewidth": 0.9}
    axes.plot([1, end], [height, height], **style)
    axes.plot([1], [height], "|", **style)
    axes.plot([end], [height], "|" if end < methods else ">", **style)
    axes.text((1 + end) / 2, height - 0.02, f"CD {difference:.2f}", color=grey, ha="center", va="bottom")


def _draw_cliques(axes: Axes, ranks: Ranks, rows: Sequence[float]) -> None:
    places = dict(zip(ranks.average, rows, strict=True))
    for number, clique in enumerate(ranks.cliques):
        ends = [places[clique[0]] - 0.05, places[clique[-1]] + 0.05]
        axes.plot([number, number], ends, color="0.25", linewidth=2.4, solid_capstyle="butt")
    axes.set_xlim(-0.5, max(1, len(ranks.cliques)) - 0.5)
    axes.set_axis_off()


def _notes(runs: Runs, ranks: Ranks) -> Iterator[str]:
    """Tell what is ranked, what the bars mean, and what speaks against trusting them."""
    yield (
        f"Average rank over {ranks.datasets} data sets, 1 is best, of the mean accuracy without test-time draws. CD: "
        f"critical difference (Nemenyi, level {ranks.level:g}); bars at the right join methods that do not differ "
        "significantly."
    )
    yield f"Friedman test that all methods are equal: p = {ranks.p_value:.2g}{_power(ranks)}."
    counts = runs.runs[runs.runs["epochs"] > 1].groupby("dataset", sort=False)["comparison"].nunique()
    shared = [str(name) for name in counts[counts > 1].index]
    if shared:
        yield f"Several comparisons use {few_names(shared)}; the tests take them for independent data sets."
    if ranks.left_out:
        lacking = [f"{label} (not on {few_names(datasets)})" for label, datasets in ranks.left_out.items()]
        yield f"Left out, since not all seeds are finished on all data sets: {few_names(lacking)}."
    unfinished = [name for name, means in _means_by_comparison(runs).items() if means["value"].isna().all()]
    if unfinished:
        yield f"Not counted, since no method has all seeds there: {few_names(unfinished)}."


def _power(ranks: Ranks) -> str:
    if ranks.p_value is not None and ranks.p_value > ranks.level:
        return ", so no difference between methods is significant"
    return f"; rough with {ranks.datasets} data sets" if ranks.datasets <= FEW_DATASETS else ""
