"""What the learners learn, over the epochs."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation, Transform
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError
from augbench.results.figures.notes import caveats, lines_text
from augbench.results.figures.style import (
    LABEL_SIZE,
    LEGEND_SIZE,
    TITLE_SIZE,
    TWO_COLUMNS,
    Look,
    block_looks,
    figure_style,
    with_note,
)
from augbench.results.figures.text import LINE, wrap_text
from augbench.results.model.frame import Runs

PROBABILITY, RANGE, OTHER = "probability", "range", "other"
_KINDS = (PROBABILITY, RANGE, OTHER)
NOT_LEARNED = ("loss", "accuracy")
"""Quantities of a course of training that are no learned numbers."""

# Inches: from a panel to its legend, with tick labels and "Epoch" between them; height of a row of panels; length of a
# line of its name; least width of a column; beside a panel, for the numbers of its axis; beside a text in a legend.
_LEGEND_GAP, _ROW_HEIGHT, _NAME_LENGTH, _LEAST_WIDTH, _BESIDE_PANEL, _HANDLE = 0.42, 1.45, 1.4, 1.5, 0.3, 0.4

_MOST_COLUMNS, _MOST_ROWS = 4, 5  # of panels on a page; the columns of one method are on one page, however many


class _Maximum(NamedTuple):
    """The greatest range of some blocks: a column of `Runs.runs`, or half an image where there is none."""

    name: str
    belongs: Callable[[str], object]
    column: str
    show: Callable[[float], str]


_MAXIMA = (
    _Maximum("rotation", "rotation".__eq__, "maximum_rotation", lambda value: f"±{math.degrees(value):.0f}°"),
    _Maximum(
        "scales", re.compile("stretch|.*scale").fullmatch, "maximum_log_scale", lambda value: f"×{math.exp(value):.3g}"
    ),
    _Maximum("shears", re.compile(".*shear").fullmatch, "maximum_shear", lambda value: f"{value:.3g}"),
    _Maximum("shifts", re.compile(".*translation").fullmatch, "", str),
)


def learned_numbers(runs: Runs) -> pd.DataFrame:
    """Select what finished runs learned in training: probabilities and ranges in percent, other numbers as they are.

    What a search found before training does not change over the epochs and is left to the figure `searched`. Epoch 0,
    before the first step, is there where a run has recorded it.

    Returns:
        A row for each run, epoch and number: the columns of `Runs.trajectories` with `kind` (`probability`, `range`
        or `other`), `block` (for other numbers their whole name) and `drawn`: percent of the images or of the block's
        maximum, or the value itself. The maxima are those of the space that all methods share: its largest rotation,
        log factor and shear, and half an image for shifts.
    """
    return runs.once("learned numbers", lambda: _learned_numbers(runs)).copy()


def _learned_numbers(runs: Runs) -> pd.DataFrame:
    finished = runs.finished()
    learners = finished[finished["image_passes_search"] == 0]
    start = (
        runs.learned.dropna(subset=["start"]).assign(epoch=0).drop(columns="value").rename(columns={"start": "value"})
    )
    numbers = pd.concat([start, runs.trajectories])
    numbers = as_drawn(numbers[numbers["folder"].isin(learners["folder"])], finished)
    return numbers[~numbers["quantity"].isin(NOT_LEARNED)]


def as_drawn(numbers: pd.DataFrame, finished: pd.DataFrame) -> pd.DataFrame:
    """Add the columns `kind`, `block` and `drawn` of `learned_numbers` to rows of `folder`, `quantity` and `value`."""
    known = {quantity: _kind_and_block(quantity) for quantity in numbers["quantity"].unique()}
    kinds, blocks = (numbers["quantity"].map({name: pair[place] for name, pair in known.items()}) for place in (0, 1))
    limits = finished.set_index("folder")
    wholes = pd.Series(1.0, index=numbers.index)
    for block in blocks[kinds == RANGE].unique():
        limit = next((maximum.column for maximum in _MAXIMA if maximum.belongs(str(block))), "")
        if limit:
            wholes = wholes.mask((kinds == RANGE) & (blocks == block), numbers["folder"].map(limits[limit]))
    return numbers.assign(
        kind=kinds, block=blocks, drawn=numbers["value"].where(kinds == OTHER, 100 * numbers["value"] / wholes)
    )


def _kind_and_block(quantity: str) -> tuple[str, str]:
    kind, _, block = quantity.partition("/")
    return (kind, block) if kind in (PROBABILITY, RANGE) and block else (OTHER, quantity)


def learned_figures(runs: Runs) -> list[Figure]:
    """Draw what is learned in training over the epochs, on as many pages as are needed to read it.

    Raises:
        UserError: If no run is finished or none learned anything.
    """
    numbers = learned_numbers(runs)
    if numbers.empty:
        return [learned_figure(runs)]
    comparisons = list(dict.fromkeys(numbers["comparison"]))
    pages = [
        numbers[numbers["label"].isin(labels) & numbers["comparison"].isin(names)]
        for labels in _label_pages(panel_columns(numbers))
        for names in np.array_split(comparisons, -(-len(comparisons) // _MOST_ROWS))
    ]
    return [learned_figure(runs, page) for page in pages if len(page)]


def _label_pages(columns: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Spread methods over pages of a few columns; the columns of one method stay together."""
    pages: list[list[str]] = [[]]
    widths = Counter(label for label, _ in columns)
    for label, width in widths.items():
        if pages[-1] and sum(widths[other] for other in pages[-1]) + width > _MOST_COLUMNS:
            pages.append([])
        pages[-1].append(label)
    return pages


