"""The summary of a probe with corrupted images, worked by hand, and its curves."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from augbench.results.model.frame import KEYS
from augbench.results.statistics.bootstrap import mean_interval
from augbench.results.studies.corruption_probe import (
    COLUMNS,
    CorruptionProbe,
    accuracy_by_corruption,
    by_severity,
    summarise_corruptions,
    write_corruptions,
)

RIGHT = {0: np.array([1, 0.5, 0.25]), 1: np.array([0.5, 0.75, 0])}


def probe(curves: dict[tuple[str, int], dict[str, Sequence[float]]]) -> CorruptionProbe:
    """Make the probe of runs on digits by label and seed, from the accuracies by severity of each corruption."""
    rows = []
    for (label, seed), scores in curves.items():
        common = dict(zip(KEYS, (f"{label}-{seed}", "digits", label, label, seed), strict=True))
        common |= {"dataset": "digits", "test_dataset": "digits", "draws": 0, "test_images": 3}
        for name, accuracies in scores.items():
            for severity, accuracy in enumerate(accuracies, start=name != "clean"):
                own = {"corruption": name, "severity": severity, "extra": name == "speckle-noise"}
                rows.append(common | own | {"accuracy": accuracy, "nll": 2 * accuracy, "ece": accuracy / 4})
    right = {f"{label}-{seed}": RIGHT[seed] for label, seed in curves}
    return CorruptionProbe(pd.DataFrame(rows, columns=list(COLUMNS)), right)


PROBE = probe(
    {
        ("none", 0): {"clean": [0.9], "fog": [0.8, 0.6], "snow": [0.5, 0.3], "speckle-noise": [0.1, 0]},
        ("none", 1): {"clean": [0.8], "fog": [0.7, 0.7], "snow": [0.3, 0.5], "speckle-noise": [0.1, 0]},
        ("scale", 0): {"clean": [1.0], "fog": [0.9, 0.8], "snow": [0.3, 0.1], "speckle-noise": [0.9, 0.9]},
    }
)


def test_means_are_over_main_corruptions_severities_and_seeds() -> None:
    none, scale = summarise_corruptions(PROBE).to_dict("records")
    assert [(row["comparison"], row["label"], row["seeds"]) for row in (none, scale)] == [
        ("digits", "none", 2),
        ("digits", "scale", 1),
    ]
    for row, clean, corrupted in ((none, 0.85, 0.55), (scale, 1.0, 0.525)):
        assert [row[name] for name in ("clean", "accuracy", "nll", "ece")] == pytest.approx(
            [clean, corrupted, 2 * corrupted, corrupted / 4]
        )


def test_the_interval_is_over_seeds_and_images() -> None:
    none, scale = summarise_corruptions(PROBE).to_dict("records")
    expected = mean_interval(np.stack([RIGHT[0], RIGHT[1]]))
    assert (none["low"], none["high"]) == (expected.low, expected.high)
    assert np.isnan([scale["low"], scale["high"]]).all()


def test_the_mean_corruption_error_is_against_none() -> None:
    none, scale = summarise_corruptions(PROBE).to_dict("records")
    assert none["mce"] == pytest.approx(1)
    assert scale["mce"] == pytest.approx((0.15 / 0.3 + 0.8 / 0.6) / 2)  # errors of fog and of snow
    without = probe({("scale", 0): {"clean": [1.0], "fog": [0.9]}})
    perfect = probe({("none", 0): {"clean": [1.0], "fog": [1.0]}, ("scale", 0): {"clean": [1.0], "fog": [0.9]}})
    for given in (without, perfect):
        assert summarise_corruptions(given)["mce"].isna().all()


def test_accuracy_by_corruption_and_by_severity() -> None:
    table = accuracy_by_corruption(PROBE.frame)
    assert list(table.index) == ["fog", "snow", "speckle-noise"]
    np.testing.assert_allclose(table[["none", "scale"]], [[0.7, 0.85], [0.4, 0.2], [0.05, 0.9]])
    curves = by_severity(PROBE.frame)
    scale = curves[curves["label"] == "scale"]
    assert scale["value"].tolist() == [0, 1, 2]
    np.testing.assert_allclose(scale["accuracy"], [1, 0.6, 0.45])


@pytest.mark.slow
def test_the_files(tmp_path: Path) -> None:
    files = write_corruptions(PROBE, tmp_path)
    assert [path.name for path in files] == [f"probe-corruptions.{ending}" for ending in ("csv", "png", "pdf", "svg")]
    pd.testing.assert_frame_equal(pd.read_csv(files[0], dtype=PROBE.frame.dtypes.to_dict()), PROBE.frame)
