"""Probes with corrupted test images: scores of each corruption and severity, their summary, files and figure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from augbench.bench.common.files import make_folder, write_text
from augbench.bench.training.corrupted_images import corrupted_images
from augbench.bench.training.shift import SCORES, corrupted_scores
from augbench.results.figures import write_figure
from augbench.results.model.csv_text import csv_text
from augbench.results.model.frame import KEYS
from augbench.results.statistics.bootstrap import Interval, Weights, mean_interval
from augbench.results.statistics.ratios import ratio_interval
from augbench.results.studies.probe_figure import curves_figure
from augbench.results.studies.probes import FinishedRun, opened_runs

REFERENCE = "none"
BENCHMARKS = {"corruptions": "CIFAR-10-C", "corruptions-bar": "CIFAR-10-C̄"}
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


@dataclass(frozen=True)
class CorruptionProbe:
    """What runs make of corrupted test images.

    Attributes:
        frame: A row for each run, corruption and severity, with `COLUMNS`; first those of the clean images.
        right: By folder of the run: for each test image, the share of its main corruptions, over all severities, in
            which the most probable class is the label; (N,).
    """

    frame: pd.DataFrame
    right: dict[str, NDArray[np.float64]]


def probe_corrupted(
    runs: Sequence[FinishedRun],
    name: str,
    *,
    draws: int,
    data_root: Path,
    device: torch.device,
    on: str | None = None,
    after_each: Callable[[float], object] = lambda _: None,
) -> CorruptionProbe:
    """Score runs on corrupted test images, which are the same for all runs on a data set.

    The images are those that the network takes, as in CIFAR-10-C: what a data set has done to them stays done.

    Args:
        runs: From `finished_runs`.
        name: One of the `SETS` of corruptions.
        draws: Test-time draws from a run's own policy; 0 for none. Methods without a policy have none.
        data_root: Folder of downloaded data sets.
        device: Where to compute.
        on: Name of the data set whose test images are corrupted; None for each run's own.
        after_each: Called for each run as by `corrupted_scores`.

    Raises:
        UserError: If a trained network or a data set is missing or damaged, or the images of `on` are of another kind.
    """
    rows: list[dict[str, Any]] = []
    right: dict[str, NDArray[np.float64]] = {}
    for run in opened_runs(runs, data_root, device, on):
        policy_draws = run.draws(draws)
        corrupted = corrupted_images(run.data.test, name, data_root)
        bins = run.trained.spec.protocol.calibration_bins
        found = corrupted_scores(run.network, corrupted, bins, policy_draws, after_each)
        common = run.keys | {"test_dataset": run.test_dataset, "test_images": len(run.data.test)}
        common |= {"draws": policy_draws.count if policy_draws else 0, "corruptions": name, "images": corrupted.images}
        rows += [common | row for row in found.rows]
        right[run.keys["folder"]] = found.right
    return CorruptionProbe(pd.DataFrame(rows, columns=list(COLUMNS)), right)


def summarise_corruptions(frame: pd.DataFrame, right: Mapping[str, NDArray[np.float64]] | None = None) -> pd.DataFrame:
    """Summarise scores on corrupted images.

    Args:
        frame: From `probe_corrupted`, or `Runs.shift`.
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
    rows, weights = [], Weights(1)  # over seeds alone, as if of one image
    for (comparison, kind, images), compared in frame.groupby(["comparison", *SOURCE], sort=False):
        errors = _errors(compared)
        for label, group in compared.groupby("label", sort=False):
            over_seeds = _main(group).groupby("seed")[list(SCORES)].mean()
            found = {metric: mean_interval(over_seeds[[metric]], weights=weights) for metric in SCORES}
            if right is not None:
                found["accuracy"] = mean_interval(np.stack([right[folder] for folder in group["folder"].unique()]))
            relative = _relative_error(errors, str(label), weights)
            rows.append(
                {
                    **{"comparison": comparison, "corruptions": kind, "images": images, "label": label},
                    "seeds": group["seed"].nunique(),
                    "clean": group.loc[group["severity"] == 0, "accuracy"].mean(),
                    **{key: value for name, one in found.items() for key, value in _columns(name, one).items()},
                    **_columns("mce", relative),
                }
            )
    return pd.DataFrame(rows)


def _columns(name: str, interval: Interval | None) -> dict[str, float | None]:
    ends = (interval.estimate, interval.low, interval.high) if interval else (None, None, None)
    return {
        column: math.nan if end is None else end
        for column, end in zip((name, f"{name}_low", f"{name}_high"), ends, strict=True)
    }


def _main(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[(frame["severity"] > 0) & ~frame["extra"]]


def _errors(frame: pd.DataFrame) -> pd.DataFrame:
    """Error over all severities of one comparison: a row for each label and seed, a column for each main corruption."""
    main = _main(frame)
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


def write_corruptions(probe: CorruptionProbe, out: Path) -> list[Path]:
    """Write `probe-<set>.csv` with the unrounded numbers, and the curves as PNG, PDF and SVG.

    Raises:
        UserError: If the folder cannot be written to.
    """
    (name,) = probe.frame["corruptions"].unique()
    stem = make_folder(out) / f"probe-{name}"
    table = stem.with_suffix(".csv")
    write_text(table, csv_text(probe.frame))
    kinds = " or ".join(probe.frame["images"].unique())
    count = _main(probe.frame)["corruption"].nunique()
    notes = [f"Mean over {count} corruptions of {BENCHMARKS[name]}, {kinds}; 0: the images without any."]
    curves = by_severity(probe.frame)
    return [table, *write_figure(curves_figure(curves, "Severity of the corruptions", "levels", notes), stem)]


def by_severity(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of each run by severity, `value`: the mean over the main corruptions; 0 for the clean images."""
    keys = [*KEYS, "dataset", "test_dataset", "draws", "severity"]
    means = frame[~frame["extra"]].groupby(keys, sort=False)["accuracy"].mean().reset_index()
    return means.rename(columns={"severity": "value"})
