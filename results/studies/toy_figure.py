"""The figure of the toy problem: the points, what augmentation makes of them, and what is learned from that."""

from collections.abc import Mapping

import numpy as np
import seaborn as sns
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from augbench.results.figures.style import LEGEND_SIZE, ONE_COLUMN, figure_style, with_note
from augbench.results.studies.toy import PLANTED_RANGE, Points, ToyRun, Way

HALF_WIDTH = 2.35
"""Half the side of the square that a panel shows; the largest ring has radius 2."""

_MARKERS, _LETTERS = ("o", "^"), ("A", "B")
_DRAWS = 40  # augmented copies of each training point
_GRID = 161  # places along a side at which the network is asked
_TITLE_SIZE = 7


def toy_figure(runs: Mapping[Way, ToyRun]) -> Figure:
    """Draw six panels, lettered as in the TRM paper's first figure.

    Above (a) the training points, (b) and (c) what the fixed and the learned augmentation make of them; below the
    probability of each class that is learned (d) without augmentation, (e) with the fixed and (f) with the learned
    one, and the accuracy on the test points.

    Args:
        runs: A training of each way, all with one seed.
    """
    plain, fixed, learned = (runs[way] for way in (Way.RM, Way.FIXED, Way.TRM))
    planted = round(float(np.degrees(PLANTED_RANGE)))
    note = (
        f"Planted: ±{planted}°; seed {plain.result.seed}. Large marks: training points. Small ones: copies in (b, c), "
        "test points in (d–f) with the accuracy on them."
    )
    with figure_style():
        figure, body = with_note(ONE_COLUMN, 2.78, note)
        panels = body.subplots(2, 3, sharex=True, sharey=True)
        for axes in panels.flat:
            _prepare(axes)
        above = ("(a) Training", "(b) Rotated ±180°", f"(c) Learned ±{learned.result.range_degrees:.0f}°")
        for axes, title, run in zip(panels[0], above, (None, fixed, learned), strict=True):
            axes.set_title(title, fontsize=_TITLE_SIZE, pad=3)
            if run is not None:
                _scatter(axes, run.augmented(_DRAWS), size=1, alpha=0.25)
            _scatter(axes, plain.training, size=13, edge="white")
        below = ("(d) RM", "(e) ±180°", "(f) TRM")
        for axes, name, run in zip(panels[1], below, (plain, fixed, learned), strict=True):
            axes.set_title(f"{name}: {100 * run.result.test_accuracy:.1f} %", fontsize=_TITLE_SIZE, pad=3)
            _draw_regions(axes, run)
        body.legend(handles=_legend(), loc="outside lower center", ncols=3, handletextpad=0.1, columnspacing=1.0)
    return figure


def _prepare(axes: Axes) -> None:
    axes.set(xlim=(-HALF_WIDTH, HALF_WIDTH), ylim=(-HALF_WIDTH, HALF_WIDTH), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    axes.grid(visible=False)


def _scatter(axes: Axes, points: Points, *, size: float, alpha: float = 1.0, edge: str = "none") -> None:
    for label, (colour, marker) in enumerate(zip(_colours(), _MARKERS, strict=True)):
        x, y = points.places[points.labels == label].numpy().T
        rasterized = len(points) > 1000  # so many shapes would make a PDF slow to show
        marks = axes.scatter(x, y, s=size, color=colour, marker=marker, alpha=alpha, rasterized=rasterized)
        marks.set(edgecolors=edge, linewidths=0.4)


def _draw_regions(axes: Axes, run: ToyRun) -> None:
    """Fill the panel with the learned probability and put the points on it."""
    side = torch.linspace(-HALF_WIDTH, HALF_WIDTH, _GRID)
    x, y = torch.meshgrid(side, side, indexing="xy")
    probabilities = run.probabilities(torch.stack((x.flatten(), y.flatten()), dim=1)).view_as(x).numpy()
    first, second = _colours()
    colours = LinearSegmentedColormap.from_list("classes", [first, (1.0, 1.0, 1.0), second])
    axes.contourf(side, side, probabilities, levels=np.linspace(0, 1, 11), cmap=colours, alpha=0.45)
    axes.contour(side, side, probabilities, levels=[0.5], colors="0.2", linewidths=0.7)
    _scatter(axes, run.test, size=0.6, alpha=0.35)
    _scatter(axes, run.training, size=9, edge="white")


def _legend() -> list[Line2D]:
    return [
        Line2D(
            [], [], color=colour, marker=marker, markersize=LEGEND_SIZE / 1.8, linestyle="none", label=f"class {name}"
        )
        for colour, marker, name in zip(_colours(), _MARKERS, _LETTERS, strict=True)
    ]


def _colours() -> list[tuple[float, float, float]]:
    """Blue and orange, which the colour-blind can tell apart."""
    return [(red, green, blue) for red, green, blue in sns.color_palette("colorblind", 2)]
