"""Our numbers beside published ones, with the difference; published numbers are used nowhere else."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd

from augbench.bench.experiment.acceleration import Acceleration
from augbench.bench.experiment.budgets import budgets, recipe_of
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.spec import RunSpec, settings_in_words
from augbench.results.model.cells import asked_seeds, by_comparison, score_cells
from augbench.results.model.definitions import accuracy_definition, calibration_definition
from augbench.results.model.frame import Runs
from augbench.results.model.notes import run_notes
from augbench.results.model.table import NOTHING, Cell, Column, Row, Table, mean_cell, number, signed, with_draws
from augbench.results.published import load_published
from augbench.results.tables.comparison import device_of, row_of
from augbench.results.tables.hours import extra_hours, hours_by_label

HEADINGS = {
    "accuracy": "accuracy",
    "nll": "NLL",
    "brier": "Brier",
    "ece": "ECE",
    "ece_equal_mass": "ECE, equal mass",
    "gpu_hours": "GPU-hours",
    "extra_gpu_hours": "extra GPU-hours",
}
HOURS = ("gpu_hours", "extra_gpu_hours")
BINNED = ("ece", "ece_equal_mass")
PUBLISHED_BINS = 15  # of the calibration error in all sources
FACTS = {"epochs": "epochs", "batch_size": "images in a batch", "copies": "copies of each image", "n": "runs"}
"""Names of the facts of a setup that are compared, by their column in the published numbers."""
COLUMNS = (
    Column("Ours", "ours", None, ""),
    Column("Published", "published", None, ""),
    Column("Ours − published", "difference", None, ""),
    Column("What differs", "setup", None, ""),
)


@dataclass(frozen=True)
class _Pair:
    """Our cell, and the published numbers that belong beside it, which differ in source only."""

    label: str
    measure: Column
    ours: Cell
    published: pd.DataFrame
    device: str
    setup: Mapping[str, int]

    def differs(self, line: "pd.Series[Any]") -> str:
        """List what differs in the setup of a published number, or is not stated there; may be empty."""
        known, silent = [], []
        for column, name in FACTS.items():
            theirs, ours = line[column], self.setup.get(column)
            if pd.isna(theirs):
                silent.append(f"{name} (here {ours:,})" if ours else name)
            elif ours and theirs != ours:
                known.append(f"{name}: {theirs:,}, here {ours:,}")
        not_stated = f"not stated: {', '.join(silent)}" if silent else ""
        return "; ".join(filter(None, [*known, not_stated, line["setup"]]))

    @property
    def differing(self) -> list[str]:
        """The differences from each published number, without repeats."""
        return list(dict.fromkeys(filter(None, (self.differs(line) for _, line in self.published.iterrows()))))


def published_tables(runs: Runs, files: Sequence[Path] = ()) -> list[Table]:
    """Show our numbers beside published ones of the same method, data set and network, in one table if there are any.

    Args:
        runs: Our runs.
        files: CSV files of more published numbers, see `load_published`.

    Raises:
        UserError: If no run is finished or a file is damaged.
    """
    finished, published = runs.finished(), load_published(files)
    parts = {str(group["comparison"].iloc[0]): (here, group) for here, group in by_comparison(runs, finished)}
    about = {name: _about(published, *part) for name, part in parts.items()}
    pairs = {name: _pairs(*part, about[name]) for name, part in parts.items()}
    shown = finished[finished["comparison"].isin([name for name, found in pairs.items() if found])]
    if shown.empty:
        return []
    sources = _number_sources([pair for found in pairs.values() for pair in found])
    setups: dict[str, None] = {}
    rows, lines = [], []
    for name, found in pairs.items():
        setups.update(dict.fromkeys(text for pair in found for text in pair.differing))
        rows += [_row(parts[name][1], pair, sources, list(setups)) for pair in found]
        lines += [line for pair in found for line in _lines(parts[name][1], pair)]
    differing = [f"D{index}: {text}." for index, text in enumerate(setups, 1)]
    notes = (
        *run_notes(runs, shown),
        *_legend(sources),
        *differing,
        *_alone([about[name] for name, found in pairs.items() if found], shown),
    )
    title = "Our numbers beside published ones"
    definitions = _definitions(shown, [pair.measure for found in pairs.values() for pair in found])
    heading, data = "Method and measure", pd.DataFrame(lines)
    return [Table("published", title, notes, definitions, COLUMNS, tuple(rows), heading, data)]


def _about(published: pd.DataFrame, runs: Runs, group: pd.DataFrame) -> pd.DataFrame:
    """Published numbers of the data set, network and recipe of a comparison; none if its data set has other options."""
    first = group.iloc[0]
    recipe = _recipe(_spec_of(runs, group).budget, first["dataset"], first["network"])
    if first["dataset_label"] != first["dataset"] or recipe is None:
        return published.iloc[:0]
    same = (published["dataset"] == first["dataset"]) & (published["network"] == first["network"])
    same &= published["recipe"] == recipe
    found: pd.DataFrame = published[same]
    return found


def _spec_of(runs: Runs, group: pd.DataFrame) -> RunSpec:
    """Look up the first of some runs."""
    return next(record.spec for record in runs.records if record.name == group["folder"].iloc[0])


def _recipe(budget: Budget, dataset: str, network: str) -> str | None:
    """Name the recipe that runs have to the full; empty for runs without one and without a base, None for all others.

    The numbers of SCALE's paper have no base, or none that is stated.
    """
    recipe = recipe_of(budget, dataset, network)
    if not recipe:
        return None if budget.base else ""
    plain = budget.model_copy(update={"acceleration": Acceleration()})
    return recipe if plain in [entry.paper for entry in budgets().of_recipe(recipe)] else None


def _pairs(runs: Runs, group: pd.DataFrame, published: pd.DataFrame) -> list[_Pair]:
    """Put our cells and published numbers of one comparison together, by method, metric and draws."""
    pairs = []
    for label, inside in group.groupby("label", sort=False):
        spec = _spec_of(runs, inside)
        settings = settings_in_words({**spec.method.settings, **(spec.predictor.settings if spec.predictor else {})})
        same = (published["recipe"] == "") | (published["settings"] == settings)
        of_method = published[same & (published["method"] == inside["method"].iloc[0])]
        setup = _setup(runs, inside) if len(of_method) else {}
        for (metric, draws), numbers in of_method.groupby(["metric", "draws"], sort=False, dropna=False):
            draws = None if pd.isna(draws) else int(draws)
            ours = _ours(runs, group, str(label), metric, draws)
            unit = " (%)" if metric == "accuracy" else ""
            heading = f"{HEADINGS.get(metric, metric)}{with_draws(draws or 0)}{unit}"
            measure = Column(heading, metric, draws, "")
            if ours.count:
                known = {**setup, "n": ours.count}
                pairs.append(_Pair(str(label), measure, ours, numbers, device_of(inside), known))
    return pairs


def _setup(runs: Runs, inside: pd.DataFrame) -> dict[str, int]:
    """How our networks were trained, as far as all runs of one method have it in common."""
    values: dict[str, set[int]] = {"epochs": set(), "batch_size": set(), "copies": set()}
    for record in runs.records:
        if record.result is not None and record.name in set(inside["folder"]):
            result, budget = record.result, record.spec.budget
            epochs = result.epochs or budget.epochs
            passes = result.image_passes.get("training", 0) / _members(record.spec)
            copies = max(1, round(passes / (epochs * result.train_images)))
            setup = {"epochs": epochs, "batch_size": budget.images_in_batch(copies), "copies": copies}
            for name, value in setup.items():
                values[name].add(value)
    return {name: found.pop() for name, found in values.items() if len(found) == 1}


def _members(spec: RunSpec) -> int:
    """How often each copy goes through the network in training."""
    members = spec.predictor.all_settings.get("members") if spec.predictor else None
    return members if isinstance(members, int) else 1


def _ours(runs: Runs, group: pd.DataFrame, label: str, metric: str, draws: int | None) -> Cell:
    """Our number of a method, empty if none is comparable with the published one."""
    inside = group[group["label"] == label]
    if metric in HOURS:
        timed = group[group["seconds_training"].notna() & (group["device"] == inside["device"].iloc[0])]
        if not inside["on_gpu"].eq(True).all() or inside["device"].nunique() > 1 or timed.empty:
            return Cell(NOTHING)
        hours = hours_by_label(timed) if metric == "gpu_hours" else extra_hours(timed)
        return mean_cell(hours.get(label, pd.Series(dtype=float)), 1, 2).of(asked_seeds(group))
    if metric in BINNED and set(inside["calibration_bins"]) != {PUBLISHED_BINS}:
        return Cell(NOTHING)
    if "/" in metric:
        learned = runs.learned[runs.learned["folder"].isin(inside["folder"]) & (runs.learned["quantity"] == metric)]
        return mean_cell(learned["value"].astype(float), 1, 2).of(asked_seeds(group))
    return score_cells(runs, inside, metric, draws or 0, mark=False).get(label, Cell(NOTHING))


Source = tuple[str, str, str, str, str, str]


def _source(line: "pd.Series[Any]") -> Source:
    """What numbers of a source share: source, table, variant, what the sd is over, n, note."""
    n = "" if pd.isna(line["n"]) else str(line["n"])
    return line["source"], line["table"], line["variant"], line["sd_over"], n, line["note"]


def _number_sources(pairs: Sequence[_Pair]) -> dict[Source, int]:
    seen = dict.fromkeys(_source(line) for pair in pairs for _, line in pair.published.iterrows())
    return {source: index for index, source in enumerate(seen, 1)}


def _row(group: pd.DataFrame, pair: _Pair, sources: dict[Source, int], setups: Sequence[str]) -> Row:
    factor = 100 if pair.measure.metric == "accuracy" else 1
    published, differences = [], []
    for _, line in pair.published.iterrows():
        mark, digits = f"[{sources[_source(line)]}]", _digits(line["value"], factor)
        sd = "" if math.isnan(line["sd"]) else f" ± {_plain(line['sd'], factor)}"
        published.append(f"{number(factor * line['value'], digits)}{sd} {mark}")
        if (difference := _difference(pair, line)) is not None:
            differences.append(f"{signed(number(factor * difference, max(digits, 1 if factor == 100 else 2)))} {mark}")
    marks = ", ".join(f"D{setups.index(text) + 1}" for text in pair.differing) or NOTHING
    cells = (pair.ours, Cell("; ".join(published)), Cell("; ".join(differences) or NOTHING), Cell(marks))
    return row_of(group[group["label"] == pair.label], f"{pair.label}: {pair.measure.heading}", cells)


def _difference(pair: _Pair, line: "pd.Series[Any]") -> float | None:
    if pair.measure.metric in HOURS or pair.ours.mean is None:
        return None
    return pair.ours.mean - float(line["value"])


def _digits(value: float, factor: int) -> int:
    """Decimals of a published number, at least one for a percentage."""
    exponent = Decimal(_plain(value, factor)).as_tuple().exponent
    decimals = -exponent if isinstance(exponent, int) else 0
    return max(1 if factor == 100 else 0, decimals)


def _plain(value: float, factor: int) -> str:
    """Write a number as it was published: the file has fractions in place of percentages; floats would add digits."""
    return f"{(Decimal(repr(float(value))) * factor).normalize():f}"


def _lines(group: pd.DataFrame, pair: _Pair) -> list[dict[str, object]]:
    """Lines of the CSV file: one for each published number."""
    first = group.iloc[0]
    ours = {key: first[key] for key in ("dataset", "network", "budget", "protocol")}
    ours |= {"method": pair.label, "device": pair.device, "metric": pair.measure.metric, "draws": pair.measure.draws}
    ours |= {"mean": pair.ours.mean, "sd": pair.ours.sd, "n": pair.ours.count, "asked": pair.ours.asked}
    kept = ("value", "sd", "sd_over", "n", "epochs", "batch_size", "copies", "source", "table", "variant", "note")
    return [
        {
            **ours,
            **{f"published_{key}": None if pd.isna(line[key]) else line[key] for key in kept},
            "difference": _difference(pair, line),
            "differs": pair.differs(line) or None,
        }
        for _, line in pair.published.iterrows()
    ]


def _legend(sources: dict[Source, int]) -> list[str]:
    texts = []
    for (source, table, variant, over, n, note), index in sources.items():
        where = f"{source}, {table}" if table else source
        seeds = f"n = {n}" if n else "n is not stated"
        what = f"± over {_OVER[over]}, {seeds}" if over else f"{seeds}, no standard deviation"
        texts.append(f"[{index}] {'; '.join(part for part in (where, variant, what, note) if part)}.")
    return texts


_OVER = {"seeds": "seeds", "repeats": "repeats of the test-time draws, which says nothing of other seeds"}


def _alone(about: Sequence[pd.DataFrame], shown: pd.DataFrame) -> list[str]:
    """Name the methods of published numbers of the same data sets, networks and recipes that are not here."""
    others = sorted({method for numbers in about for method in numbers["method"]} - set(shown["method"]))
    return [f"Published of other methods on the same data and networks: {', '.join(others)}."] if others else []


def _definitions(shown: pd.DataFrame, measures: Sequence[Column]) -> tuple[str, ...]:
    metrics = {measure.metric for measure in measures}
    draws = sorted({measure.draws for measure in measures if measure.draws})
    return (
        "Published numbers enter none of our means, ranks and tests, and differences to them are not tested. "
        "Differences of accuracies are in percentage points. Hours have no difference "
        f"({NOTHING}), since hardware differs.",
        "A published number of the same name comes from a different experiment. What differs (D1 and so on): known "
        "differences of its setup, theirs before ours, and what its source does not state. Software and other details "
        "differ too.",
        *([accuracy_definition(shown, draws)] if "accuracy" in metrics else []),
        *([calibration_definition(shown)] if metrics & {"nll", "brier", "ece"} else []),
    )
