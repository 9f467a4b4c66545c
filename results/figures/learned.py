"""What the learners learn, over the epochs."""

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation, Transform

from augbench.bench.errors import UserError
from augbench.results.figures.style import TWO_COLUMNS, Look, block_look, figure_style, with_note
from augbench.results.frame import Runs

PROBABILITY, RANGE = "probability", "range"
_KINDS = (PROBABILITY, RANGE)

_LINE, _LEGEND_GAP = 0.145, 0.42
"""Inches: a line of a legend or title, and from a panel to its legend, with tick labels and "Epoch" between them."""


def learned_numbers(runs: Runs) -> pd.DataFrame:
    """Select the probabilities and ranges of finished runs, in percent, where they are learned in training.

    What a search found before training does not change over the epochs and is left to the figure `searched`.

    Returns:
        A row for each run, epoch and block: the columns of `Runs.trajectories` with `kind` (`probability` or
        `range`), `block` and `percent`: of the images, or of the block's maximum. The maxima are those of the space
        that all methods share: its largest rotation, log factor and shear, and half an image for shifts.
    """
    finished = runs.finished()
    learners = finished[finished["image_passes_search"] == 0]
    numbers = runs.trajectories[runs.trajectories["folder"].isin(learners["folder"])]
    parts = numbers["quantity"].str.partition("/")
    numbers = numbers.assign(kind=parts[0], block=parts[2])
    numbers = numbers[numbers["kind"].isin(_KINDS)]
    limits = finished.set_index("folder")[["maximum_rotation", "maximum_log_scale", "maximum_shear"]]
    maxima = [
        _maximum(str(block), limits.loc[folder]) if kind == RANGE else 1.0
        for folder, kind, block in zip(numbers["folder"], numbers["kind"], numbers["block"], strict=True)
    ]
    return numbers.assign(percent=100 * numbers["value"] / maxima)


def _maximum(block: str, limits: "pd.Series[float]") -> float:
    if block == "rotation":
        return float(limits["maximum_rotation"])
    if _is_scale(block):
        return float(limits["maximum_log_scale"])
    return float(limits["maximum_shear"]) if block.endswith("shear") else 1.0


