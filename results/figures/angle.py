"""Accuracy against the angle by which the test images are turned."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from augbench.bench.errors import UserError
from augbench.results.figures.style import (
    FEW,
    ONE_COLUMN,
    TITLE_SIZE,
    TWO_COLUMNS,
    angle_axis,
    figure_style,
    legend_below,
    legend_height,
    method_looks,
    new_figure,
)
from augbench.results.figures.text import LINE, wrap_text
from augbench.results.frame import Runs

BESIDE_PANEL = 0.5
"""Inches beside a panel, for the numbers and the label of its vertical axis."""


def angle_figure(runs: Runs) -> Figure:
    """Draw accuracy (%) against test rotation angle (degrees), a panel for each data set, a line for each method.

    Thick lines are means over seeds, thin ones single seeds; there is no test-time augmentation.

    Raises:
        UserError: If no run is finished or none has a rotation probe.
    """
    runs.finished()
    if runs.probe.empty:
        raise UserError("No finished run has a rotation probe; set probe_angles above 0 in the suite's protocol.")
    comparisons = list(dict.fromkeys(runs.probe["comparison"]))
    with figure_style():
        width = ONE_COLUMN if len(comparisons) == 1 else TWO_COLUMNS
        columns, lines = min(2, len(comparisons)), -(-len(comparisons) // 2)
        room = width / columns - BESIDE_PANEL
        breaks = max(wrap_text(name, room, TITLE_SIZE).count("\n") for name in comparisons)
        height = (2.1 + LINE * breaks) * lines + max(0.5, 0.2 + legend_height(runs.probe["label"].unique(), width))
        figure = new_figure(width, height)
        panels = list(figure.subplots(lines, columns, sharey=True, squeeze=False).flat)
        for index, (axes, comparison) in enumerate(zip(panels, comparisons, strict=False)):
            draw_angles(axes, runs, comparison, room)
            axes.set_xlabel("Rotation of the test images (°)")
            axes.set_ylabel("Accuracy (%)" if index % 2 == 0 else "")
        for axes in panels[len(comparisons) :]:
            axes.set_axis_off()
        panels[0].set_ylim(bottom=0)
        legend_below(figure, panels, width)
    return figure


def draw_angles(axes: Axes, runs: Runs, comparison: str, room: float) -> None:
    """Draw one panel: a line for each seed and one for their mean, for each method.

    Args:
        axes: Where to.
        runs: What to draw.
        comparison: The data set that the panel is about.
        room: Width of its title, in inches.
    """
    looks = method_looks(runs.runs)
    probe = runs.probe[runs.probe["comparison"] == comparison]
    for label, of_method in probe.groupby("label", sort=False):
        look = looks[str(label)]
        if of_method["seed"].nunique() > 1:
            for _, of_seed in of_method.groupby("seed"):
                axes.plot(of_seed["degrees"], 100 * of_seed["accuracy"], color=look.colour, linewidth=0.5, alpha=0.45)
        mean = of_method.groupby("degrees")["accuracy"].mean()
        (line,) = axes.plot(mean.index, 100 * mean, color=look.colour, linestyle=look.dashes, label=str(label))
        if len(mean) <= FEW:
            line.set(marker=look.marker, markerfacecolor=look.inside)
    axes.set_title(wrap_text(comparison, room, TITLE_SIZE))
    angle_axis(axes)
