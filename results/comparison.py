"""The comparison table: what every method reached on every data set, and what it cost."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from augbench.bench.run_folder import RunState
from augbench.results.costs import (
    TUNING_COLUMNS,
    passes_cell,
    time_cell,
    tuning_cell,
    tuning_definitions,
    tuning_notes,
)
from augbench.results.frame import Runs
from augbench.results.table import NOTHING, SEVERAL_DEVICES, Cell, Column, Row, Table, mean_cell

MOST_NAMED = 6  # of the methods and data sets that a table lacks
CHECKSUM = re.compile("=#[0-9a-f]{8}")  # as `brief` writes a long setting
RECOVERY_DIGITS = 3  # chance alone moves a distance by about 0.002


OF_THE_MAXIMUM = "share of the maximum"
RECOVERY_COLUMNS = (
    Column("Recovery error, planted", "recovery_error_planted", None, OF_THE_MAXIMUM, rank=3),
    Column("Recovery error, all", "recovery_error", None, OF_THE_MAXIMUM),
)
RECOVERY_DEFINITION = (
    "Recovery error: distance of the learned transforms from the planted ones, 0 is exact. In each coordinate (turn, "
    "x- and y-scale, x-shear, flip, x- and y-shift) it is the 1-Wasserstein distance of the two laws as a share of the "
    "coordinate's maximum. Planted: mean over the coordinates that the planted law changes: what was missed there, or "
    "overdone, so that a learner that goes beyond the planted range can be farther off than one that does nothing. "
    "All: mean over all seven, so also what was found besides, such as symmetries that the images had before. "
    "Chance alone gives about 0.002."
)


def comparison_table(runs: Runs) -> Table:
    """Compare the finished runs: a row for each method on each data set, averaged over seeds.

    Raises:
        UserError: If no run is finished.
    """
    finished = runs.finished()
    columns = _columns(sorted(int(draws) for draws in runs.scores["draws"].unique()), finished)
    rows: list[Row] = []
    for _, group in finished.groupby("comparison", sort=False):
        by_label = group.groupby("label", sort=False)
        digits = accuracy_digits(group)
        of_group = [_row(runs, group, inside, columns, digits) for _, inside in by_label]
        rows += of_group if _is_trial(group) else _mark_best(of_group, columns, digits)
    notes, definitions = run_notes(runs, finished), _definitions(finished, columns)
    return Table("comparison", "Comparison of augmentation learners", notes, definitions, columns, tuple(rows))


def _columns(draws: Sequence[int], finished: pd.DataFrame) -> tuple[Column, ...]:
    ranks = {draws[-1]: 2, 0: 1} if draws else {}
    columns = [
        *(Column(f"Accuracy{_with(n)} (%)", "accuracy", n, "share", ranks.get(n, 0)) for n in draws),
        Column("NLL", "nll", 0, "nats"),
        Column("Brier", "brier", 0, "squared distance"),
        Column("ECE", "ece", 0, "share", rank=6),
    ]
    if draws and draws[-1] > 0:
        columns.append(Column(f"ECE{_with(draws[-1])}", "ece", draws[-1], "share"))
    columns += [column for column in RECOVERY_COLUMNS if finished[column.metric].notna().any()]
    if (finished["image_passes_search"] > 0).any():
        columns.append(Column("Search (s)", "search_seconds", None, "seconds"))
        columns.append(Column("Search passes", "search_image_passes", None, "images"))
    columns.append(Column("Training (s)", "training_seconds", None, "seconds", rank=4))
    columns.append(Column("Evaluation (s)", "evaluation_seconds", None, "seconds"))
    columns.append(Column("Time / none", "time_ratio", None, "ratio", rank=5))
    columns += TUNING_COLUMNS if finished["tuning_trials"].notna().any() else []
    columns.append(Column("Image passes", "training_image_passes", None, "images", rank=7))
    return tuple(columns)


def _with(draws: int) -> str:
    return f", {draws} draw{'s' if draws > 1 else ''}" if draws else ""


def _row(runs: Runs, group: pd.DataFrame, inside: pd.DataFrame, columns: Sequence[Column], digits: int) -> Row:
    """Average the runs of one method, `inside`, among those of the same data set, `group`."""
    first = inside.iloc[0]
    devices = sorted(set(inside["device"]))
    scores = runs.scores[runs.scores["folder"].isin(inside["folder"])]
    seeds = int(group.groupby("label")["seed"].nunique().max())
    cells = [
        _other_cell(group, inside, column) if column.draws is None else _score_cell(scores, column, digits)
        for column in columns
    ]
    return Row(
        comparison=str(first["comparison"]),
        dataset=str(first["dataset_label"]),
        network=str(first["network"]),
        budget=str(first["budget"]),
        protocol=str(first["protocol"]),
        label=str(first["label"]),
        device=devices[0] if len(devices) == 1 else SEVERAL_DEVICES,
        cells=tuple(replace(cell, text=cell.text + missing_seeds(cell, seeds)) for cell in cells),
    )


def accuracy_digits(group: pd.DataFrame) -> int:
    """Digits of a percentage that the test images can tell apart: 1 for 1,000 of them, 2 for 10,000."""
    return max(1, math.ceil(math.log10(group["test_images"].iloc[0])) - 2)


def _score_cell(scores: pd.DataFrame, column: Column, digits: int) -> Cell:
    values = scores.loc[(scores["draws"] == column.draws) & (scores["metric"] == column.metric), "value"]
    is_accuracy = column.metric == "accuracy"
    return mean_cell(values, 100 if is_accuracy else 1, digits if is_accuracy else 3)


def missing_seeds(cell: Cell, seeds: int) -> str:
    """Say so, as something to append, where a cell averages over fewer seeds than the data set has."""
    return "" if cell.mean is None or cell.count == seeds else f" ({cell.count}/{seeds} seeds)"


def _other_cell(group: pd.DataFrame, inside: pd.DataFrame, column: Column) -> Cell:
    if column in RECOVERY_COLUMNS:
        return mean_cell(inside[column.metric].dropna().astype(float), 1, RECOVERY_DIGITS)
    if column.unit == "images":
        return passes_cell(inside[f"image_passes_{column.metric.removesuffix('_image_passes')}"])
    return tuning_cell(group, inside, column) if column in TUNING_COLUMNS else time_cell(group, inside, column)


def _mark_best(rows: list[Row], columns: Sequence[Column], digits: int) -> list[Row]:
    """Mark in each column of accuracies the highest mean, as shown, among the cells that have every seed."""
    seeds = max(cell.count for row in rows for cell in row.cells)
    by_column = [
        _mark_column([row.cells[index] for row in rows], seeds, digits)
        if column.metric == "accuracy"
        else [row.cells[index] for row in rows]
        for index, column in enumerate(columns)
    ]
    return [replace(row, cells=cells) for row, cells in zip(rows, zip(*by_column, strict=True), strict=True)]


def _mark_column(cells: list[Cell], seeds: int, digits: int) -> list[Cell]:
    # Means that look the same are marked alike: a difference that is not shown would puzzle the reader.
    rated = [round(100 * cell.mean, digits) if cell.mean is not None and cell.count == seeds else -1 for cell in cells]
    return [replace(cell, best=value == max(rated) >= 0) for cell, value in zip(cells, rated, strict=True)]


def run_notes(runs: Runs, finished: pd.DataFrame) -> tuple[str, ...]:
    """Say what a reader must know of these runs: splits, devices, what ± is, settings, what is missing."""
    groups = [(str(name), group) for name, group in finished.groupby("comparison", sort=False)]
    counts = pd.Series([group.groupby("label")["seed"].nunique().max() for _, group in groups])
    return (
        *_trials(groups),
        *_descriptions(groups),
        *_deviation(counts),
        *_settings(finished),
        *tuning_notes(finished),
        *_checksums(finished),
        *_several_codes(finished),
        *_left_out(runs),
    )


def _is_trial(group: pd.DataFrame) -> bool:
    """Whether networks were trained for a single epoch, as at the level `smoke`."""
    return str(group["budget"].iloc[0]).startswith("1 epoch")


def _trials(groups: Sequence[tuple[str, pd.DataFrame]]) -> list[str]:
    """Say of which runs the accuracies are not to be taken for results."""
    names = [name for name, group in groups if _is_trial(group)]
    if not names:
        return []
    return [f"{' and '.join(names)}: trained for one epoch, to see whether everything runs; accuracies mean nothing."]


def _deviation(counts: "pd.Series[int]") -> list[str]:
    if counts.max() < 2:
        return []
    return [
        f"± is the standard deviation over seeds (n − 1 in the divisor), n = {_numbers(counts)}; a seed decides the "
        "initialisation, the order of the images and all draws, never the split into training and test images."
    ]


def _settings(finished: pd.DataFrame) -> list[str]:
    """Say which hyperparameters differ from their defaults, where the label does not."""
    changed = finished.loc[finished["settings"] != "", ["label", "settings"]]
    described = [f"{label} with {settings}" for label, settings in _distinct(changed)]
    return [f"Not at their defaults: {'; '.join(described)}."] if described else []


def _checksums(finished: pd.DataFrame) -> list[str]:
    """Say what a checksum in place of a long setting is, where there is one."""
    names = pd.concat([finished[column] for column in ("comparison", "label", "settings")])
    if not names.str.contains(CHECKSUM).any():
        return []
    return ["#… is the start of the sha256 of a setting's content, which is too long to be shown."]


def _definitions(finished: pd.DataFrame, columns: Sequence[Column]) -> tuple[str, ...]:
    draws = [str(column.draws) for column in columns if column.metric == "accuracy" and column.draws]
    bins, repeats = _numbers(finished["calibration_bins"]), _numbers(finished["test_time_repeats"])
    with_draws = (
        f" With {' or '.join(draws)} draw{'' if draws == ['1'] else 's'}: class probabilities averaged over so many "
        f"test-time draws from the method's policy, mean of {repeats} repeats; {NOTHING} for methods "
        "without a policy to draw from."
    )
    phases = ", ".join(column.heading.removesuffix(" (s)") for column in columns if column.unit == "seconds")
    return (
        "Accuracy: share of test images whose most probable class is right, after the last epoch."
        + (with_draws if draws else ""),
        "NLL: mean negative log-likelihood, nats. Brier: mean squared distance to the one-hot label, 0 to 2. "
        f"ECE: expected calibration error of the top label, {bins} equal-width bins, mean absolute gap, 0 to 1.",
        *_recovery_definitions(columns),
        f"{phases}: wall-clock seconds of these phases, beside whatever else the machine did. Time / none: "
        "seconds of search and training as a multiple of those of none with the same data, network, budget and device; "
        "compilation and evaluation are not counted. Image passes: images through the network in training, forwards; "
        "search passes: through any network in the search.",
        *tuning_definitions(columns),
        "Bold: highest mean accuracy, as shown, among the methods with all seeds; that is no test of significance.",
    )


def _recovery_definitions(columns: Sequence[Column]) -> list[str]:
    """Say what a recovery error is, where the table has one."""
    return [RECOVERY_DEFINITION] if set(columns) & set(RECOVERY_COLUMNS) else []


def _descriptions(groups: Sequence[tuple[str, pd.DataFrame]]) -> list[str]:
    """Describe each data set, those with the same description together."""
    names: dict[str, list[str]] = {}
    for name, group in groups:
        names.setdefault(_describe(group), []).append(name)
    return [f"{' and '.join(alike)}: {description}." for description, alike in names.items()]


def _describe(group: pd.DataFrame) -> str:
    first = group.iloc[0]
    seeds = int(group.groupby("label")["seed"].nunique().max())
    protocol = [f"protocol: {first['protocol']}"] if first["protocol"] else []
    parts = [
        f"{int(first['train_images']):,} training and {int(first['test_images']):,} test images",
        f"network {first['network']}",
        str(first["budget"]),
        *protocol,
        f"n = {seeds} {'seed' if seeds == 1 else 'seeds'}",
        " and ".join(sorted(set(group["device"]))),
    ]
    return ", ".join(parts)


def _numbers(values: "pd.Series[int]") -> str:
    return " or ".join(str(value) for value in sorted({int(value) for value in values}))


def _several_codes(finished: pd.DataFrame) -> list[str]:
    codes = sorted({code or "unknown" for code in finished["code"]})
    return [f"Made with several versions of the code: {', '.join(codes)}."] if len(codes) > 1 else []


def _left_out(runs: Runs) -> list[str]:
    counts = {"unfinished": runs.unfinished, "failed": runs.failed, "damaged": len(runs.damaged)}
    missing = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    if not missing:
        return _trials_of_tunings(runs)
    waiting = runs.runs.loc[runs.runs["state"] != RunState.DONE.value, ["label", "comparison"]]
    named = [f"{label} on {comparison}" for label, comparison in _distinct(waiting)]
    more = [f"{len(named) - MOST_NAMED} more"] if len(named) > MOST_NAMED else []
    which = ", ".join(named[:MOST_NAMED] + more)
    return [f"Runs that are not in this table: {missing}{f' ({which})' if which else ''}.", *_trials_of_tunings(runs)]


def _trials_of_tunings(runs: Runs) -> list[str]:
    if not runs.trials:
        return []
    return [f"{runs.trials} trials of a tuning are left out: they are evaluated on validation images."]


def _distinct(frame: pd.DataFrame) -> list[tuple[str, str]]:
    return [(str(first), str(second)) for first, second in frame.drop_duplicates().itertuples(index=False)]
