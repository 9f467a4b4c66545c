"""The comparison at a glance: what was discovered, and what it is good for."""

import textwrap
from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from augbench.bench.errors import UserError
from augbench.results.figures.angle import draw_angles
from augbench.results.figures.style import TWO_COLUMNS, dataset_look, figure_style, legend_below, with_note
from augbench.results.findings import describe_range
from augbench.results.frame import Runs

MOST_PANELS = 2
PREFERRED = "scale"

_HALVED = ("half-turn", "flip")
"""Blocks for which one of the two elements that they draw from is the identity."""

_TITLE_LETTERS = 30  # more in a line would reach the heading of the ranges


def overview_figure(runs: Runs) -> Figure:
    """Draw what one learner found on each data set, beside accuracy against the angle of the test images.

    Left: probability of each block at the end of training, a bar for the mean over seeds and a marker for
    each seed, and the learned ranges beside it; right: the panels of `angle_figure` for the first two
    of these data sets.

    Raises:
        UserError: If no run is finished, none learned probabilities or none has a rotation probe.
    """
    runs.finished()
    found = discovered(runs)
    probed = set(runs.probe["comparison"])
    comparisons = [name for name in dict.fromkeys(found["comparison"]) if name in probed][:MOST_PANELS]
    if not comparisons:
        raise UserError(
            "The overview needs finished runs that learn probabilities (such as scale) and a rotation probe."
        )
    with figure_style():
        left_width = 2.9 if len(comparisons) > 1 else 3.4
        figure, body = with_note(TWO_COLUMNS, 2.9, *_notes(runs, found), below_left=left_width)
        widths = (left_width, TWO_COLUMNS - left_width)
        halves = body.subfigures(1, 2, squeeze=False, width_ratios=widths)
        left, right = halves[0, 0], halves[0, 1]
        discovery = left.subplots()
        _draw_discovery(discovery, found)
        _write_ranges(discovery, runs, found)
        legend_below(left, [discovery], left_width)
        panels = right.subplots(1, len(comparisons), sharey=True, squeeze=False)[0]
        for axes, comparison in zip(panels, comparisons, strict=True):
            draw_angles(axes, runs, comparison)
            axes.set_xlabel("Rotation of the test images (°)")
        panels[0].set_ylim(bottom=0)
        panels[0].set_ylabel("Accuracy (%)")
        legend_below(right, panels, TWO_COLUMNS - left_width)
    return figure


def discovered(runs: Runs) -> pd.DataFrame:
    """Select the final probabilities of the learner that the overview is about.

    Returns:
        A row for each run and block: the columns of `Runs.learned` with `block` and `percent`. The learner is scale
        where it is there, else the first one that learns probabilities, each with the first of its settings.
    """
    found = _of_the_learner(runs)
    found = found[found["label"].isin(found["label"].head(1))]
    return found.assign(block=found["quantity"].str.removeprefix("probability/"), percent=100 * found["value"])


def _of_the_learner(runs: Runs) -> pd.DataFrame:
    """Select the final probabilities of one learner, with all its settings."""
    found = runs.learned[runs.learned["quantity"].str.startswith("probability/")]
    preferred = found[found["method"] == PREFERRED]
    return preferred if len(preferred) else found[found["method"].isin(found["method"].head(1))]


def _notes(runs: Runs, found: pd.DataFrame) -> Iterator[str]:
    """Say what the left half does not show, and what its numbers do not mean."""
    settings = _of_the_learner(runs)["label"].nunique()
    if settings > 1:
        yield f"the first of {settings} settings of {found['method'].iloc[0]}"
    halved = [block for block in _HALVED if block in set(found["block"])]
    if halved:
        verb = "change" if len(halved) > 1 else "changes"
        yield f"{' and '.join(halved)}, where drawn, {verb} every other image"


def _rows(found: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Height at which each pair of data set and block is drawn: blocks from 0 down, data sets side by side."""
    blocks, comparisons = dict.fromkeys(found["block"]), dict.fromkeys(found["comparison"])
    step = 0.72 / len(comparisons)
    return {
        (comparison, block): line + step * (index - (len(comparisons) - 1) / 2)
        for line, block in enumerate(blocks)
        for index, comparison in enumerate(comparisons)
    }


def draw_probabilities(axes: Axes, found: pd.DataFrame) -> None:
    """Draw a bar for the mean of each block on each data set, and a point for each run.

    Args:
        axes: Where to.
        found: A row for each run and block, with `comparison`, `block` and `percent`.
    """
    blocks, rows = list(dict.fromkeys(found["block"])), _rows(found)
    for index, (name, inside) in enumerate(found.groupby("comparison", sort=False)):
        comparison, look = str(name), dataset_look(index)
        mean = inside.groupby("block", sort=False)["percent"].mean()
        places = [rows[comparison, str(block)] for block in mean.index]
        height = 0.6 / found["comparison"].nunique()
        axes.barh(places, mean, height=height, color=look.colour, alpha=0.45, label=comparison)
        places = [rows[comparison, block] for block in inside["block"]]
        axes.plot(inside["percent"], places, look.marker, color=look.colour, markersize=3)
    axes.set_yticks(range(len(blocks)), blocks)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 103)


def _draw_discovery(axes: Axes, found: pd.DataFrame) -> None:
    draw_probabilities(axes, found)
    axes.set_xlabel("Learned probability π (%)")
    axes.set_title(_title(found))


def _title(found: pd.DataFrame) -> str:
    """Name the learner, and in lines of their own its settings where there are several."""
    method, label = found["method"].iloc[0], found["label"].iloc[0]
    settings = label.removeprefix(method).strip()
    return "\n".join([f"What {method} found", *textwrap.wrap(settings, _TITLE_LETTERS)])


def _write_ranges(axes: Axes, runs: Runs, found: pd.DataFrame) -> None:
    """Write the mean learned range of each block beside its bar."""
    beside = axes.get_yaxis_transform()
    ranges = runs.learned[
        runs.learned["folder"].isin(found["folder"]) & runs.learned["quantity"].str.startswith("range/")
    ]
    for (comparison, block), row in _rows(found).items():
        chosen = ranges[(ranges["comparison"] == comparison) & (ranges["quantity"] == f"range/{block}")]
        if len(chosen):
            text = describe_range(block, list(chosen["value"]))
            axes.text(1.03, row, text, transform=beside, fontsize=6, color="0.25", verticalalignment="center")
    if len(ranges):
        axes.text(1.03, 1.035, "up to", transform=axes.transAxes, fontsize=6, color="0.25")
