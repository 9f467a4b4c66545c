"""What the learners learn, over the epochs."""

import math
from collections.abc import Iterable

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from augbench.bench.errors import UserError
from augbench.results.figures.style import TWO_COLUMNS, block_look, figure_style, new_figure
from augbench.results.frame import Runs

PROBABILITY, RANGE = "probability", "range"
_KINDS = {PROBABILITY: "probability π (%)", RANGE: "range α (% of max.)"}


def learned_numbers(runs: Runs) -> pd.DataFrame:
    """Select the probabilities and ranges of finished runs, in percent.

    Returns:
        A row for each run, epoch and block: the columns of `Runs.trajectories` with `kind` (`probability` or
        `range`), `block` and `percent`: of the images, or of the block's maximum. The maxima are those of the space
        that all methods share: its largest rotation, log factor and shear, and half an image for shifts.
    """
    finished = runs.finished()
    numbers = runs.trajectories[runs.trajectories["folder"].isin(finished["folder"])]
    parts = numbers["quantity"].str.partition("/")
    numbers = numbers.assign(kind=parts[0], block=parts[2])
    numbers = numbers[numbers["kind"].isin(list(_KINDS))]
    limits = finished.set_index("folder")[["maximum_rotation", "maximum_log_scale", "maximum_shear"]]
    maxima = [
        _maximum(str(block), limits.loc[folder]) if kind == RANGE else 1.0
        for folder, kind, block in zip(numbers["folder"], numbers["kind"], numbers["block"], strict=True)
    ]
    return numbers.assign(percent=100 * numbers["value"] / maxima)


def _maximum(block: str, limits: "pd.Series[float]") -> float:
    if block == "rotation":
        return float(limits["maximum_rotation"])
    if block.endswith("scale") or block == "stretch":
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
    columns = _columns(numbers)
    comparisons = list(dict.fromkeys(numbers["comparison"]))
    with figure_style():
        few = len(columns) <= 3
        figure = new_figure(max(TWO_COLUMNS, 1.5 * len(columns)), 1.45 * len(comparisons) + (1.3 if few else 1.8))
        panels = figure.subplots(len(comparisons), len(columns), sharex="row", sharey=True, squeeze=False)
        for line, comparison in zip(panels, comparisons, strict=True):
            of_comparison = numbers[numbers["comparison"] == comparison]
            for axes, (label, kind) in zip(line, columns, strict=True):
                _draw(axes, of_comparison[(of_comparison["label"] == label) & (of_comparison["kind"] == kind)])
            line[0].set_ylim(-3, max(103, numbers["percent"].max()))
            line[0].set_ylabel(comparison, fontweight="bold", labelpad=8)
        for axes, (label, kind) in zip(panels[0], columns, strict=True):
            axes.set_title(f"{label}\n{_KINDS[kind]}")
        for column in zip(*panels, strict=True):
            filled = [axes for axes in column if axes.lines]
            filled[-1].set_xlabel("Epoch")
            _legend(column[-1], filled, 2 if few else 1)
        figure.supxlabel(_explain_maximum(runs), fontsize=6.5, color="0.35")
    return figure


def _columns(numbers: pd.DataFrame) -> list[tuple[str, str]]:
    """Pairs of label and kind; methods that learn probabilities come first, each before its ranges."""
    kinds = {str(label): set(inside) for label, inside in numbers.groupby("label", sort=False)["kind"]}
    labels = sorted(kinds, key=lambda label: PROBABILITY not in kinds[label])
    return [(label, kind) for label in labels for kind in _KINDS if kind in kinds[label]]


def _legend(below: Axes, column: Iterable[Axes], entries_in_a_line: int) -> None:
    """Put the legend of a column of panels below the last of them."""
    entries: dict[str, Artist] = {}
    for axes in column:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    ncols = entries_in_a_line
    legend = below.legend(
        list(entries.values()), list(entries), loc="upper center", ncols=ncols, handlelength=2.2, columnspacing=1
    )
    legend.set_bbox_to_anchor((0.5, -0.32))


def _explain_maximum(runs: Runs) -> str:
    first = runs.finished().iloc[0]
    rotation, factor = math.degrees(first["maximum_rotation"]), math.exp(first["maximum_log_scale"])
    shear = first["maximum_shear"]
    maxima = f"rotation ±{rotation:.0f}°, scales ×{factor:.3g}, shears {shear:.3g}, shifts half an image"
    return f"max. of the ranges: {maxima}"


def _draw(axes: Axes, numbers: pd.DataFrame) -> None:
    if numbers.empty:  # nothing but the name of the data set, where it stands here
        axes.spines[:].set_visible(False)
        axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
        axes.grid(visible=False)
    for block, of_block in numbers.groupby("block", sort=False):
        look = block_look(str(block))
        if of_block["seed"].nunique() > 1:
            for _, of_seed in of_block.groupby("seed"):
                axes.plot(of_seed["epoch"], of_seed["percent"], color=look.colour, linewidth=0.5, alpha=0.45)
        mean = of_block.groupby("epoch")["percent"].mean()
        axes.plot(mean.index, mean, color=look.colour, linestyle=look.dashes, label=str(block))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
