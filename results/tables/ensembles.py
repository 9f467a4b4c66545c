"""What kept probabilities allow after the fact: ensembles of seeds, and a temperature."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.common.wording import few_names
from augbench.bench.training.metrics import Floats, Integers
from augbench.results.model.cells import SCORE_DIGITS, accuracy_digits, asked_seeds, by_comparison
from augbench.results.model.definitions import calibration_definition, numbers
from augbench.results.model.frame import Runs
from augbench.results.model.notes import MOST_NAMED, run_notes
from augbench.results.model.table import NOTHING, Cell, Column, Row, Table, mean_cell, number
from augbench.results.statistics.calibration import all_measures
from augbench.results.statistics.ensembles import MOST, disagreement, sizes_of, subsets
from augbench.results.statistics.summary import summarise
from augbench.results.statistics.temperature import HIGHEST, REPEATS, cross_fitted
from augbench.results.tables.comparison import row_of

TEMPERATURE, DISAGREEMENT, SQUARES = "temperature", "disagreement", "ece_squared_debiased"
SPLIT = ("brier_calibration", "brier_refinement", "nll_calibration", "nll_refinement")
COLUMNS = (
    Column("Networks", "networks", None, "networks", rank=1),
    Column("T", TEMPERATURE, None, "ratio", rank=2),
    Column("Accuracy (%)", "accuracy", 0, "share", rank=5),
    Column("NLL", "nll", 0, "nats", rank=3),
    Column("NLL, calibration", "nll_calibration", 0, "nats"),
    Column("NLL, refinement", "nll_refinement", 0, "nats"),
    Column("Brier", "brier", 0, "squared distance"),
    Column("Brier, calibration", "brier_calibration", 0, "squared distance"),
    Column("Brier, refinement", "brier_refinement", 0, "squared distance"),
    Column("ECE", "ece", 0, "share", rank=4),
    Column("ECE, equal mass", "ece_equal_mass", 0, "share"),
    Column("ECE, class-wise", "ece_class_wise", 0, "share"),
    Column("ECE, smooth", "ece_smooth", 0, "share", rank=7),
    Column("Debiased square (10⁻⁴)", SQUARES, 0, "squared share"),
    Column("AURC (%)", "aurc", 0, "share", rank=6),
    Column("Excess AURC (%)", "aurc_excess", 0, "share"),
    Column("Disagreement (%)", DISAGREEMENT, 0, "share"),
)


class Seeds(NamedTuple):
    """Number of seeds with kept probabilities, and of those that runs exist for."""

    there: int
    asked: int


@dataclass(frozen=True)
class _Trained:
    """The finished runs of one learner with kept probabilities: frame, probabilities (S, N, C), labels, bins."""

    inside: pd.DataFrame
    probabilities: Floats
    labels: Integers
    bins: int


@dataclass
class _Lacking:
    """Names of what could not be made, by reason."""

    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, inside: pd.DataFrame) -> None:
        self.names.setdefault(reason, []).append(f"{inside['label'].iloc[0]} on {inside['comparison'].iloc[0]}")

    def notes(self) -> list[str]:
        return [f"{reason}: {few_names(names, MOST_NAMED)}." for reason, names in self.names.items()]


def ensembles_table(runs: Runs) -> Table:
    """Compare single networks with ensembles of 2, 4 and all seeds, before and after a temperature.

    Members of an ensemble differ in their seed alone and were evaluated on the same test images. Its probabilities are
    the mean of theirs, without test-time draws; the temperature is fitted by cross-fitting on halves of the images.

    Raises:
        DamagedError: If predictions are damaged.
        UserError: If no run is finished, or none kept its probabilities.
    """
    finished, lacking = runs.finished(), _Lacking()
    rows: list[Row] = []
    lines: list[dict[str, object]] = []
    used: list[pd.DataFrame] = []
    for _, group in by_comparison(runs, finished):
        for _, inside in group.groupby("label", sort=False):
            for trained in _trained(runs, inside, lacking):
                used.append(trained.inside)
                seeds = Seeds(len(trained.probabilities), asked_seeds(group))
                for size, values in _measured(trained):
                    cells = _cells(size, values, seeds, accuracy_digits(group))
                    rows.append(row_of(trained.inside, str(inside["label"].iloc[0]), cells))
                    lines.append(_line(rows[-1], size, values, seeds))
    if not rows:
        raise _nothing_to_compute(runs, lacking)
    shown = pd.concat(used)
    notes = (*run_notes(runs, shown), *lacking.notes())
    title = "Ensembles of seeds and temperature, from kept probabilities"
    return Table("ensembles", title, notes, _definitions(shown), COLUMNS, tuple(rows), data=pd.DataFrame(lines))


def _nothing_to_compute(runs: Runs, lacking: _Lacking) -> UserError:
    return UserError(
        f"Neither ensembles nor temperatures can be computed from {' and '.join(map(str, runs.sources))}. "
        f"{' '.join(lacking.notes())} Give the output folder of the runs, or a file NAME.tar.gz that "
        f"`{to_paste('archive', '--from', 'OUT', '--out', 'NAME.tar.gz')}` has written: these have the probabilities."
    )


def _trained(runs: Runs, inside: pd.DataFrame, lacking: _Lacking) -> Iterator[_Trained]:
    """Read the probabilities of one learner; nothing where there are none, or of different images."""
    by_seed = inside.sort_values("seed")
    found = {str(folder): runs.kept(str(folder)) for folder in by_seed["folder"]}
    kept = {folder: one for folder, one in found.items() if one is not None}
    if len(kept) < len(found):
        lacking.add("Left out, since probabilities were not kept, as in parquet files", inside)
    if not kept:
        return
    first = next(iter(kept.values()))
    if any(
        one.probabilities.shape != first.probabilities.shape or not np.array_equal(one.labels, first.labels)
        for one in kept.values()
    ):
        lacking.add("Left out, since seeds were evaluated on different test images", inside)
        return
    if len(first.labels) < 2:
        lacking.add("Left out, since a single test image cannot be halved", inside)
        return
    if len(kept) == 1:
        lacking.add("No ensemble of a single seed", inside)
    probabilities = np.stack([one.probabilities for one in kept.values()]).astype(np.float64)
    (bins,) = set(by_seed["calibration_bins"])
    yield _Trained(by_seed[by_seed["folder"].isin(kept)], probabilities, first.labels, int(bins))


def _measured(trained: _Trained) -> Iterator[tuple[int, pd.DataFrame]]:
    """Measure single networks, then ensembles of each size, first as they are, then with a temperature.

    Yields:
        The number of networks, and a row of measures for each network or ensemble, `temperature` among them if it has
        one.
    """
    seeds = len(trained.probabilities)
    for size in (1, *sizes_of(seeds)):
        means = (trained.probabilities[list(members)].mean(axis=0) for members in subsets(seeds, size))
        pairs = [_before_and_after(mean, trained.labels, trained.bins) for mean in means]
        before = pd.DataFrame([pair[0] for pair in pairs])
        if size == 1 and seeds > 1:
            before[DISAGREEMENT] = disagreement(trained.probabilities)
        yield size, before
        yield size, pd.DataFrame([pair[1] for pair in pairs])


def _before_and_after(probabilities: Floats, labels: Integers, bins: int) -> tuple[dict[str, float], dict[str, float]]:
    """Measure probabilities as they are, and with a temperature as the mean over repeated cross-fitting."""
    before = all_measures(probabilities, labels, bins)
    after = pd.DataFrame(
        [
            {**all_measures(found.probabilities, labels, bins), TEMPERATURE: found.temperature}
            for found in cross_fitted(probabilities, labels)
        ]
    ).mean()
    split = {"nll_calibration": before["nll"] - after["nll"], "nll_refinement": after["nll"]}
    return before | split, {str(name): float(value) for name, value in after.items()}


def _cells(size: int, values: pd.DataFrame, seeds: Seeds, digits: int) -> list[Cell]:
    """Average over seeds or, without a standard deviation, over ensembles, which have networks in common."""
    cells = [Cell(str(size))]
    for column in COLUMNS[1:]:
        if column.metric not in values:
            cells.append(Cell(NOTHING))
            continue
        factor, decimals = _shown(column, digits)
        if size == 1 and column.metric not in (TEMPERATURE, DISAGREEMENT):
            cells.append(mean_cell(values[column.metric], factor, decimals).of(seeds.asked))
        else:
            mean = float(values[column.metric].mean())
            cells.append(Cell(number(factor * mean, decimals), mean, None, seeds.there).of(seeds.asked))
    return cells


def _shown(column: Column, digits: int) -> tuple[float, int]:
    """Return the factor and the decimals of a column's numbers."""
    if column.metric == SQUARES:
        return 1e4, 1
    if column.heading.endswith("(%)"):
        return 100, digits + column.metric.startswith("aurc")
    return 1, 2 if column.metric == TEMPERATURE else SCORE_DIGITS + (column.metric in SPLIT)


