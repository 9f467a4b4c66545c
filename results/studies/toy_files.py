"""Numbers and files of the toy problem (`results/studies/toy.py`)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from augbench.results.figures import write_figure
from augbench.results.model.csv_text import write_csv
from augbench.results.model.table import NOTHING, mean_cell
from augbench.results.studies.toy import ToyResult, ToyRun, Way
from augbench.results.studies.toy_figure import toy_figure

WAY_NAMES: Mapping[Way, str] = MappingProxyType(
    {Way.RM: "RM (no augmentation)", Way.FIXED: "rotations ±180°", Way.TRM: "TRM (SCALE)"}
)
"""What the ways of training are called in tables."""


def toy_frame(results: Sequence[ToyResult]) -> pd.DataFrame:
    """Make a row for each training: way, seed, accuracy in [0, 1], π, α and the harmless range in degrees."""
    return pd.DataFrame([asdict(result) | {"way": str(result.way)} for result in results]).drop(columns="trajectory")


def trajectory_frame(results: Sequence[ToyResult]) -> pd.DataFrame:
    """Make a row for each seed and recorded step of TRM: seed, step, π, α in degrees."""
    rows = [(result.seed, *row) for result in results for row in result.trajectory]
    return pd.DataFrame(rows, columns=["seed", "step", "probability", "range_degrees"])


def toy_summary(results: Sequence[ToyResult]) -> list[tuple[str, str, str, str]]:
    """Summarise over seeds, a row for each way: its name, test accuracy (%), π and α (°), as mean ± sample sd."""
    frame = toy_frame(results)
    rows = []
    for way in Way:
        of_way = frame[frame["way"] == way]
        accuracy = mean_cell(100 * of_way["test_accuracy"], 1, 1).text
        learned = (NOTHING, NOTHING)
        if way is not Way.RM:
            learned = (mean_cell(of_way["probability"], 1, 2).text, mean_cell(of_way["range_degrees"], 1, 1).text)
        rows.append((WAY_NAMES[way], accuracy, *learned))
    return rows


def harmless_summary(results: Sequence[ToyResult]) -> str:
    """Mean ± sample sd over seeds of the widest harmless range, in degrees."""
    return mean_cell(toy_frame(results).drop_duplicates("seed")["harmless_degrees"], 1, 1).text


def write_toy(results: Sequence[ToyResult], drawn: Mapping[Way, ToyRun], out: Path) -> list[Path]:
    """Write `toy.csv`, `toy_trajectory.csv` and the figure as PNG and PDF.

    Args:
        results: Of every way and seed.
        drawn: The trainings that the figure shows, one of each way.
        out: Folder, made if need be.

    Returns:
        The files.

    Raises:
        UserError: If the folder cannot be written to.
    """
    tables = {out / "toy.csv": toy_frame(results), out / "toy_trajectory.csv": trajectory_frame(results)}
    for path, frame in tables.items():
        write_csv(frame, path)
    return [*tables, *write_figure(toy_figure(drawn), out / "toy")]