def learned_figure(runs: Runs) -> Figure:
    """Draw the learned probabilities and ranges over the epochs.

    Rows are data sets; columns are the probabilities and the ranges of each method that learns them. A line for
    each block, thick for the mean over seeds and thin for single seeds.

    Raises:
        UserError: If no run is finished or none learned anything.
    """
    numbers = learned_numbers(runs)
    if numbers.empty:
        raise UserError("No finished run learned any augmentation: there is nothing to draw over the epochs.")
    columns, entries = _columns(numbers), numbers.groupby(["label", "kind"])["block"].nunique().max()
    comparisons = list(dict.fromkeys(numbers["comparison"]))
    with figure_style():
        legend_columns = 2 if len(columns) <= 3 else 1
        width = max(TWO_COLUMNS, 1.5 * len(columns))
        titles = _titles(columns, width)
        lines = max(title.count("\n") for title in titles) + -(-entries // legend_columns)
        height = 1.45 * len(comparisons) + 0.65 + _LINE * lines
        figure, body = with_note(width, height, *_explain_maxima(runs, numbers))
        panels = body.subplots(len(comparisons), len(columns), sharex="row", sharey=True, squeeze=False)
        for line, comparison in zip(panels, comparisons, strict=True):
            of_comparison = numbers[numbers["comparison"] == comparison]
            for axes, (label, kind) in zip(line, columns, strict=True):
                _draw(axes, of_comparison[(of_comparison["label"] == label) & (of_comparison["kind"] == kind)])
            line[0].set_ylim(-3, max(103, numbers["percent"].max()))
            line[0].set_ylabel(comparison, fontweight="bold", labelpad=8)
        for axes, title in zip(panels[0], titles, strict=True):
            axes.set_title(title)
        for column in zip(*panels, strict=True):
            filled = [axes for axes in column if axes.lines]
            filled[-1].set_xlabel("Epoch")
            below = ScaledTranslation(0, -_LEGEND_GAP, figure.dpi_scale_trans)
            _legend(column[-1], filled, legend_columns, below)
    return figure


def _columns(numbers: pd.DataFrame) -> list[tuple[str, str]]:
    """Pairs of label and kind; methods that learn probabilities come first, each before its ranges."""
    kinds = {str(label): set(inside) for label, inside in numbers.groupby("label", sort=False)["kind"]}
    labels = sorted(kinds, key=lambda label: PROBABILITY not in kinds[label])
    return [(label, kind) for label in labels for kind in _KINDS if kind in kinds[label]]


def _titles(columns: Sequence[tuple[str, str]], width: float) -> list[str]:
    """Name what each column shows, in lines that fit; only ranges that come with probabilities are scale's α."""
    letters = int((width / len(columns) - 0.2) / 0.066)  # at the size of the titles
    titles = []
    for label, kind in columns:
        shown = "range α (% of max.)" if (label, PROBABILITY) in columns else "range (% of max.)"
        shown = "probability π (%)" if kind == PROBABILITY else shown
        titles.append("\n".join([*textwrap.wrap(label, letters), shown]))
    return titles


def _legend(panel: Axes, column: Iterable[Axes], ncols: int, below: Transform) -> None:
    """Put the legend of a column of panels below the last of them."""
    entries: dict[str, Artist] = {}
    for axes in column:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    legend = panel.legend(
        list(entries.values()), list(entries), loc="upper center", ncols=ncols, handlelength=2.2, columnspacing=1
    )
    legend.set_bbox_to_anchor((0.5, 0), panel.transAxes + below)


def _explain_maxima(runs: Runs, numbers: pd.DataFrame) -> list[str]:
    """Say in one sentence what 100 % is, for the ranges that are drawn; nothing where there are none."""
    limits = runs.finished()
    blocks = list(dict.fromkeys(numbers[numbers["kind"] == RANGE]["block"]))
    groups: list[tuple[str, Callable[[str], bool], list[str]]] = [
        ("rotation", "rotation".__eq__, [f"±{math.degrees(value):.0f}°" for value in limits["maximum_rotation"]]),
        ("scales", _is_scale, [f"×{math.exp(value):.3g}" for value in limits["maximum_log_scale"]]),
        ("shears", lambda block: block.endswith("shear"), [f"{value:.3g}" for value in limits["maximum_shear"]]),
        ("shifts", lambda block: block.endswith("translation"), ["half an image"]),
    ]
    maxima = [
        f"{name} {' or '.join(dict.fromkeys(values))}" for name, belongs, values in groups if any(map(belongs, blocks))
    ]
    return [f"max. of the ranges: {', '.join(maxima)}"] if maxima else []


def _is_scale(block: str) -> bool:
    return block.endswith("scale") or block == "stretch"


def _draw(axes: Axes, numbers: pd.DataFrame) -> None:
    if numbers.empty:  # nothing but the name of the data set, where it stands here
        axes.spines[:].set_visible(False)
        axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
        axes.grid(visible=False)
    for block, of_block in numbers.groupby("block", sort=False):
        look = block_look(str(block))
        if of_block["seed"].nunique() > 1:
            for _, of_seed in of_block.groupby("seed"):
                thin = axes.plot(of_seed["epoch"], of_seed["percent"], color=look.colour, linewidth=0.5, alpha=0.45)
                _mark_if_single(thin[0], look, size=2)
        mean = of_block.groupby("epoch")["percent"].mean()
        thick = axes.plot(mean.index, mean, color=look.colour, linestyle=look.dashes, label=str(block))
        _mark_if_single(thick[0], look, size=4)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    if numbers["epoch"].nunique() == 1:  # room on both sides, where there is no line to give the panel its width
        axes.set_xlim(numbers["epoch"].min() - 0.5, numbers["epoch"].max() + 0.5)


def _mark_if_single(line: Line2D, look: Look, size: float) -> None:
    """Give a line of one point, which cannot be seen, a marker."""
    if len(line.get_xdata()) == 1:  # type: ignore[arg-type]
        line.set(marker=look.marker, markersize=size, markerfacecolor=look.inside)
