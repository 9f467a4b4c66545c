"""Distances relative to unchanged images, and the gains beside them, worked by hand."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from augbench.results.model.overlap import COLUMNS, gains, mean_distances, relative_distances

RUNS = (("none", 0), ("none", 1), ("mine", 0), ("mine", 1))


def frame(distances: dict[tuple[str, int], dict[str, Sequence[float]]]) -> pd.DataFrame:
    """Make distances by label and seed, from those of two severities by corruption; unchanged images: 2 and 4."""
    lines = []
    for (label, seed), by_corruption in distances.items():
        common = {"folder": f"{label}-{seed}", "comparison": "digits", "label": label, "method": label, "seed": seed}
        for corruption, of_severities in by_corruption.items():
            for severity, distance in enumerate(of_severities, 1):
                unchanged = 0 if corruption == "still" else 2 * severity
                own = {"corruption": corruption, "severity": severity, "extra": corruption == "extra"}
                common |= {"corruptions": "corruptions", "images": "recomputed", "transforms": 9, "test_images": 9}
                lines.append(common | own | {"distance": distance, "identity": unchanged})
    return pd.DataFrame(lines).reindex(columns=list(COLUMNS))


NEAR = frame(
    {
        ("none", 0): {"fog": [2, 4], "snow": [2, 4]},
        ("mine", 0): {"fog": [0, 3], "snow": [3, 3], "extra": [6, 6], "still": [1, 1]},
        ("mine", 1): {"fog": [1, 5], "snow": [0, 0]},
    }
)
SCORES = pd.DataFrame(
    [
        {"folder": f"{label}-{seed}", "comparison": "digits", "label": label, "seed": seed, "images": "recomputed"}
        | {"corruptions": "corruptions", "corruption": corruption, "severity": severity, "accuracy": accuracy}
        for (label, seed), base in zip(RUNS, (0.5, 0.6, 0.7, 0.75), strict=True)
        for corruption, severity, accuracy in (
            ("clean", 0, 1.0),
            ("fog", 1, base + 0.1),
            ("fog", 2, base - 0.1),
            ("snow", 1, base if label == "none" else 0.5),
        )
    ]
)


def test_distances_are_relative_to_those_of_unchanged_images() -> None:
    found = relative_distances(NEAR).query("folder == 'mine-0'").set_index("corruption")["relative"]
    expected = {"fog": 3 / 6, "snow": 6 / 6, "extra": 12 / 6, "still": np.nan}
    np.testing.assert_allclose(found[list(expected)], list(expected.values()))
    means = mean_distances(relative_distances(NEAR)).set_index(["label", "seed"])["relative"]
    assert means.to_dict() == {("none", 0): 1, ("mine", 0): 0.75, ("mine", 1): 0.5}


def test_gains_are_paired_with_none_by_seed() -> None:
    found = gains(SCORES, NEAR)
    assert found[["comparison", "corruptions", "label", "corruption", "seeds"]].to_numpy().tolist() == [
        ["digits", "corruptions", "mine", "fog", 2],
        ["digits", "corruptions", "mine", "snow", 2],
    ]
    assert found["relative"].tolist() == pytest.approx([(0.5 + 1) / 2, 0.5])
    assert found["gain"].tolist() == pytest.approx([(0.2 + 0.15) / 2, (0.0 - 0.1) / 2])
    one = gains(SCORES[SCORES["folder"] != "none-1"], NEAR)
    assert one["gain"].tolist() == pytest.approx([0.2, 0.0]) and set(one["seeds"]) == {1}


def test_without_none_or_distances_there_are_none() -> None:
    assert gains(SCORES, NEAR.iloc[:0]).empty
    assert gains(SCORES[SCORES["label"] == "mine"], NEAR).empty
    assert gains(SCORES.iloc[:0], NEAR.iloc[:0]).empty
