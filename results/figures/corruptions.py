"""Accuracy against the severity of corruptions of the test images."""

from collections.abc import Iterable, Mapping

import pandas as pd
from matplotlib.figure import Figure

from augbench.bench.common.errors import UserError, to_paste
from augbench.results.figures.notes import caveats
from augbench.results.figures.probe import curves_figure
from augbench.results.figures.style import Look, method_looks
from augbench.results.model.corruptions import BENCHMARKS, by_severity, main_rows
from augbench.results.model.frame import Runs


def corruptions_figure(runs: Runs, name: str = "corruptions") -> Figure:
    """Draw accuracy (%) against severity, a panel for each data set, a line for each method.

    Args:
        runs: The runs.
        name: The set of corruptions, of `BENCHMARKS`.

    Raises:
        UserError: If there are no scores on corrupted images of any of the runs.
    """
    frame = runs.corruptions[runs.corruptions["corruptions"] == name]
    if frame.empty:
        probe = to_paste("probe", "OUT", "--kind", name, "--out", "PROBES")
        raise UserError(f"There is no probe with corrupted images of these runs. Make one with `{probe}`.")
    return severity_figure(frame, caveats(runs), method_looks(runs.runs))


def severity_figure(frame: pd.DataFrame, notes: Iterable[str] = (), looks: Mapping[str, Look] | None = None) -> Figure:
    """Draw scores on corrupted images; recomputed and original ones of one data set have panels of their own.

    Args:
        frame: Rows of one set of corruptions with the `COLUMNS` of `results/model/corruptions.py`.
        notes: Said below the figure besides what the lines are.
        looks: Look of each label; chosen for those of the frame if left out.
    """
    count, kinds = main_rows(frame)["corruption"].nunique(), list(frame["images"].unique())
    benchmark = BENCHMARKS[frame["corruptions"].iloc[0]]
    what = f"Mean over {count} corruptions of {benchmark}, {' or '.join(kinds)}; 0: the images without any."
    curves = by_severity(frame)
    if len(kinds) > 1:
        curves["comparison"] += ", " + curves["images"]
    return curves_figure(curves, "Severity of the corruptions", "levels", [what, *notes], looks)
