"""Accuracy against the angle by which the test images are turned."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from augbench.bench.common.errors import UserError
from augbench.results.figures.notes import caveats, lines_text
from augbench.results.figures.panels import new_panels
from augbench.results.figures.style import FEW, Look, angle_axis, draw_mean, figure_style, in_front, method_looks
from augbench.results.model.frame import Runs

_IMAGES = "No test-time draws. Where a data set rotates its images, the test images are the unrotated ones."


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
    labels = list(runs.probe["label"].unique())
    with figure_style(len(labels)):
        panels = new_panels(comparisons, labels, [lines_text(runs.probe), _IMAGES, *caveats(runs)])
        looks = method_looks(runs.runs)
        for panel in panels:
            draw_angles(panel.axes, runs, comparisons[panel.index], in_front(looks, panel.labels))
        panels.axes[0].set_ylim(bottom=0)
        panels.label("Rotation of the test images (°)", "Accuracy (%)")
        panels.legend()
    return panels.figure


def draw_angles(axes: Axes, runs: Runs, comparison: str, looks: Mapping[str, Look]) -> None:
    """Draw one panel, of the data set `comparison`: for each method a line for each seed and one for their mean."""
    probe = runs.probe[runs.probe["comparison"] == comparison]
    for label, of_method in probe.groupby("label", sort=False):
        look = looks[str(label)]
        if of_method["seed"].nunique() > 1 and not look.behind:
            for _, of_seed in of_method.groupby("seed"):
                axes.plot(of_seed["degrees"], 100 * of_seed["accuracy"], color=look.colour, linewidth=0.5, alpha=0.45)
        mean = of_method.groupby("degrees")["accuracy"].mean()
        draw_mean(axes, list(mean.index), list(100 * mean), str(label), look, marked=len(mean) <= FEW)
    angle_axis(axes)