def learned_figure(runs: Runs, numbers: pd.DataFrame | None = None) -> Figure:
    """Draw what is learned in training over the epochs.

    Rows are data sets; columns are the probabilities, the ranges and the other numbers of each method that has them.
    A line for each block or number, thick for the mean over seeds and thin for single seeds. Other numbers have a
    scale of their own in each column.

    Args:
        runs: What to draw.
        numbers: Some rows of `learned_numbers`; all of them by default.

    Raises:
        UserError: If no run is finished or none learned anything.
    """
    numbers = learned_numbers(runs) if numbers is None else numbers
    if numbers.empty:
        raise UserError("No finished run learned any augmentation: there is nothing to draw over the epochs.")
    columns, comparisons = panel_columns(numbers), list(dict.fromkeys(numbers["comparison"]))
    with figure_style():
        names = [wrap_text(name, _NAME_LENGTH, LABEL_SIZE, bold=True) for name in comparisons]
        beside = LINE * (1 + max(name.count("\n") for name in names))
        width = max(TWO_COLUMNS, beside + (_LEAST_WIDTH - 0.02) * len(columns))
        room = (width - beside) / len(columns)
        titles = panel_titles(columns, room - _BESIDE_PANEL)
        legend_columns = 2 if len(columns) <= 3 else 1
        entries = _entries(numbers, columns, room / legend_columns - _HANDLE)
        lines = max(title.count("\n") for title in titles) + _legend_lines(entries, legend_columns)
        height = _ROW_HEIGHT * len(comparisons) + 0.65 + LINE * lines
        figure, body = with_note(width, height, lines_text(numbers), *explain_maxima(runs, numbers), *caveats(runs))
        panels = body.subplots(len(comparisons), len(columns), sharex="row", squeeze=False)
        _draw_panels(panels, numbers, columns, comparisons)
        for line, name in zip(panels, names, strict=True):
            line[0].set_ylabel(name, fontweight="bold", labelpad=8)
        for axes, title in zip(panels[0], titles, strict=True):
            axes.set_title(title)
        below = ScaledTranslation(0, -_LEGEND_GAP, figure.dpi_scale_trans)
        for column, texts in zip(panels.T, entries, strict=True):
            filled = [axes for axes in column if axes.lines]
            filled[-1].set_xlabel("Epoch")
            _legend(column[-1], filled, texts, legend_columns, below)
    return figure


def _draw_panels(
    panels: NDArray[np.object_], numbers: pd.DataFrame, columns: Sequence[tuple[str, str]], comparisons: Sequence[str]
) -> None:
    for column, (label, kind) in zip(panels.T, columns, strict=True):
        of_column = numbers[(numbers["label"] == label) & (numbers["kind"] == kind)]
        looks = block_looks(of_column["block"])
        for axes, comparison in zip(column, comparisons, strict=True):
            _draw(axes, of_column[of_column["comparison"] == comparison], looks)
    in_percent = [kind != OTHER for _, kind in columns]
    highest = numbers[numbers["kind"] != OTHER]["drawn"].max()
    for column, percent in zip(panels.T, in_percent, strict=True):
        if percent:
            for axes in column:
                axes.set_ylim(-3, max(103, highest))
        else:
            for axes in column[1:]:
                axes.sharey(column[0])
            column[0].autoscale(axis="y")
    for line in panels:
        for left, axes, as_left, percent in zip(line, line[1:], in_percent, in_percent[1:], strict=False):
            if left.lines and as_left and percent:
                axes.tick_params(labelleft=False)