def _line(row: Row, size: int, values: pd.DataFrame, seeds: Seeds) -> dict[str, object]:
    """A line of the CSV file, unrounded; standard deviations are over the seeds of single networks."""
    line: dict[str, object] = {
        "dataset": row.dataset,
        "network": row.network,
        "budget": row.budget,
        "protocol": row.protocol,
        "method": row.label,
        "device": row.device,
        "networks": size,
        "with_temperature": TEMPERATURE in values,
        "averaged": len(values),
        "seeds": seeds.there,
        "asked": seeds.asked,
    }
    for column in COLUMNS[1:]:
        known = column.metric in values
        summary = summarise(values[column.metric]) if known else None
        line[column.metric] = summary and summary.mean
        if column.metric != DISAGREEMENT:
            line[f"{column.metric}_sd"] = summary.sd if summary and size == 1 else None
    return line


def _definitions(shown: pd.DataFrame) -> tuple[str, ...]:
    bins = numbers(shown["calibration_bins"])
    return (
        "Networks: 1, single networks, mean ± standard deviation over seeds; more, an ensemble of networks that differ "
        "in their seed alone, whose probabilities are averaged, without test-time draws. Ensembles of a size: mean "
        f"over all, or over {MOST} drawn ones if there are more; no ±, since they have networks in common.",
        "T: mean temperature, where there is one: each half of the test images has the temperature, from "
        f"{1 / HIGHEST:g} to {HIGHEST:g}, with the lowest NLL on the other half (of an ensemble, for its averaged "
        f"probabilities). Measures are of all images then, mean over {REPEATS} ways to halve them. It takes labelled "
        "images like those of the test; none were held out. With few wrong predictions it can do harm.",
        f"{calibration_definition(shown, equal_mass=True)} Class-wise: the same for the probability of each class, "
        "mean over classes. Smooth: the same with a Gaussian kernel as wide as the result in place of bins. Debiased "
        "square: mean squared gap of the bins of ECE, less what chance adds to it; below 0 if gaps are smaller than "
        "chance makes them.",
        f"Brier, calibration: squared gaps between share and mean probability, in {bins} bins for each class, summed "
        "over classes; refinement: the rest. NLL, refinement: NLL with the temperature; calibration: what it saves, "
        "below 0 if it does harm.",
        "AURC: mean share of wrong predictions among the k most confident, over all k; excess: more than with all "
        "wrong ones last. Disagreement: share of test images that two seeds classify differently, mean over pairs.",
    )
