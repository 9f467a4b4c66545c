"""Frames of how near learners come to corruptions in training, as `augbench probe --kind overlap` writes."""

import pandas as pd

from augbench.results.model.corruptions import REFERENCE
from augbench.results.records.rows import KEYS

PROBE_FILE = "probe-overlap.csv"
COLUMNS = (
    *(*KEYS, "dataset", "corruptions", "images", "corruption", "severity", "extra"),
    *("distance", "identity", "transforms", "test_images"),
)
"""Columns of the frame and of its CSV file: the smallest `distance` between the mean features of corrupted images and
of those under one of so many `transforms` of the learner, and that of the images as they are, `identity`. Others are
those of scores on corrupted images."""

_OF_RUN = ["comparison", "label", "seed", "folder"]


def relative_distances(frame: pd.DataFrame) -> pd.DataFrame:
    """Average distances over severities, and divide them by those of the images as they are.

    Args:
        frame: With `COLUMNS`.

    Returns:
        A row for each run and corruption: `comparison`, `label`, `seed`, `folder`, `corruptions`, `corruption`, `extra`
        and `relative`, 1 for images as they are; NaN where the corruption changes nothing.
    """
    keys = [*_OF_RUN, "corruptions", "corruption", "extra"]
    means = frame.astype({"distance": float, "identity": float}).groupby(keys, sort=False)[["distance", "identity"]]
    found = means.mean()
    relative = found["distance"] / found["identity"].where(found["identity"] > 0)
    return relative.rename("relative").reset_index()


def mean_distances(relative: pd.DataFrame) -> pd.DataFrame:
    """Average over the corruptions that count: a row for each run and set, with `relative`; from the above."""
    main = relative[~relative["extra"].astype(bool)]
    return main.groupby([*_OF_RUN, "corruptions"], sort=False)["relative"].mean().reset_index()


def gains(scores: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Put what learners gain on each corruption beside how near they came to it.

    Args:
        scores: Scores on corrupted images, `Runs.corruptions`.
        frame: With `COLUMNS`.

    Returns:
        A row for each comparison, set, learner but `none`, and corruption: `comparison`, `corruptions`, `label`,
        `corruption`, and means over `seeds` of `relative` and of `gain`, the accuracy over all severities less that of
        `none` with the same seed.
    """
    group = ["comparison", "seed", "corruptions", "images", "corruption"]
    corrupted = scores[scores["severity"] > 0].groupby(["folder", "label", *group], sort=False)["accuracy"]
    accuracy = corrupted.mean().reset_index()
    of_none = accuracy.loc[accuracy["label"] == REFERENCE, [*group, "accuracy"]]
    others = accuracy[accuracy["label"] != REFERENCE]
    both = others.merge(of_none, on=group, suffixes=("", "_of_none"))
    near = relative_distances(frame)[["folder", "corruptions", "corruption", "relative"]].dropna()
    found = both.merge(near, on=["folder", "corruptions", "corruption"])
    found["gain"] = (found["accuracy"] - found["accuracy_of_none"]).astype(float)
    by_learner = found.groupby(["comparison", "corruptions", "label", "corruption"], sort=False)
    means = by_learner.agg(relative=("relative", "mean"), gain=("gain", "mean"), seeds=("seed", "nunique"))
    return means.reset_index()
