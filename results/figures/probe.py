"""Accuracy against the parameter of a transform of the test images."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, MaxNLocator, MultipleLocator, NullLocator

from augbench.bench.training.probe_kinds import ProbeKind
from augbench.results.figures.notes import lines_text
from augbench.results.figures.panels import new_panels
from augbench.results.figures.style import FEW, Look, draw_mean, figure_style, in_front, method_looks

_AXIS_LABELS = {
    "rotation": "Rotation of the test images (°)",
    "x-scale": "Horizontal scale of the test images (factor)",
    "y-scale": "Vertical scale of the test images (factor)",
    "scale": "Scale of the test images (factor)",
    "x-shear": "Horizontal shear of the test images",
}
_ANGLE_STEPS = (0.5, 1, 2, 5, 10, 15, 30, 45, 90, 180)
"""Degrees from one tick to the next; the first at which there are not too many."""

_MOST_STEPS = 6
_MANY_OCTAVES = 4


def probe_figure(frame: pd.DataFrame, kind: ProbeKind) -> Figure:
    """Draw accuracy (%) against the parameter of a transform, a panel for each data set, a line for each method.

    Thick lines are means over seeds, thin ones single seeds. Notes give the number of test-time draws, and the data set
    of the test images if it is not the run's own.

    Args:
        frame: Of one kind, from `probe_runs` in `results/studies/probes.py`.
        kind: The kind.
    """
    return curves_figure(frame, _AXIS_LABELS[kind.name], kind.unit)


def curves_figure(
    frame: pd.DataFrame,
    axis_label: str,
    unit: str,
    notes: Iterable[str] = (),
    looks: Mapping[str, Look] | None = None,
) -> Figure:
    """Draw accuracy (%) against a value; the panels, lines and notes are those of `probe_figure`.

    Args:
        frame: `value` and `accuracy` of runs, with the other columns that `probe_runs` gives but the kind.
        axis_label: Name of the horizontal axis.
        unit: Of the values; decides the scale of that axis.
        notes: Said first below the figure.
        looks: Look of each label; chosen for those of the frame if left out.
    """
    comparisons = list(dict.fromkeys(frame["comparison"]))
    labels = list(frame["label"].unique())
    with figure_style(len(labels)):
        panels = new_panels(comparisons, labels, [*notes, *_notes(frame), lines_text(frame)])
        looks = looks or method_looks(frame)
        for panel in panels:
            inside = frame[frame["comparison"] == comparisons[panel.index]]
            _draw_curves(panel.axes, inside, in_front(looks, panel.labels))
            _set_values(panel.axes, unit, frame["value"].tolist())
        panels.axes[0].set_ylim(bottom=0)
        panels.label(axis_label, "Accuracy (%)")
        panels.legend()
    return panels.figure


def _draw_curves(axes: Axes, frame: pd.DataFrame, looks: dict[str, Look]) -> None:
    """Draw one panel: a line for each seed and one for their mean, for each method; few values as markers, too."""
    count = frame["value"].nunique()
    for label, of_method in frame.groupby("label", sort=False):
        look = looks[str(label)]
        if of_method["seed"].nunique() > 1 and not look.behind:
            for _, of_seed in of_method.groupby("seed"):
                points = of_seed["value"], 100 * of_seed["accuracy"]
                axes.plot(*points, color=look.colour, linewidth=0.5, alpha=0.45, marker="_" if count == 1 else "")
        mean = of_method.groupby("value")["accuracy"].mean()
        draw_mean(axes, list(mean.index), list(100 * mean), str(label), look, marked=count <= FEW)


def _set_values(axes: Axes, unit: str, values: Sequence[float]) -> None:
    """Choose scale and ticks of the horizontal axis; factors over two octaves or more have a logarithmic one."""
    lowest, highest = min(values), max(values)
    if lowest == highest or unit == "levels":
        axes.set_xticks(sorted(set(values)))
    elif unit == "factors" and highest >= 4 * lowest:
        between = (1.0,) if highest > 2**_MANY_OCTAVES * lowest else (1.0, 1.5)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(LogLocator(base=2, subs=between))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FormatStrFormatter("%.3g"))
    elif unit == "degrees":
        steps = (step for step in _ANGLE_STEPS if highest - lowest <= _MOST_STEPS * step)
        axes.xaxis.set_major_locator(MultipleLocator(next(steps)))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))


def _notes(frame: pd.DataFrame) -> Iterator[str]:
    """Name the test images if they are not the run's own, and the number of draws if there are any."""
    others = frame.loc[frame["test_dataset"] != frame["dataset"], "test_dataset"].unique()
    if len(others):
        yield f"Test images of {', '.join(others)}."
    if draws := frame["draws"].max():
        yield f"Probabilities averaged over {draws} test-time draw{'s' if draws > 1 else ''}."
        without = frame[frame["draws"] == 0]["label"].unique()
        if len(without):
            yield f"No draws for lack of a policy: {', '.join(f'“{label}”' for label in without)}."
