"""One file for each figure, and what writes them all."""

import augbench.results.figures.backend  # noqa: F401 - before the first import of matplotlib

# isort: split

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from augbench.bench.common.errors import check_known
from augbench.bench.common.files import atomic_write, make_folder
from augbench.results.figures.angle import angle_figure
from augbench.results.figures.calibration import calibration_figure, has_calibration
from augbench.results.figures.corruptions import corruptions_figure
from augbench.results.figures.draws import accuracy_by_draws, draws_figure
from augbench.results.figures.learned import learned_figure, learned_figures, learned_numbers
from augbench.results.figures.overlap import overlap_figure
from augbench.results.figures.overview import discovered, overview_figure
from augbench.results.figures.parameters import parameters_figures, start_and_end
from augbench.results.figures.pareto import clocked_runs, pareto_figure
from augbench.results.figures.ranks import has_ranks, ranks_figure
from augbench.results.figures.reliability import most_draws, reliability_figure
from augbench.results.figures.searched import searched_figure, searched_numbers
from augbench.results.figures.style import figure_style
from augbench.results.figures.worth import worth_figure, worth_numbers
from augbench.results.model.corruptions import BENCHMARKS
from augbench.results.model.frame import Runs
from augbench.results.model.overlap import gains
from augbench.results.published import load_published

__all__ = [
    "angle_figure",
    "calibration_figure",
    "corruptions_figure",
    "draws_figure",
    "learned_figure",
    "learned_figures",
    "named_by_law",
    "overlap_figure",
    "overview_figure",
    "parameters_figures",
    "pareto_figure",
    "ranks_figure",
    "reliability_figure",
    "searched_figure",
    "worth_figure",
    "write_figures",
]

# No date and no version: the same numbers give the same file.
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
}
FORMATS = tuple(_METADATA)
_DIGITS = 6  # of places on a page, in fractions of its size


def write_figures(
    runs: Runs, out: Path, *, published_files: Sequence[Path] = (), formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write every figure that the runs have data for, as PNG, PDF and SVG.

    Figures of several pages continue in `NAME-2`, `NAME-3` and so on.

    Args:
        runs: What to draw.
        out: Folder, made if need be.
        published_files: CSV files with more published numbers for the figure `calibration`.
        formats: Endings of the files, of `FORMATS`.

    Returns:
        The files.

    Raises:
        UserError: If no run is finished, a format is unknown, a file of published numbers cannot be read or the
            folder cannot be written to.
    """
    check_known("format", formats, FORMATS)
    runs.finished()
    published = load_published(published_files)
    runs = named_by_law(runs)
    written: list[Path] = []
    for name, draw in sorted(_possible(runs, published).items()):
        drawn = draw(runs)
        for number, figure in enumerate([drawn] if isinstance(drawn, Figure) else drawn, 1):
            written += write_figure(figure, out / (name if number == 1 else f"{name}-{number}"), formats)
    return written


def _possible(runs: Runs, published: pd.DataFrame) -> dict[str, Callable[[Runs], Figure | list[Figure]]]:
    """Choose the figures that these runs have data for."""
    draws = most_draws(runs)
    probed = set(runs.probe["comparison"])
    figures: dict[str, tuple[bool, Callable[[Runs], Figure | list[Figure]]]] = {
        "angle": (len(probed) > 0, angle_figure),
        "calibration": (has_calibration(runs), lambda given: calibration_figure(given, published)),
        "draws": (len(accuracy_by_draws(runs)) > 0, draws_figure),
        "learned": (len(learned_numbers(runs)) > 0, learned_figures),
        "overlap": (len(gains(runs.corruptions, runs.overlap)) > 0, overlap_figure),
        "overview": (bool(set(discovered(runs)["comparison"]) & probed), overview_figure),
        "parameters": (len(start_and_end(runs)) > 0, parameters_figures),
        "pareto": (clocked_runs(runs)["label"].nunique() > 1, pareto_figure),
        "ranks": (has_ranks(runs), ranks_figure),
        "reliability": (True, reliability_figure),
        "reliability-draws": (draws > 0, lambda given: reliability_figure(given, draws)),
        "searched": (len(searched_numbers(runs)) > 0, searched_figure),
        "worth": (len(worth_numbers(runs)) > 0, worth_figure),
    }
    for name in runs.corruptions["corruptions"].unique():
        figures[str(name)] = (name in BENCHMARKS, partial(corruptions_figure, name=str(name)))
    return {name: draw for name, (possible, draw) in figures.items() if possible}


def named_by_law(runs: Runs) -> Runs:
    """Name planted data sets by their distribution, such as "planted: rotation ±180°", instead of its options."""
    planted = runs.runs.dropna(subset=["law"]).drop_duplicates("comparison")
    laws = planted[["comparison", "law_comparison", "law"]].itertuples(index=False)
    names = {comparison: f"{data}: {law}" for comparison, data, law in laws}
    if len(set(names.values())) < len(names):
        return runs
    frames: dict[str, Any] = {
        field.name: frame.assign(comparison=frame["comparison"].replace(names))
        for field in fields(runs)
        if isinstance(frame := getattr(runs, field.name), pd.DataFrame)
    }
    return replace(runs, **frames)


def write_figure(figure: Figure, stem: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write a figure in each format, atomically, to `stem` with the format as its ending; returns the files."""
    make_folder(stem.absolute().parent)
    paths = [stem.with_suffix(f".{ending}") for ending in formats]
    with figure_style():
        _place(figure)
        for path, ending in zip(paths, formats, strict=True):
            with atomic_write(path) as file:
                figure.savefig(file, format=ending, metadata=_METADATA[ending])
    return paths


def _place(figure: Figure) -> None:
    """Compute the layout once for all formats: it takes longest, and each format would get its own numbers.

    Numbers are rounded: the last digits of matplotlib's solver differ from one process to the next.
    """
    engine = figure.get_layout_engine()
    if engine is None:  # it was written before
        return
    engine.execute(figure)
    figure.set_layout_engine("none")
    for part in figure.subfigs:
        for inside in (part, *part.subfigs):
            inside.bbox_relative.set_points(inside.bbox_relative.get_points().round(_DIGITS))
    for axes in figure.axes:
        axes.set_position(Bbox(axes.get_position(original=True).get_points().round(_DIGITS)))
