"""Scores on corrupted test images: means over corruptions, and each corruption."""

from dataclasses import replace

import pandas as pd

from augbench.bench.common.wording import few_names
from augbench.results.model.cells import SCORE_DIGITS, accuracy_digits, asked_seeds
from augbench.results.model.corruptions import BENCHMARKS, main_rows, mean_scores
from augbench.results.model.definitions import numbers
from augbench.results.model.frame import Runs
from augbench.results.model.notes import not_probed
from augbench.results.model.overlap import mean_distances, relative_distances
from augbench.results.model.table import NOTHING, Cell, Column, Table, mean_cell, number, with_ends
from augbench.results.statistics.bootstrap import Interval
from augbench.results.tables.by_learner import Measures, tables_by_learner

_MEANS = {
    "accuracy": Column("cA (%)", "corrupted_accuracy", None, "share"),
    "nll": Column("cNLL", "corrupted_nll", None, "nats"),
    "ece": Column("cCE (%)", "corrupted_ece", None, "share"),
    "mce": Column("mCE (%)", "mean_corruption_error", None, "ratio"),
}
_PAPERS = {"corruptions": "Hendrycks and Dietterich, 2019", "corruptions-bar": "Mintun, Kirillov and Xie, 2021"}
_DISTANCE = (
    "Distance: the smallest one between mean features of corrupted images and of the same images under one of "
    "{transforms} transforms drawn from the learner (Mintun, Kirillov and Xie, 2021), averaged over severities, as a "
    "fraction of that of unchanged images. Features are those of `none` with the same seed, on {images} test images; "
    "the base of a budget is left out. Empty for learners that mix the images of a batch."
)
_CLEAN = Column("Accuracy, clean (%)", "clean_accuracy", None, "share")


def corruptions_tables(runs: Runs, name: str = "corruptions") -> list[Table]:
    """Compare accuracy on corrupted test images, by corruption; none without scores on them.

    Args:
        runs: The runs.
        name: The set of corruptions, of `BENCHMARKS`.
    """
    frame, finished = runs.corruptions[runs.corruptions["corruptions"] == name], runs.finished()
    chosen, near = finished[finished["folder"].isin(frame["folder"])], runs.overlap[runs.overlap["corruptions"] == name]
    kinds = list(frame["images"].unique())
    if frame.empty:
        return []

    def measures(here: Runs, group: pd.DataFrame) -> Measures:
        of_group = frame[frame["folder"].isin(group["folder"])]
        for kind, of_kind in of_group.groupby("images", sort=False):
            yield from _measures(of_kind, asked_seeds(group), f", {kind}" if len(kinds) > 1 else "")
        yield from _distances(near[near["folder"].isin(of_group["folder"])], asked_seeds(group))

    title = f"Accuracy under shift: corruptions of {BENCHMARKS[name]}, {' or '.join(kinds)}"
    definitions = (*_definitions(frame), *_distance_definition(near), *not_probed(finished, chosen))
    return tables_by_learner(name, title, runs, chosen, measures, definitions, can_be_bold=False)


def _measures(frame: pd.DataFrame, asked: int, kind: str) -> Measures:
    """Rows of one data set: the clean images, the means, the mean corruption error, and each corruption."""
    digits = accuracy_digits(frame)
    yield _named(_CLEAN, kind), _cells(frame[frame["severity"] == 0], "accuracy", digits, asked)
    means = mean_scores(frame)
    for score, column in _MEANS.items():
        factor, decimals = (1, SCORE_DIGITS) if score == "nll" else (100, 1 if score == "mce" else digits)
        yield (
            _named(column, kind),
            {label: _interval_cell(found[score], factor, decimals).of(asked) for label, found in means.items()},
        )
    for name, inside in frame[frame["severity"] > 0].groupby("corruption", sort=False):
        heading = f"{name}{', extra' if inside['extra'].iloc[0] else ''} (%)"
        column = _named(Column(heading, f"accuracy_{name}", None, "share"), kind)
        yield column, _cells(inside, "accuracy", digits, asked)


