"""How well each learner recovered planted symmetries: a table across distributions, and one by coordinate."""

import re
from dataclasses import replace

import pandas as pd

from augbench.bench.augmentation.transform_distribution import COORDINATES
from augbench.results.model.cells import accuracy_digits, asked_seeds
from augbench.results.model.frame import Runs
from augbench.results.model.notes import run_notes
from augbench.results.model.table import NOTHING, Cell, Column, Row, Table, mean_cell
from augbench.results.tables.comparison import (
    OF_THE_MAXIMUM,
    RECOVERY_COLUMNS,
    RECOVERY_DEFINITION,
    RECOVERY_DIGITS,
    row_of,
)

DISTANCE, PLANTED = "recovery_distance/", "planted/"
ACCURACY = Column("Accuracy (%)", "accuracy", 0, "share")
LAWS = (
    "Laws: a block changes every image, by an amount uniform in the stated range (scales: log factors); half-turn and "
    "flip change half of the images. Other shares are stated. none: nothing was planted."
)


def has_planted(runs: Runs) -> bool:
    """Whether any run is finished on data with a planted distribution."""
    return bool(runs.runs["law"].notna().any())


def recovery_table(runs: Runs) -> Table:
    """Compare learners across planted distributions: a row for each learner, a column for each distribution.

    A cell has the accuracy without test-time draws and the two recovery errors, over the planted coordinates and over
    all, each as mean ± standard deviation over seeds.
    """
    planted = _planted(runs)
    laws = sorted(set(planted["law"]), key=_natural_order)
    columns = tuple(Column(law, "accuracy and recovery errors", None, "") for law in laws)
    rows = []
    for _, group in planted.groupby("comparison", sort=False):
        for _, inside in group.groupby("label", sort=False):
            by_law = {law: runs_of_law for law, runs_of_law in inside.groupby("law")}
            cells = tuple(_summary_cell(by_law[law]) if law in by_law else Cell(NOTHING) for law in laws)
            rows.append(_row(inside, cells, str(inside["comparison"].iloc[0])))
    definitions = (
        "Cells: accuracy in % after the last epoch, without test-time draws; recovery error, planted / all.",
        RECOVERY_DEFINITION,
        f"{NOTHING}: nothing was planted, the learner's transforms are not maps of the plane, or no run is finished.",
        LAWS,
    )
    return Table("recovery", "Planted symmetries", run_notes(runs, planted), definitions, columns, tuple(rows))


def coordinate_table(runs: Runs) -> Table:
    """Compare learners on each planted distribution by coordinate; those that it changes are bold."""
    planted = _planted(runs)
    coordinates = tuple(Column(name, f"{DISTANCE}{name}", None, OF_THE_MAXIMUM) for name in COORDINATES)
    columns = (ACCURACY, *(replace(column, rank=0) for column in RECOVERY_COLUMNS), *coordinates)
    rows = []
    for comparison, group in planted.groupby("comparison", sort=False):
        for law in sorted(set(group["law"]), key=_natural_order):
            of_law = group[group["law"] == law]
            for _, inside in of_law.groupby("label", sort=False):
                cells = tuple(_detail_cell(inside, column) for column in columns)
                rows.append(_row(inside, cells, f"{comparison}: {law}"))
    definitions = (RECOVERY_DEFINITION, "Bold: the coordinates that the planted distribution changes.", LAWS)
    title = "Planted symmetries by coordinate"
    notes, bold = run_notes(runs, planted), "Bold: what was planted."
    return Table("recovery-by-coordinate", title, notes, definitions, columns, tuple(rows), bold=bold)


def _planted(runs: Runs) -> pd.DataFrame:
    """Finished runs on planted data, named and grouped across distributions.

    Returns:
        The columns of `runs.runs`, `accuracy`, and for each coordinate `recovery_distance/<coordinate>` (NaN if
        unknown) and `planted/<coordinate>`, whether the distribution changes it.
    """
    finished = runs.finished()
    planted = finished[finished["law"].notna()]
    distances, changed = (
        runs.recovery.pivot(index="folder", columns="coordinate", values=values).reindex(columns=COORDINATES)
        for values in ("distance", "planted")
    )
    scores = runs.scores
    accuracies = scores[(scores["metric"] == "accuracy") & (scores["draws"] == 0)].set_index("folder")["value"]
    named = planted.assign(comparison=planted["law_comparison"], label=planted["law_label"]).set_index("folder")
    return named.join(
        [
            accuracies.rename("accuracy"),
            distances.astype(float).add_prefix(DISTANCE),
            changed.eq(True).add_prefix(PLANTED),
        ]
    ).reset_index()


def _natural_order(law: str) -> tuple[bool, list[str | float]]:
    """Order laws: none first, then by name and, within a name, by number."""
    parts = re.split(r"(\d+(?:\.\d+)?)", law)
    return law != "none", [float(part) if index % 2 else part for index, part in enumerate(parts)]


def _row(inside: pd.DataFrame, cells: tuple[Cell, ...], comparison: str) -> Row:
    row = replace(row_of(inside, str(inside["label"].iloc[0]), cells), comparison=comparison)
    if row.seeds is not None:
        return row
    # Laws have different numbers of seeds: no n holds for the whole row.
    named = (
        replace(cell, text=f"{cell.text} (n = {cell.count})") if cell.count and cell.count == cell.asked else cell
        for cell in cells
    )
    return replace(row, cells=tuple(named))


def _mean(inside: pd.DataFrame, metric: str) -> Cell:
    factor, digits = (100, accuracy_digits(inside)) if metric == ACCURACY.metric else (1, RECOVERY_DIGITS)
    return mean_cell(inside[metric].dropna().astype(float), factor, digits)


def _summary_cell(inside: pd.DataFrame) -> Cell:
    accuracy = _mean(inside, ACCURACY.metric)
    errors = " / ".join(_mean(inside, column.metric).text for column in RECOVERY_COLUMNS)
    return Cell(f"{accuracy.text} %; {errors}", count=accuracy.count).of(asked_seeds(inside))


def _detail_cell(inside: pd.DataFrame, column: Column) -> Cell:
    changed = f"{PLANTED}{column.heading}"
    best = changed in inside and bool(inside[changed].eq(True).any())
    return replace(_mean(inside, column.metric), best=best).of(asked_seeds(inside))
