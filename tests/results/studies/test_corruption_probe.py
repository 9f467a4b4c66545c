"""The summary of a probe with corrupted images, worked by hand, and its curves."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from augbench.results.model.corruptions import COLUMNS, accuracy_by_corruption, by_severity, summarise_corruptions
from augbench.results.model.frame import KEYS
from augbench.results.statistics.bootstrap import mean_interval
from augbench.results.studies.corruption_probe import CorruptionProbe, write_corruptions

RIGHT = {0: np.array([1, 0.5, 0.25]), 1: np.array([0.5, 0.75, 0.3])}


def probe(curves: dict[tuple[str, int], dict[str, Sequence[float]]]) -> CorruptionProbe:
    """Make the probe of runs on digits by label and seed, from the accuracies by severity of each corruption."""
    rows = []
    for (label, seed), scores in curves.items():
        common = dict(zip(KEYS, (f"{label}-{seed}", "digits", label, label, seed), strict=True))
        common |= {"dataset": "digits", "test_dataset": "digits", "draws": 0, "test_images": 3}
        common |= {"corruptions": "corruptions", "images": "recomputed"}
        for name, accuracies in scores.items():
            for severity, accuracy in enumerate(accuracies, start=name != "clean"):
                own = {"corruption": name, "severity": severity, "extra": name == "speckle-noise"}
                rows.append(common | own | {"accuracy": accuracy, "nll": 2 * accuracy, "ece": accuracy / 4})
    right = {f"{label}-{seed}": RIGHT[seed] for label, seed in curves if seed in RIGHT}
    return CorruptionProbe(pd.DataFrame(rows, columns=list(COLUMNS)), right)


PROBE = probe(
    {
        ("none", 0): {"clean": [0.9], "fog": [0.8, 0.6], "snow": [0.5, 0.3], "speckle-noise": [0.1, 0]},
        ("none", 1): {"clean": [0.8], "fog": [0.7, 0.7], "snow": [0.3, 0.5], "speckle-noise": [0.1, 0]},
        ("scale", 0): {"clean": [1.0], "fog": [0.9, 0.8], "snow": [0.3, 0.1], "speckle-noise": [0.9, 0.9]},
    }
)


def test_means_are_over_main_corruptions_severities_and_seeds() -> None:
    none, scale = summarise_corruptions(PROBE.frame).to_dict("records")
    assert [(row["comparison"], row["label"], row["seeds"]) for row in (none, scale)] == [
        ("digits", "none", 2),
        ("digits", "scale", 1),
    ]
    for row, clean, corrupted in ((none, 0.85, 0.55), (scale, 1.0, 0.525)):
        assert [row[name] for name in ("clean", "accuracy", "nll", "ece")] == pytest.approx(
            [clean, corrupted, 2 * corrupted, corrupted / 4]
        )


def test_intervals_are_over_seeds_and_that_of_the_accuracy_over_images_too() -> None:
    none, scale = summarise_corruptions(PROBE.frame, PROBE.right).to_dict("records")
    expected = mean_interval(np.stack([RIGHT[0], RIGHT[1]]))
    assert (none["accuracy"], none["accuracy_low"], none["accuracy_high"]) == (
        expected.estimate,
        expected.low,
        expected.high,
    )
    for row, of_seeds in ((none, [[1.1, 1.1], [0.275 / 2, 0.275 / 2]]),):
        assert [row["nll_low"], row["nll_high"]] == pytest.approx(of_seeds[0])  # 0.55 with both seeds
        assert [row["ece_low"], row["ece_high"]] == pytest.approx(of_seeds[1])
    ends = [f"{name}_{end}" for name in ("accuracy", "nll", "ece", "mce") for end in ("low", "high")]
    assert np.isnan([scale[end] for end in ends]).all(), "one seed"
    assert np.isnan([none["mce_low"], none["mce_high"]]).all(), "1 whatever the seeds"


def test_two_seeds_by_hand() -> None:
    fog = {("none", 0): 0.4, ("none", 1): 0.6, ("scale", 0): 0.5, ("scale", 1): 0.7, ("scale", 2): 0.9}
    given = probe({key: {"clean": [1.0], "fog": [accuracy]} for key, accuracy in fog.items()})
    none, scale = summarise_corruptions(given.frame).to_dict("records")
    # two seeds are resampled to one of them in half of all cases; the spread is that of Student's distribution
    stretched = math.sqrt(2) * stats.t.ppf(0.975, 1) / stats.norm.ppf(0.975)
    for name, factor in (("accuracy", 1), ("nll", 2), ("ece", 0.25)):
        expected = [factor * (0.5 + sign * 0.1 * stretched) for sign in (-1, 1)]
        assert [none[f"{name}_low"], none[f"{name}_high"]] == pytest.approx(expected)
    # errors 0.5, 0.3 against 0.6, 0.4 of the common seeds: 0.8, and linear in the seeds' deviations from it
    values = [0.8 + (error - 0.8 * of_none) / 0.5 for error, of_none in ((0.5, 0.6), (0.3, 0.4))]
    half = abs(values[0] - values[1]) / 2 * stretched
    assert [scale["mce"], scale["mce_low"], scale["mce_high"]] == pytest.approx([0.8, 0.8 - half, 0.8 + half])


def test_the_mean_corruption_error_is_against_none_with_the_same_seeds() -> None:
    none, scale = summarise_corruptions(PROBE.frame).to_dict("records")
    assert none["mce"] == pytest.approx(1)
    assert scale["mce"] == pytest.approx((0.15 / 0.3 + 0.8 / 0.6) / 2)  # errors of fog and of snow, seed 0
    without = probe({("scale", 0): {"clean": [1.0], "fog": [0.9]}})
    perfect = probe({("none", 0): {"clean": [1.0], "fog": [1.0]}, ("scale", 0): {"clean": [1.0], "fog": [0.9]}})
    other = probe({("none", 1): {"clean": [1.0], "fog": [0.5]}, ("scale", 0): {"clean": [1.0], "fog": [0.9]}})
    for given in (without, perfect, other):
        assert math.isnan(summarise_corruptions(given.frame).set_index("label").loc["scale", "mce"])


def test_no_mean_is_over_recomputed_and_original_images() -> None:
    frame = PROBE.frame.assign(images=np.where(PROBE.frame["seed"] == 0, "original", "recomputed"))
    found = summarise_corruptions(frame)
    assert found[["images", "label", "seeds"]].to_numpy().tolist() == [
        ["original", "none", 1],
        ["original", "scale", 1],
        ["recomputed", "none", 1],
    ]
    assert found["accuracy"].tolist() == pytest.approx([0.55, 0.525, 0.55])


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
