"""What a probe with corrupted test images has found: means over corruptions, and each corruption."""

import pandas as pd

from augbench.results.model.cells import SCORE_DIGITS, accuracy_digits, asked_seeds
from augbench.results.model.corruptions import SCORES, corruption_errors, main_rows
from augbench.results.model.definitions import numbers
from augbench.results.model.frame import Runs
from augbench.results.model.notes import not_probed
from augbench.results.model.table import Cell, Column, Table, mean_cell, number
from augbench.results.tables.by_learner import Measures, tables_by_learner

_MEANS = {
    "accuracy": Column("cA (%)", "corrupted_accuracy", None, "share"),
    "nll": Column("cNLL", "corrupted_nll", None, "nats"),
    "ece": Column("cCE (%)", "corrupted_ece", None, "share"),
}
_CLEAN = Column("Accuracy, clean (%)", "clean_accuracy", None, "share")
_ERROR = Column("mCE (%)", "mean_corruption_error", None, "ratio")


def corruptions_tables(runs: Runs) -> list[Table]:
    """Compare accuracy on corrupted test images, by corruption; none without a probe."""
    frame, finished = runs.corruptions, runs.finished()
    chosen = finished[finished["folder"].isin(frame["folder"])]

    def measures(here: Runs, group: pd.DataFrame) -> Measures:
        return _measures(frame[frame["folder"].isin(group["folder"])], asked_seeds(group))

    title = "Accuracy under shift: recomputed corruptions of the test images"
    definitions = (*_definitions(frame), *not_probed(finished, chosen)) if len(frame) else ()
    return tables_by_learner("corruptions", title, runs, chosen, measures, definitions, can_be_bold=False)


def _measures(frame: pd.DataFrame, asked: int) -> Measures:
    """Rows of one data set: the clean images, the means, the mean corruption error, and each corruption."""
    digits = accuracy_digits(frame)
    yield _CLEAN, _cells(frame[frame["severity"] == 0], "accuracy", 100, digits, asked)
    for score in SCORES:
        factor, decimals = (1, SCORE_DIGITS) if score == "nll" else (100, digits)
        yield _MEANS[score], _cells(main_rows(frame), score, factor, decimals, asked)
    seeds = frame.groupby("label")["seed"].nunique()
    errors = corruption_errors(frame)
    yield (
        _ERROR,
        {
            label: Cell(number(100 * error, 1), error, None, int(seeds[label])).of(asked)
            for label, error in errors.items()
        },
    )
    corrupted = frame[frame["severity"] > 0]
    for name, inside in corrupted.groupby("corruption", sort=False):
        heading = f"{name}{', extra' if inside['extra'].iloc[0] else ''} (%)"
        yield Column(heading, f"accuracy_{name}", None, "share"), _cells(inside, "accuracy", 100, digits, asked)


def _cells(frame: pd.DataFrame, score: str, factor: float, digits: int, asked: int) -> dict[str, Cell]:
    """Average a score over the rows of each seed, then over seeds, by label."""
    by_seed = frame.groupby(["label", "seed"], sort=False)[score].mean()
    return {
        str(label): mean_cell(values, factor, digits).of(asked)
        for label, values in by_seed.groupby(level="label", sort=False)
    }


def _definitions(frame: pd.DataFrame) -> list[str]:
    main = main_rows(frame)["corruption"].nunique()
    drawn = numbers(set(frame["draws"]) - {0})
    with_draws = [
        f"Class probabilities averaged over {drawn} test-time draws where there is a policy, on clean images, too."
    ]
    return [
        "Corruptions are recomputed for images of this size, with the definitions and constants of CIFAR-10-C "
        "(Hendrycks and Dietterich, 2019): compare methods with one another, not with numbers on the published files. "
        "The accuracy for each is the mean over five severities.",
        f"cA, cNLL, cCE: mean over {main} corruptions and five severities of accuracy, negative log-likelihood (nats) "
        "and expected calibration error; corruptions marked extra do not count. mCE: mean over these corruptions of "
        "the error over all severities divided by that of `none`; below 100 % a method withstands them better.",
        *(with_draws if drawn else []),
        *_other_images(frame),
    ]


def _other_images(frame: pd.DataFrame) -> list[str]:
    others = frame[frame["test_dataset"] != frame["dataset"]].drop_duplicates("comparison")
    return [
        f"{row['comparison']}: the test images are those of {row['test_dataset']}." for row in others.to_dict("records")
    ]
