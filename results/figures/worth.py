"""What each learner gains over no augmentation, what it costs, and how it is calibrated: a row for each learner."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from augbench.bench.common.errors import UserError
from augbench.bench.common.wording import few_names
from augbench.results.figures.notes import caveats, seeds_text
from augbench.results.figures.panels import padded
from augbench.results.figures.style import TWO_COLUMNS, Look, figure_style, method_looks, with_note
from augbench.results.model.cells import by_comparison, group_letters, is_single_epoch
from augbench.results.model.corruptions import BENCHMARKS, main_rows
from augbench.results.model.differences import PREFERRED_REFERENCE, Difference, differences_of
from augbench.results.model.frame import Runs

_ROW, _AROUND = 0.15, 0.8
"""Heights in inches: of a row, and of the title and the axis of a data set."""

_PANELS = (1.5, 1, 1)  # widths of gain, cost and calibration

_MOST_LETTERS = 5  # more say nothing at a glance; the table of comparisons has all of them

_WIDE = 3  # times the smallest cost, from which on the axis is logarithmic


def worth_numbers(runs: Runs) -> pd.DataFrame:
    """Put what each learner gains beside what it costs, on each data set with `none` and more than one epoch.

    Returns:
        A row for each comparison and label, the largest gain of a comparison first: `comparison`, `label`; `gain` over
        `none` in accuracy without test-time draws, in points, over common seeds, with the ends `low` and `high` of its
        95 % interval over seeds and images (NaN without one); `group`, letters: two labels without a common one differ
        significantly; `cost`, the median over seeds of thousands of plain steps in search and training.
    """
    rows: list[dict[str, Any]] = []
    for here, group in by_comparison(runs, runs.finished()):
        reference = _reference(group)
        if reference is None:
            continue
        letters = group_letters(here, group)
        costs = group.astype({"plain_steps": float}).groupby("label")["plain_steps"].median() / 1000
        gains = {one.label: one for one in differences_of(here, group, None) if one.draws == 0}
        of_comparison = [
            {
                "comparison": str(group["comparison"].iloc[0]),
                "label": label,
                **_points(gains.get(label)),
                "group": letters.get(label, ""),
                "cost": float(costs[label]),
            }
            for label in map(str, dict.fromkeys(group["label"]))
            if label == reference or (label in gains and gains[label].seeds)
        ]
        rows += sorted(of_comparison, key=lambda row: -row["gain"])
    return pd.DataFrame(rows)


def _reference(group: pd.DataFrame) -> str | None:
    """Label of `none` where there is something to compare with it, and all runs have counted plain steps."""
    plain = group.loc[group["method"] == PREFERRED_REFERENCE, "label"]
    counted = group["plain_steps"].notna().all() and not is_single_epoch(group) and group["label"].nunique() > 1
    return str(plain.iloc[0]) if len(plain) and counted else None


def _points(difference: Difference | None) -> dict[str, float]:
    """Estimate and ends of an interval in points; of `none` itself 0, without an interval."""
    if difference is None:
        return {"gain": 0.0, "low": np.nan, "high": np.nan}
    ends = (difference.interval.low, difference.interval.high) if difference.interval else (None, None)
    values = zip(("gain", "low", "high"), (difference.estimate, *ends), strict=True)
    return {name: np.nan if value is None else 100 * value for name, value in values}


def calibration_errors(runs: Runs, folders: Sequence[str]) -> tuple[str, "pd.Series[float]"]:
    """Look up calibration errors of runs: on corrupted test images if all have been tested on them, else on clean ones.

    Args:
        runs: All runs.
        folders: The runs.

    Returns:
        What it is, for an axis, and the error of each run by its folder, in [0, 1], over corruptions and severities
        their mean.
    """
    for kind, source in runs.corruptions[["corruptions", "images"]].drop_duplicates().itertuples(index=False):
        of_kind = runs.corruptions[(runs.corruptions["corruptions"] == kind) & (runs.corruptions["images"] == source)]
        errors = main_rows(of_kind).astype({"ece": float}).groupby("folder")["ece"].mean()
        if kind in BENCHMARKS and set(folders) <= set(errors.index):
            return f"ECE on corrupted images ({source})", errors[list(folders)]
    clean = runs.scores[(runs.scores["metric"] == "ece") & (runs.scores["draws"] == 0)]
    return "ECE", clean.set_index("folder")["value"].astype(float).reindex(list(folders))


def worth_figure(runs: Runs) -> Figure:
    """Draw for each learner the gain in accuracy over no augmentation, its cost and its calibration error.

    Raises:
        UserError: If no comparison has a finished run of `none`, another learner and plain steps of all runs.
    """
    numbers = worth_numbers(runs)
    if numbers.empty:
        raise UserError(
            "Gains and costs take a data set with finished runs of `none` and of another method, more than one epoch, "
            "and plain steps, which runs of the first versions have not counted."
        )
    blocks = [(str(name), rows) for name, rows in numbers.groupby("comparison", sort=False)]
    heights = [_ROW * len(rows) + _AROUND for _, rows in blocks]
    looks = method_looks(runs.runs)
    finished = runs.finished()
    shown = finished[finished["comparison"].isin(numbers["comparison"])]
    with figure_style():
        figure, body = with_note(TWO_COLUMNS, sum(heights), *_notes(runs, shown))
        grid = body.subplots(len(blocks), 3, squeeze=False, height_ratios=heights, width_ratios=_PANELS, sharey="row")
        for panels, (comparison, rows) in zip(grid, blocks, strict=True):
            inside = shown[shown["comparison"] == comparison]
            _draw_gains(panels[0], rows, looks)
            _draw_runs(panels[1], rows, inside.assign(x=inside["plain_steps"].astype(float) / 1000), looks)
            _set_costs(panels[1], inside["plain_steps"].astype(float) / 1000)
            heading, errors = calibration_errors(runs, list(inside["folder"]))
            _draw_runs(panels[2], rows, inside.assign(x=errors.to_numpy()), looks)
            _name(panels, comparison, heading)
    return figure


def _draw_gains(axes: Axes, rows: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    axes.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    numbers = rows[["gain", "low", "high"]].to_numpy(float)
    for place, (label, group, ends) in enumerate(zip(rows["label"], rows["group"], numbers, strict=True)):
        look = looks[label]
        axes.plot(ends[1:], [place, place], color=look.colour, linewidth=1.1)
        axes.plot(ends[:1], [place], look.marker, color=look.colour, markerfacecolor=look.inside, markersize=4.5)
        letters = group if len(group) <= _MOST_LETTERS else f"{group[: _MOST_LETTERS - 1]}…"
        axes.annotate(letters, (1.01, place), xycoords=("axes fraction", "data"), fontsize=6, va="center", color="0.35")
    axes.set_yticks(range(len(rows)), list(rows["label"]))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(padded([0, *numbers[np.isfinite(numbers)]]))


def _draw_runs(axes: Axes, rows: pd.DataFrame, runs: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Draw the column `x` of each run as a small marker, and the median of each label as a large one."""
    for place, label in enumerate(rows["label"]):
        values, look = runs.loc[runs["label"] == label, "x"], looks[label]
        axes.plot(
            values, [place] * len(values), look.marker, color=look.colour, markersize=2.5, alpha=0.5, markeredgewidth=0
        )
        axes.plot(
            [values.median()], [place], look.marker, color=look.colour, markerfacecolor=look.inside, markersize=4.5
        )