def _distances(near: pd.DataFrame, asked: int) -> Measures:
    """Rows of one data set: the mean distance, and that to each corruption; none without a probe of overlap."""
    if near.empty:
        return
    relative = relative_distances(near)
    yield Column("Distance (%)", "distance", None, "ratio"), _percents(mean_distances(relative), asked)
    for name, inside in relative.groupby("corruption", sort=False):
        yield Column(f"Distance, {name} (%)", f"distance_{name}", None, "ratio"), _percents(inside.dropna(), asked)


def _percents(relative: pd.DataFrame, asked: int) -> dict[str, Cell]:
    by_label = relative.groupby("label", sort=False)["relative"]
    return {str(label): mean_cell(values, 100, 1).of(asked) for label, values in by_label}


def _distance_definition(near: pd.DataFrame) -> list[str]:
    counts = {"images": "test_images", "transforms": "transforms"}
    said = {name: numbers(near[column]) for name, column in counts.items()} if len(near) else {}
    return [_DISTANCE.format(**said)] if said else []


def _named(column: Column, kind: str) -> Column:
    """Put the source of the images, such as ", original", into the names of a column; none where it is empty."""
    heading, bracket, unit = column.heading.partition(" (%)")
    return replace(column, heading=f"{heading}{kind}{bracket}{unit}", metric=column.metric + kind.replace(", ", "_"))


def _cells(frame: pd.DataFrame, score: str, digits: int, asked: int) -> dict[str, Cell]:
    """Average a share over the rows of each seed, then over seeds, by label."""
    by_seed = frame.groupby(["label", "seed"], sort=False)[score].mean()
    return {
        str(label): mean_cell(values, 100, digits).of(asked)
        for label, values in by_seed.groupby(level="label", sort=False)
    }


def _interval_cell(interval: Interval | None, factor: float, digits: int) -> Cell:
    if interval is None:
        return Cell(NOTHING)
    ends = (interval.estimate, interval.low, interval.high)
    texts = [None if end is None else number(factor * end, digits) for end in ends]
    return Cell(with_ends(texts), interval.estimate, None, interval.seeds)


def _definitions(frame: pd.DataFrame) -> list[str]:
    main = main_rows(frame)["corruption"].nunique()
    drawn = numbers(set(frame["draws"]) - {0})
    with_draws = [
        f"Class probabilities averaged over {drawn} test-time draws where there is a policy, on clean images, too."
    ]
    return [
        *_sources(frame),
        "The accuracy for each corruption is the mean over five severities.",
        f"cA, cNLL, cCE: mean over {main} corruptions and five severities of accuracy, negative log-likelihood (nats) "
        "and expected calibration error; corruptions marked extra do not count. mCE: mean over these corruptions of "
        "the error over all severities divided by that of `none` with the same seeds; below 100 % a method withstands "
        "them better. In brackets: 95 % interval over seeds, on these test images, that of mCE paired by seed.",
        *(with_draws if drawn else []),
        *_other_images(frame),
    ]


def _sources(frame: pd.DataFrame) -> list[str]:
    """Say whether images are recomputed or original, and where there are both, on which data sets."""
    name = frame["corruptions"].iloc[0]
    said = {
        "recomputed": f"Corruptions are recomputed for images of this size, with the definitions and constants of "
        f"{BENCHMARKS[name]} ({_PAPERS[name]}): compare methods with one another, not with numbers on the published "
        "files.",
        "original": f"Corruptions are the original, published arrays of {BENCHMARKS[name]} ({_PAPERS[name]}).",
    }
    kinds = frame["images"].unique()
    where = {kind: few_names(list(frame.loc[frame["images"] == kind, "comparison"].unique())) for kind in kinds}
    return [f"On {where[kind]}: {said[kind]}" if len(kinds) > 1 else said[kind] for kind in kinds]


def _other_images(frame: pd.DataFrame) -> list[str]:
    others = frame[frame["test_dataset"] != frame["dataset"]].drop_duplicates("comparison")
    return [
        f"{row['comparison']}: the test images are those of {row['test_dataset']}." for row in others.to_dict("records")
    ]
