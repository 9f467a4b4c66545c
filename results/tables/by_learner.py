"""Tables in the layout of the paper: learners are columns, and measures of each data set are rows."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from augbench.bench.experiment.labels import method_rank
from augbench.results.model.cells import accuracy_digits, asked_seeds, by_comparison, score_cells, scores_of
from augbench.results.model.costs import PLAIN_STEPS, plain_step_cells, plain_steps_definition
from augbench.results.model.definitions import (
    accuracy_definition,
    bold_definitions,
    bold_in_brief,
    calibration_definition,
)
from augbench.results.model.frame import Runs
from augbench.results.model.notes import run_notes
from augbench.results.model.resolution import resolution_definitions
from augbench.results.model.table import NOTHING, Cell, Column, Table, marked, with_draws
from augbench.results.tables.comparison import device_of, row_of
from augbench.results.tables.hours import HOURS_DEFINITION, hours_rows

ABLATIONS = ("augerino-pb", "scale-norm")
"""Each changes one of the two ideas of `scale`: the parametrisation or the regulariser."""

HOUSE_NUMBERS = ("svhn", "svhn-extra")
CALIBRATION = (
    ("ece", "ECE", "share"),
    ("ece_equal_mass", "ECE, equal mass", "share"),
    ("nll", "NLL", "nats"),
    ("brier", "Brier", "squared distance"),
)

Measures = Iterator[tuple[Column, Mapping[str, Cell]]]
"""Rows of one data set: the measure of each, and its cells by the label of the method."""


def accuracy_tables(runs: Runs) -> list[Table]:
    """Compare accuracies by test-time draws, hours, hours beyond those of `none`, plain steps (tab:CIFARAccuracy)."""
    finished = runs.finished()
    definitions = (
        _accuracy_definition(runs, finished),
        HOURS_DEFINITION,
        *plain_steps_definition(finished),
        *resolution_definitions(runs, finished),
    )

    def measures(here: Runs, group: pd.DataFrame) -> Measures:
        yield from _accuracies(here, group)
        yield from hours_rows(group, asked_seeds(group))
        yield PLAIN_STEPS, plain_step_cells(group)

    return tables_by_learner("accuracy", "Accuracy and cost", runs, finished, measures, definitions)


def detailed_tables(runs: Runs) -> list[Table]:
    """Show the accuracies with the standard deviation over repeated test-time draws (tab:CIFARAccuracyDetailed)."""
    drawn = runs.scores[(runs.scores["draws"] > 0) & runs.scores["sd_repeats"].notna()]
    finished = runs.finished()
    chosen = finished[finished["comparison"].isin(drawn["comparison"])]
    definitions = (
        _accuracy_definition(runs, chosen),
        "sd over repeats: standard deviation of the accuracy of one network over repeated test-time draws (n − 1 in "
        "the divisor), root mean square over the seeds. It says how much the draws matter, not how much another "
        "training run would differ; that is what ± says.",
    )
    title = "Accuracy with test-time draws, and how much the draws matter"
    return tables_by_learner("accuracy-detailed", title, runs, chosen, _detailed, definitions)


def ablation_tables(runs: Runs) -> list[Table]:
    """Take `scale` apart (tab:Ablation): another parametrisation, another regulariser, and neither."""
    finished = runs.finished()
    changed = finished[finished["method"].isin(ABLATIONS)]
    here = finished["comparison"].isin(changed["comparison"]) & finished["method"].isin([*ABLATIONS, "scale"])
    chosen = finished[here]
    definitions = (
        "augerino-pb: Augerino's parametrisation, without flips, with SCALE's PAC-Bayes regulariser. scale-norm: "
        "SCALE's parametrisation with Augerino's regulariser. scale: both its own.",
        _accuracy_definition(runs, chosen),
    )
    return tables_by_learner(
        "ablation", "Ablation: parametrisation and regulariser", runs, chosen, _accuracies, definitions
    )


def svhn_tables(runs: Runs) -> list[Table]:
    """Compare accuracies on house numbers (tab:SVHNAcc)."""
    finished = runs.finished()
    chosen = finished[finished["dataset"].isin(HOUSE_NUMBERS)]
    definitions = (
        "svhn: trained on the split train, 73,257 difficult images. svhn-extra: on train and extra together.",
        _accuracy_definition(runs, chosen, most=0),
    )

    def measures(here: Runs, group: pd.DataFrame) -> Measures:
        return _accuracies(here, group, most=0)

    return tables_by_learner("svhn", "House numbers", runs, chosen, measures, definitions)


def calibration_tables(runs: Runs) -> list[Table]:
    """Compare how well confidence agrees with accuracy, by number of test-time draws."""
    finished = runs.finished()

    def measures(here: Runs, group: pd.DataFrame) -> Measures:
        for metric, heading, unit in CALIBRATION:
            for draws in _draws(here, group):
                column = Column(f"{heading}{with_draws(draws)}", metric, draws, unit)
                yield column, score_cells(here, group, metric, draws)

    definitions = (
        calibration_definition(finished, equal_mass=True),
        _accuracy_definition(runs, finished).partition(". ")[2],
    )
    return tables_by_learner("calibration", "Calibration", runs, finished, measures, tuple(filter(None, definitions)))


def _draws(runs: Runs, group: pd.DataFrame, most: float = math.inf) -> list[int]:
    """Numbers of test-time draws of some runs up to `most`, 0 first."""
    scores = runs.scores[runs.scores["folder"].isin(group["folder"])]
    return sorted({0, *(int(draws) for draws in scores["draws"] if draws <= most)})


def _accuracy_definition(runs: Runs, chosen: pd.DataFrame, most: float = math.inf) -> str:
    return accuracy_definition(chosen, _draws(runs, chosen, most)[1:]) if len(chosen) else ""


def _accuracies(runs: Runs, group: pd.DataFrame, most: float = math.inf) -> Measures:
    for draws in _draws(runs, group, most):
        yield _accuracy(draws), score_cells(runs, group, "accuracy", draws)


def _accuracy(draws: int) -> Column:
    return Column(f"Accuracy{with_draws(draws)} (%)", "accuracy", draws, "share")


def _detailed(runs: Runs, group: pd.DataFrame) -> Measures:
    for draws in _draws(runs, group)[1:]:
        yield _accuracy(draws), score_cells(runs, group, "accuracy", draws, finer=1)
        column = Column(f"sd over repeats{with_draws(draws)} (points)", "accuracy_sd_repeats", draws, "share")
        yield column, _deviations(runs, group, draws)


def _deviations(runs: Runs, group: pd.DataFrame, draws: int) -> dict[str, Cell]:
    values = scores_of(runs, group, "accuracy", draws, "sd_repeats").dropna()
    digits = accuracy_digits(group) + 1
    cells = {}
    for label, of_label in values.groupby("label", sort=False):
        pooled = float((of_label["value"].astype(float) ** 2).mean() ** 0.5)
        cell = Cell(f"{100 * pooled:.{digits}f}", pooled, None, len(of_label))
        cells[str(label)] = cell.of(asked_seeds(group))
    return cells


def tables_by_learner(
    name: str,
    title: str,
    runs: Runs,
    chosen: pd.DataFrame,
    measures: Callable[[Runs, pd.DataFrame], Measures],
    definitions: Sequence[str],
    *,
    can_be_bold: bool = True,
) -> list[Table]:
    """Build a table whose columns are the methods of the chosen runs; none without runs.

    Args:
        name: Name of its files.
        title: One line.
        runs: All runs.
        chosen: Rows of `runs.runs`.
        measures: Makes the rows of one data set.
        definitions: What the measures mean.
        can_be_bold: Whether to say what bold means, or why nothing is bold.
    """
    if chosen.empty:
        return []
    methods = chosen[["method", "label"]].drop_duplicates().itertuples(index=False, name=None)
    in_order = sorted(methods, key=lambda pair: (method_rank(pair[0]), pair[1]))
    measured = []
    for here, group in by_comparison(runs, chosen):
        devices = {str(label): device_of(inside) for label, inside in group.groupby("label")}
        for measure, cells in measures(here, group):
            placed = {  # the row cannot name the device of each cell
                label: replace(cell, device=cell.device or devices[label])
                for label, cell in cells.items()
                if cell.count
            }
            measured.append((group, measure, placed))
    present = {label for _, _, cells in measured for label in cells}
    labels = [label for label in dict.fromkeys(label for _, label in in_order) if label in present]
    rows = [
        row_of(group, measure.heading, [cells.get(label, Cell(NOTHING)) for label in labels], measure)
        for group, measure, cells in measured
        if cells
    ]
    columns = tuple(Column(label, "", None, "") for label in labels)
    rated = list(marked(rows)) if can_be_bold else []
    said, brief = (*definitions, *bold_definitions(rated)), bold_in_brief(rated)
    return [Table(name, title, run_notes(runs, chosen), said, columns, tuple(rows), "Measure", bold=brief)]
