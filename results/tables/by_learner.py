"""Tables in the layout of the paper: learners are columns, and what was measured on a data set are rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from augbench.bench.experiment.labels import method_rank
from augbench.results.model.cells import accuracy_digits, asked_seeds, by_comparison, score_cells, scores_of
from augbench.results.model.definitions import (
    accuracy_definition,
    bold_definitions,
    bold_in_brief,
    calibration_definition,
)
from augbench.results.model.frame import Runs
from augbench.results.model.notes import run_notes
from augbench.results.model.table import NOTHING, Cell, Column, Table, marked
from augbench.results.tables.comparison import device_of, row_of, with_draws
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
"""Rows of one data set: what a row shows, and its cells by the label of the method."""


def accuracy_tables(runs: Runs) -> list[Table]:
    """Compare accuracies by number of test-time draws, hours, and hours beyond those of `none` (tab:CIFARAccuracy)."""
    finished = runs.finished()
    definitions = (
        accuracy_definition(finished, _draws(runs, finished)[1:]),
        HOURS_DEFINITION,
    )

    def measures(here: Runs, group: pd.DataFrame) -> Measures:
        yield from _accuracies(here, group)
        yield from hours_rows(group, asked_seeds(group))

    return [_table("accuracy", "Accuracy and cost", runs, finished, measures, definitions)]


def detailed_tables(runs: Runs) -> list[Table]:
    """Show the accuracies with the standard deviation over repeated test-time draws (tab:CIFARAccuracyDetailed)."""
    drawn = runs.scores[(runs.scores["draws"] > 0) & runs.scores["sd_repeats"].notna()]
    finished = runs.finished()
    chosen = finished[finished["comparison"].isin(drawn["comparison"])]
    if chosen.empty:
        return []
    definitions = (
        accuracy_definition(chosen, _draws(runs, chosen)[1:]),
        "sd over repeats: standard deviation of the accuracy of one network over repeated test-time draws (n − 1 in "
        "the divisor), root mean square over the seeds. It says how much the draws matter, not how much another "
        "training run would differ; that is what ± says.",
    )
    title = "Accuracy with test-time draws, and how much the draws matter"
    return [_table("accuracy-detailed", title, runs, chosen, _detailed, definitions)]


def ablation_tables(runs: Runs) -> list[Table]:
    """Take `scale` apart (tab:Ablation): another parametrisation, another regulariser, and neither."""
    finished = runs.finished()
    changed = finished[finished["method"].isin(ABLATIONS)]
    here = finished["comparison"].isin(changed["comparison"]) & finished["method"].isin([*ABLATIONS, "scale"])
    chosen = finished[here]
    if chosen.empty:
        return []
    definitions = (
        "augerino-pb: Augerino's parametrisation, without flips, with SCALE's PAC-Bayes regulariser. scale-norm: "
        "SCALE's parametrisation with Augerino's regulariser. scale: both its own.",
        accuracy_definition(chosen, _draws(runs, chosen)[1:]),
    )
    title = "Ablation: parametrisation and regulariser"
    return [_table("ablation", title, runs, chosen, _accuracies, definitions)]


def svhn_tables(runs: Runs) -> list[Table]:
    """Compare accuracies on house numbers (tab:SVHNAcc)."""
    finished = runs.finished()
    chosen = finished[finished["dataset"].isin(HOUSE_NUMBERS)]
    if chosen.empty:
        return []
    definitions = (
        "svhn: trained on the split train, 73,257 difficult images. svhn-extra: on train and extra together.",
        accuracy_definition(chosen, []),
    )
    return [
        _table("svhn", "House numbers", runs, chosen, lambda here, group: _accuracies(here, group, most=0), definitions)
    ]


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
        accuracy_definition(finished, _draws(runs, finished)[1:]).partition(". ")[2],
    )
    return [_table("calibration", "Calibration", runs, finished, measures, tuple(filter(None, definitions)))]


def _draws(runs: Runs, group: pd.DataFrame) -> list[int]:
    """Numbers of test-time draws of some runs, 0 first."""
    scores = runs.scores[runs.scores["folder"].isin(group["folder"])]
    return sorted({0, *(int(draws) for draws in scores["draws"])})


def _accuracies(runs: Runs, group: pd.DataFrame, most: int | None = None) -> Measures:
    for draws in _draws(runs, group):
        if most is None or draws <= most:
            yield _accuracy(draws), score_cells(runs, group, "accuracy", draws)


def _accuracy(draws: int) -> Column:
    return Column(f"Accuracy{with_draws(draws)} (%)", "accuracy", draws, "share")


def _detailed(runs: Runs, group: pd.DataFrame) -> Measures:
    for draws in _draws(runs, group):
        if draws:
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


def _table(
    name: str,
    title: str,
    runs: Runs,
    chosen: pd.DataFrame,
    measures: Callable[[Runs, pd.DataFrame], Measures],
    definitions: Sequence[str],
) -> Table:
    """Build a table whose columns are the methods of the chosen runs."""
    methods = chosen[["method", "label"]].drop_duplicates().itertuples(index=False, name=None)
    in_order = sorted(methods, key=lambda pair: (method_rank(pair[0]), pair[1]))
    measured = [
        (group, measure, _placed(cells, devices))
        for here, group in by_comparison(runs, chosen)
        for devices in [_devices(group)]
        for measure, cells in measures(here, group)
    ]
    present = {label for _, _, cells in measured for label in cells}
    labels = [label for label in dict.fromkeys(label for _, label in in_order) if label in present]
    rows = [
        row_of(group, measure.heading, [cells.get(label, Cell(NOTHING)) for label in labels], measure)
        for group, measure, cells in measured
        if cells
    ]
    columns = tuple(Column(label, "", None, "") for label in labels)
    said = (*definitions, *bold_definitions(marked(rows)))
    brief = bold_in_brief(marked(rows))
    return Table(name, title, run_notes(runs, chosen), said, columns, tuple(rows), "Measure", bold=brief)


def _devices(group: pd.DataFrame) -> dict[str, str]:
    return {str(label): device_of(inside) for label, inside in group.groupby("label")}


def _placed(cells: Mapping[str, Cell], devices: Mapping[str, str]) -> dict[str, Cell]:
    """Name the device of each cell, which the row cannot do, and leave empty ones out."""
    return {label: replace(cell, device=cell.device or devices[label]) for label, cell in cells.items() if cell.count}
