"""Frames of scores on corrupted test images, from records of runs and from probes, and their summary."""

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from augbench.bench.training.metrics import CORRUPTED_SCORES as SCORES
from augbench.results.records.rows import KEYS
from augbench.results.statistics.bootstrap import Interval, Weights, mean_interval
from augbench.results.statistics.ratios import ratio_interval

REFERENCE = "none"
BENCHMARKS = MappingProxyType({"corruptions": "CIFAR-10-C", "corruptions-bar": "CIFAR-10-C̄"})
"""Sets of corruptions, and what they are called where they were published."""

SOURCE = ("corruptions", "images")
COLUMNS = (
    *KEYS,
    "dataset",
    "test_dataset",
    "corruption",
    "severity",
    "extra",
    "draws",
    *SCORES,
    "test_images",
    *SOURCE,
)
"""Columns of the frame and of its CSV file: `corruption` is "clean" and `severity` 0 for the test images themselves;
`extra` corruptions count in no mean. `corruptions` is the name of the set, `images` "recomputed" or
"original"."""


def probe_file(name: str) -> str:
    """Name of the CSV file of a set of corruptions."""
    return f"probe-{name}.csv"


def recorded_scores(shift: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Complete the rows of `Runs.shift` to `COLUMNS`; they are of a run's own test images, without test-time draws."""
    about = runs[["folder", "test_images"]].assign(dataset=runs["dataset_label"], test_dataset=runs["dataset_label"])
    frame = shift.merge(about.assign(draws=0), on="folder")[list(COLUMNS)]
    return frame.astype({"extra": bool, "test_images": int})


def in_place_of(recorded: pd.DataFrame, probed: pd.DataFrame) -> pd.DataFrame:
    """Take probes of a comparison and a set of corruptions in place of what runs of that comparison have recorded."""
    groups = ["comparison", "corruptions"]
    taken = pd.MultiIndex.from_frame(probed[groups])
    return pd.concat([recorded[~pd.MultiIndex.from_frame(recorded[groups]).isin(taken)], probed], ignore_index=True)


def main_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of the corruptions that count in means."""
    return frame[(frame["severity"] > 0) & ~frame["extra"]]


def summarise_corruptions(frame: pd.DataFrame, right: Mapping[str, NDArray[np.float64]] | None = None) -> pd.DataFrame:
    """Summarise scores on corrupted images.

    Args:
        frame: From `probe_corrupted`, or `Runs.corruptions`.
        right: Shares of each image, as in `CorruptionProbe`; None if they are unknown.

    Returns:
        A row for each comparison, set of corruptions, source and label: `comparison`, `corruptions`, `images`, `label`,
        `seeds`; means over seeds of `clean`, the accuracy
        on the clean images, and over the main corruptions and all severities `accuracy` (cA), `nll` (cNLL) and `ece`
        (cCE); and `mce`: the mean over the main corruptions of the error over all severities divided by that of `none`
        with the same seeds (Hendrycks and Dietterich, 2019, section 4.1, with `none` in place of AlexNet), NaN where
        the comparison has no `none` with common seeds or that makes no error. `<measure>_low` and `<measure>_high` are
        the ends of a 95 % bootstrap interval over seeds, and for `accuracy` also over test images if `right` is given;
        NaN for one seed, and for the `mce` of `none`, which is 1.
    """
    rows: list[dict[str, Any]] = []
    for (comparison, kind, images), compared in frame.groupby(["comparison", *SOURCE], sort=False):
        found = mean_scores(compared)
        for label, group in compared.groupby("label", sort=False):
            intervals = found[str(label)]
            if right is not None:
                of_images = np.stack([right[folder] for folder in group["folder"].unique()])
                intervals["accuracy"] = mean_interval(of_images)
            rows.append(
                {
                    **{"comparison": comparison, "corruptions": kind, "images": images, "label": label},
                    "seeds": group["seed"].nunique(),
                    "clean": group.loc[group["severity"] == 0, "accuracy"].mean(),
                    **{key: value for name, one in intervals.items() for key, value in _columns(name, one).items()},
                }
            )
    return pd.DataFrame(rows)


def mean_scores(frame: pd.DataFrame) -> dict[str, dict[str, Interval | None]]:
    """Average scores over corruptions and severities, with intervals over seeds.

    Args:
        frame: Of one comparison, one set of corruptions and one source of the images.

    Returns:
        By label: `accuracy`, `nll`, `ece` and `mce`, as in `summarise_corruptions`; None without a `mce`.
    """
    errors, weights = _errors(frame), Weights(1)  # over seeds alone, as if of one image
    found: dict[str, dict[str, Interval | None]] = {}
    for label, group in frame.groupby("label", sort=False):
        over_seeds = main_rows(group).groupby("seed")[list(SCORES)].mean()
        means = {metric: mean_interval(over_seeds[[metric]], weights=weights) for metric in SCORES}
        found[str(label)] = {**means, "mce": _relative_error(errors, str(label), weights)}
    return found


def _columns(name: str, interval: Interval | None) -> dict[str, float]:
    ends = (interval.estimate, interval.low, interval.high) if interval else (None, None, None)
    return {
        column: math.nan if end is None else end
        for column, end in zip((name, f"{name}_low", f"{name}_high"), ends, strict=True)
    }


def _errors(frame: pd.DataFrame) -> pd.DataFrame:
    """Error over all severities of one comparison: a row for each label and seed, a column for each main corruption."""
    main = main_rows(frame)
    return (1 - main["accuracy"]).groupby([main["label"], main["seed"], main["corruption"]]).mean().unstack()


def _relative_error(errors: pd.DataFrame, label: str, weights: Weights) -> Interval | None:
    """Mean corruption error of a label; None without `none`, or where that makes no error on a corruption."""
    if REFERENCE not in errors.index.get_level_values(0):
        return None
    ours, theirs = errors.loc[label], errors.loc[REFERENCE]
    common = ours.index.intersection(theirs.index)
    if not len(common) or (theirs.loc[common] == 0).all().any():
        return None
    interval = ratio_interval(ours.loc[common], theirs.loc[common], weights)
    return replace(interval, low=None, high=None) if label == REFERENCE else interval


def accuracy_by_corruption(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy over all severities and seeds of one comparison: a row for each corruption, a column for each label."""
    corrupted = frame[frame["severity"] > 0]
    means = corrupted.groupby(["corruption", "label"], sort=False)["accuracy"].mean().unstack()
    return means.loc[corrupted["corruption"].unique(), corrupted["label"].unique()]


def by_severity(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of each run by severity, `value`: the mean over the main corruptions; 0 for the clean images."""
    keys = [*KEYS, "dataset", "test_dataset", "draws", *SOURCE, "severity"]
    means = frame[~frame["extra"]].groupby(keys, sort=False)["accuracy"].mean().reset_index()
    return means.rename(columns={"severity": "value"})
