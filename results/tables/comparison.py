"""The comparison table: what every method reached on every data set, and what it cost."""

from collections.abc import Mapping, Sequence

import pandas as pd

from augbench.results.model.cells import asked_seeds, by_comparison, group_letters, score_cells
from augbench.results.model.costs import (
    PLAIN_STEPS,
    TUNING_COLUMNS,
    passes_cell,
    plain_step_cells,
    plain_steps_definition,
    time_cell,
    tuning_cell,
    tuning_definitions,
)
from augbench.results.model.definitions import (
    accuracy_definition,
    bold_definitions,
    bold_in_brief,
    calibration_definition,
)
from augbench.results.model.frame import Runs
from augbench.results.model.notes import run_notes
from augbench.results.model.resolution import resolution_definitions
from augbench.results.model.table import (
    NOTHING,
    SEVERAL_DEVICES,
    Cell,
    Column,
    Row,
    Table,
    marked,
    mean_cell,
    with_draws,
)

OF_THE_MAXIMUM = "share of the maximum"
RECOVERY_DIGITS = 3  # chance alone moves a distance by about 0.002
RECOVERY_COLUMNS = (
    Column("Recovery error, planted", "recovery_error_planted", None, OF_THE_MAXIMUM, rank=3),
    Column("Recovery error, all", "recovery_error", None, OF_THE_MAXIMUM),
)
RECOVERY_DEFINITION = (
    "Recovery error: distance of the learned transforms from the planted ones, 0 is exact. In each coordinate (turn, "
    "x- and y-scale, x-shear, flip, x- and y-shift) it is the 1-Wasserstein distance of the two distributions as a "
    "fraction of the coordinate's maximum. Planted: mean over the coordinates that the planted distribution changes. "
    "A learner that exceeds the planted range can be farther off than one that does nothing. All: mean over all "
    "seven, which includes symmetries that the images had before. Chance alone gives about 0.002."
)
GROUP = Column("Group", "accuracy_group", None, "")
GROUP_DEFINITION = (
    "Group: two methods that share no letter differ significantly in accuracy without test-time draws, by the same "
    "tests as bold. Sharing one shows nothing: few seeds leave large groups."
)


def comparison_table(runs: Runs) -> Table:
    """Compare the finished runs: a row for each method on each data set, averaged over seeds.

    Raises:
        UserError: If no run is finished.
    """
    finished = runs.finished()
    parts = by_comparison(runs, finished)
    has_groups = any(group_letters(here, group) for here, group in parts)
    columns = _columns(sorted(int(draws) for draws in runs.scores["draws"].unique()), finished, has_groups=has_groups)
    rows: list[Row] = []
    for here, group in parts:
        scores = {
            column: score_cells(here, group, column.metric, column.draws)
            for column in columns
            if column.draws is not None
        }
        scores[PLAIN_STEPS] = plain_step_cells(group)
        scores[GROUP] = {label: Cell(text) for label, text in group_letters(here, group).items()}
        rows += [_row(group, inside, columns, scores) for _, inside in group.groupby("label", sort=False)]
    return Table(
        "comparison",
        "Comparison of augmentation learners",
        run_notes(runs, finished),
        (*_definitions(finished, columns), *bold_definitions(marked(rows)), *resolution_definitions(runs, finished)),
        columns,
        tuple(rows),
        bold=bold_in_brief(marked(rows)),
    )


