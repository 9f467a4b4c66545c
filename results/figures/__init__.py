"""One file for each figure, and what writes them all."""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from augbench.bench.files import atomic_write, make_folder
from augbench.results.figures.angle import angle_figure
from augbench.results.figures.learned import learned_figure, learned_numbers
from augbench.results.figures.overview import discovered, overview_figure
from augbench.results.figures.reliability import reliability_figure
from augbench.results.figures.searched import searched_figure, searched_numbers
from augbench.results.figures.style import figure_style
from augbench.results.frame import Runs

__all__ = [
    "angle_figure",
    "learned_figure",
    "named_by_law",
    "overview_figure",
    "reliability_figure",
    "searched_figure",
    "write_figures",
]

# No date and no version: the same numbers give the same file.
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def write_figures(runs: Runs, out: Path) -> list[Path]:
    """Write every figure for which there is something to draw, as PNG and PDF.

    Args:
        runs: What to draw.
        out: Folder, made if need be.

    Returns:
        The files.

    Raises:
        UserError: If no run is finished or the folder cannot be written to.
    """
    runs.finished()
    runs = named_by_law(runs)
    make_folder(out)
    figures: dict[str, Callable[[Runs], Figure]] = {"reliability": reliability_figure}
    if len(learned_numbers(runs)):
        figures["learned"] = learned_figure
    if len(searched_numbers(runs)):
        figures["searched"] = searched_figure
    if len(runs.probe):
        figures["angle"] = angle_figure
        if set(discovered(runs)["comparison"]) & set(runs.probe["comparison"]):
            figures["overview"] = overview_figure
    return [path for name, draw in sorted(figures.items()) for path in write_figure(draw(runs), out / name)]


def named_by_law(runs: Runs) -> Runs:
    """Call planted data sets by the name of their law, such as "planted: rotation ±180°", instead of its options."""
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


def write_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure in each format, atomically.

    Args:
        figure: The figure.
        stem: Path without its ending.

    Returns:
        The files.
    """
    paths = []
    for ending, metadata in _METADATA.items():
        paths.append(stem.with_suffix(f".{ending}"))
        with figure_style(), atomic_write(paths[-1]) as file:
            figure.savefig(file, format=ending, metadata=metadata)
    return paths