def panel_columns(numbers: pd.DataFrame) -> list[tuple[str, str]]:
    """Pairs of label and kind; methods that learn probabilities come first, each before its ranges."""
    kinds = {str(label): set(inside) for label, inside in numbers.groupby("label", sort=False)["kind"]}
    labels = sorted(kinds, key=lambda label: PROBABILITY not in kinds[label])
    return [(label, kind) for label in labels for kind in _KINDS if kind in kinds[label]]


def panel_titles(columns: Sequence[tuple[str, str]], room: float) -> list[str]:
    """Title each column, in lines of `room` inches; only ranges that come with probabilities are scale's α."""
    titles = []
    for label, kind in columns:
        ranges = "range α (% of max.)" if (label, PROBABILITY) in columns else "range (% of max.)"
        shown = {PROBABILITY: "probability π (%)", RANGE: ranges, OTHER: "other numbers"}[kind]
        titles.append("\n".join([wrap_text(label, room, TITLE_SIZE), shown]))
    return titles


def _entries(numbers: pd.DataFrame, columns: Sequence[tuple[str, str]], room: float) -> list[dict[str, str]]:
    """List the legend entries of each column: what is drawn, and its name in lines that fit."""
    blocks = {key: list(dict.fromkeys(inside)) for key, inside in numbers.groupby(["label", "kind"])["block"]}
    return [{block: wrap_text(block, room, LEGEND_SIZE) for block in blocks[key]} for key in columns]


def _legend_lines(entries: Sequence[Mapping[str, str]], legend_columns: int) -> int:
    """Count the lines of the longest legend, at most."""
    return max(
        -(-len(texts) // legend_columns) * max(text.count("\n") + 1 for text in texts.values()) for texts in entries
    )


def _legend(panel: Axes, column: Iterable[Axes], texts: Mapping[str, str], ncols: int, below: Transform) -> None:
    """Put the legend of a column of panels below the last of them."""
    entries: dict[str, Artist] = {}
    for axes in column:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    names = [texts[label] for label in entries]
    style: dict[str, Any] = {"loc": "upper center", "ncols": ncols, "handlelength": 2.2, "columnspacing": 1}
    panel.legend(list(entries.values()), names, **style).set_bbox_to_anchor((0.5, 0), panel.transAxes + below)


def explain_maxima(runs: Runs, numbers: pd.DataFrame) -> list[str]:
    """Write one sentence on what 100 % is for the ranges that are drawn; none without ranges."""
    limits, blocks = runs.finished(), numbers[numbers["kind"] == RANGE]["block"].unique()
    maxima = []
    for maximum in _MAXIMA:
        if any(map(maximum.belongs, blocks)):
            values = limits[maximum.column].map(maximum.show) if maximum.column else ["half an image"]
            maxima.append(f"{maximum.name} {' or '.join(dict.fromkeys(values))}")
    return [f"Max. of the ranges: {', '.join(maxima)}."] if maxima else []


def _draw(axes: Axes, numbers: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    if numbers.empty:  # only the name of the data set, if it stands here
        axes.spines[:].set_visible(False)
        axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
        axes.grid(visible=False)
    for block, of_block in numbers.groupby("block", sort=False):
        look = looks[str(block)]
        if of_block["seed"].nunique() > 1:
            for _, of_seed in of_block.groupby("seed"):
                thin = axes.plot(of_seed["epoch"], of_seed["drawn"], color=look.colour, linewidth=0.5, alpha=0.45)
                _mark_if_single(thin[0], look, size=2)
        mean = of_block.groupby("epoch")["drawn"].mean()
        thick = axes.plot(mean.index, mean, color=look.colour, linestyle=look.dashes, label=str(block))
        _mark_if_single(thick[0], look, size=4)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    if numbers["epoch"].nunique() == 1:  # room on both sides, where there is no line to give the panel its width
        axes.set_xlim(numbers["epoch"].min() - 0.5, numbers["epoch"].max() + 0.5)


def _mark_if_single(line: Line2D, look: Look, size: float) -> None:
    """Give a line of one point, which cannot be seen, a marker."""
    if len(line.get_xdata()) == 1:  # type: ignore[arg-type]
        line.set(marker=look.marker, markersize=size, markerfacecolor=look.inside)