def _set_costs(axes: Axes, costs: "pd.Series[float]") -> None:
    if costs.min() > 0 and costs.max() > _WIDE * costs.min():
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))


def _name(panels: Sequence[Axes], comparison: str, calibration: str) -> None:
    """Put the data set above its panels, and what they show below them."""
    panels[0].set_title(comparison, loc="left")
    headings = ("Gain over none (points)", "Cost (thousand plain steps)", calibration)
    for axes, heading in zip(panels, headings, strict=True):
        axes.set_xlabel(heading)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")


def _notes(runs: Runs, shown: pd.DataFrame) -> Iterator[str]:
    yield (
        f"Gain: mean difference in accuracy, without test-time draws, from none with the same seeds, "
        f"{seeds_text(shown)}; lines: 95 % interval over seeds and test images. Letters: two learners without a common "
        "letter differ significantly; sharing one shows nothing."
    )
    yield (
        "Cost and calibration error: medians of seeds, and single seeds. A plain step is a training step of the "
        "network alone; search is counted, tuning and evaluation are not."
    )
    left_out = [name for name in dict.fromkeys(runs.finished()["comparison"]) if name not in set(shown["comparison"])]
    if left_out:
        yield f"Not drawn, without none, plain steps, or more than one epoch: {few_names(left_out)}."
    yield from caveats(runs)