def _columns(draws: Sequence[int], finished: pd.DataFrame, *, has_groups: bool) -> tuple[Column, ...]:
    ranks = {draws[-1]: 2, 0: 1} if draws else {}
    columns = [
        *(Column(f"Accuracy{with_draws(n)} (%)", "accuracy", n, "share", ranks.get(n, 0)) for n in draws),
        *([GROUP] if has_groups else []),
        Column("NLL", "nll", 0, "nats"),
        Column("Brier", "brier", 0, "squared distance"),
        Column("ECE", "ece", 0, "share", rank=6),
    ]
    if draws and draws[-1] > 0:
        columns.append(Column(f"ECE{with_draws(draws[-1])}", "ece", draws[-1], "share"))
    columns += [column for column in RECOVERY_COLUMNS if finished[column.metric].notna().any()]
    if (finished["image_passes_search"] > 0).any():
        columns.append(Column("Search (s)", "search_seconds", None, "seconds"))
        columns.append(Column("Search passes", "search_image_passes", None, "images"))
    columns.append(Column("Training (s)", "training_seconds", None, "seconds", rank=4))
    if (finished["seconds_compilation"] > 0).any():
        columns.append(Column("Compilation (s)", "compilation_seconds", None, "seconds"))
    columns.append(Column("Evaluation (s)", "evaluation_seconds", None, "seconds"))
    columns.append(Column("Time / none", "time_ratio", None, "ratio", rank=5))
    columns += [PLAIN_STEPS] if finished["plain_steps"].notna().any() else []
    columns += TUNING_COLUMNS if finished["tuning_trials"].notna().any() else []
    columns.append(Column("Image passes", "training_image_passes", None, "images", rank=7))
    return tuple(columns)


def _row(
    group: pd.DataFrame,
    inside: pd.DataFrame,
    columns: Sequence[Column],
    scores: Mapping[Column, Mapping[str, Cell]],
) -> Row:
    """Average the runs of one method, `inside`, among those of the same data set, `group`."""
    label, asked = str(inside["label"].iloc[0]), asked_seeds(group)
    cells = [
        scores[column].get(label, Cell(NOTHING)) if column in scores else _other_cell(group, inside, column).of(asked)
        for column in columns
    ]
    return row_of(inside, label, cells)


def row_of(inside: pd.DataFrame, label: str, cells: Sequence[Cell], measure: Column | None = None) -> Row:
    """Make a row of a table from its runs, which share all but method, seed and device."""
    first = inside.iloc[0]
    return Row(
        comparison=str(first["comparison"]),
        dataset=str(first["dataset_label"]),
        network=str(first["network"]),
        budget=str(first["budget"]),
        protocol=str(first["protocol"]),
        label=label,
        device=device_of(inside),
        cells=tuple(cells),
        measure=measure,
    )


def device_of(inside: pd.DataFrame) -> str:
    """Name the device of some runs, or `SEVERAL_DEVICES`."""
    devices = set(inside["device"])
    return str(devices.pop()) if len(devices) == 1 else SEVERAL_DEVICES


def _other_cell(group: pd.DataFrame, inside: pd.DataFrame, column: Column) -> Cell:
    if column in RECOVERY_COLUMNS:
        return mean_cell(inside[column.metric].dropna().astype(float), 1, RECOVERY_DIGITS)
    if column.unit == "images":
        return passes_cell(inside[f"image_passes_{column.metric.removesuffix('_image_passes')}"])
    return tuning_cell(group, inside, column) if column in TUNING_COLUMNS else time_cell(group, inside, column)


def _definitions(finished: pd.DataFrame, columns: Sequence[Column]) -> tuple[str, ...]:
    draws = [column.draws for column in columns if column.metric == "accuracy" and column.draws]
    phases = ", ".join(column.heading.removesuffix(" (s)") for column in columns if column.unit == "seconds")
    return (
        accuracy_definition(finished, draws),
        *([GROUP_DEFINITION] if GROUP in columns else []),
        calibration_definition(finished),
        *([RECOVERY_DEFINITION] if set(columns) & set(RECOVERY_COLUMNS) else []),
        f"{phases}: wall-clock seconds of these phases; other load on the machine slows them. Time / none: "
        "seconds of search and training as a multiple of those of none, one copy of each image, with the same data, "
        "network, budget and device; compilation and evaluation are not counted. Image passes: images through the "
        "network in training, forwards; search passes: through any network in the search.",
        *plain_steps_definition(finished),
        *tuning_definitions(columns),
    )
