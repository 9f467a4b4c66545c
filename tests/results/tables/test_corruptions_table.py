"""The tables of probes with corrupted images and with those of other data sets, worked by hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cells import headings, texts
from probed import corruption_rows, outside_rows, overlap_rows
from scipy import stats

from augbench.bench.runs.run_folder import RunFolder
from augbench.results.model.frame import Runs, load_runs
from augbench.results.tables.corruptions import corruptions_tables
from augbench.results.tables.outside import outside_tables

WriteRun = Callable[..., RunFolder]


@pytest.fixture
def runs(write_run: WriteRun, tmp_path: Path) -> Runs:
    """Two methods with two seeds, one of which was not probed, and a method without any probe."""
    for method in ("none", "scale"):
        for seed in (0, 1):
            write_run(method, seed=seed)
    write_run("fixed")
    found = load_runs(tmp_path)
    rows = [row for row in found.finished().to_dict("records") if row["method"] != "fixed"]
    return replace(found, corruptions=corruption_rows(rows[:3]))


def test_means_are_over_severities_then_seeds(runs: Runs) -> None:
    (table,) = corruptions_tables(runs)
    assert headings(table) == ["none", "scale"]
    # at mean severity fog takes 6 points and snow 12; the seed 1 adds a point
    assert texts(table) == {
        "Accuracy, clean (%)": ["80.5 ± 0.7", "90.0 (1/2)"],
        # half a point between two seeds and their mean, times √2 t/z = 9.17
        "cA (%)": ["71.5 [66.9, 76.1]", "81.0 (1/2)"],
        "cNLL": ["0.570 [0.478, 0.662]", "0.380 (1/2)"],
        "cCE (%)": ["7.1 [6.0, 8.3]", "4.8 (1/2)"],
        "mCE (%)": ["100.0", "65.1 (1/2)"],  # 16 / 26 and 22 / 32, those of the seed 0
        "fog (%)": ["74.5 ± 0.7", "84.0 (1/2)"],
        "snow (%)": ["68.5 ± 0.7", "78.0 (1/2)"],
        "speckle-noise, extra (%)": ["74.5 ± 0.7", "84.0 (1/2)"],
    }
    said = " ".join((*table.notes, *table.definitions))
    for words in ("recomputed", "mean over 2 corruptions", "Finished runs without such scores: fixed on", "scale on"):
        assert words in said
    assert "bold" not in said.lower().replace("neither ranked nor bold", "")


def test_the_interval_of_the_mean_corruption_error_is_paired_by_seed(runs: Runs) -> None:
    rows = [row for row in runs.finished().to_dict("records") if row["method"] != "fixed"]
    (table,) = corruptions_tables(replace(runs, corruptions=corruption_rows(rows)))
    none, scale = np.array([[0.26, 0.32], [0.25, 0.31]]), np.array([[0.16, 0.22], [0.15, 0.21]])  # seeds × fog, snow
    ratios = scale.mean(0) / none.mean(0)
    values = (ratios + (scale - ratios * none) / none.mean(0)).mean(1)
    half = abs(values[0] - values[1]) / 2 * np.sqrt(2) * stats.t.ppf(0.975, 1) / stats.norm.ppf(0.975)
    low, middle, high = (f"{100 * value:.1f}" for value in (ratios.mean() - half, ratios.mean(), ratios.mean() + half))
    assert texts(table)["mCE (%)"] == ["100.0", f"{middle} [{low}, {high}]"]
    assert "paired by seed" in " ".join(table.definitions)


def test_sets_and_sources_are_never_averaged(runs: Runs) -> None:
    frame = runs.corruptions
    original = frame.assign(images=np.where(frame["label"] == "scale", "original", "recomputed"))
    bar = frame[frame["label"] == "none"].assign(corruptions="corruptions-bar", images="original")
    both = replace(runs, corruptions=pd.concat([original, bar], ignore_index=True))
    (table,) = corruptions_tables(both)
    assert table.title.endswith("CIFAR-10-C, recomputed or original")
    found = texts(table)
    assert found["cA, recomputed (%)"] == ["71.5 [66.9, 76.1]", "–"]
    assert found["cA, original (%)"] == ["–", "81.0 (1/2)"]
    assert found["snow, original (%)"] == ["–", "78.0 (1/2)"]
    assert "mCE, original (%)" not in found
    assert "On mnist5k (size=14): Corruptions are the original" in " ".join(table.definitions)
    (table,) = corruptions_tables(both, "corruptions-bar")
    assert (table.name, headings(table)) == ("corruptions-bar", ["none"])
    assert table.title.endswith("CIFAR-10-C̄, original") and "Mintun" in " ".join(table.definitions)


def test_without_none_there_is_no_mean_corruption_error(runs: Runs) -> None:
    frame = runs.corruptions
    (table,) = corruptions_tables(replace(runs, corruptions=frame[frame["label"] != "none"]))
    assert "mCE (%)" not in texts(table)
    assert corruptions_tables(replace(runs, corruptions=frame.iloc[:0])) == []


def test_draws_and_other_images_are_said(runs: Runs) -> None:
    frame = runs.corruptions.assign(draws=4, test_dataset="letters")
    (table,) = corruptions_tables(replace(runs, corruptions=frame))
    said = " ".join(table.definitions)
    assert (
        "averaged over 4 test-time draws" in said and "mnist5k (size=14): the test images are those of letters" in said
    )
    assert "test-time" not in " ".join(corruptions_tables(runs)[0].definitions)


def test_distances_stand_beside_the_scores(runs: Runs) -> None:
    rows = [row for row in runs.finished().to_dict("records") if row["method"] == "none" or row["seed"] == 0]
    (table,) = corruptions_tables(replace(runs, overlap=overlap_rows(rows)))
    found = texts(table)
    assert {name: cells for name, cells in found.items() if name.startswith("Distance")} == {
        "Distance (%)": ["100.0 ± 0.0", "65.0 (1/2)"],  # of fog and snow; without scores fixed is not there
        "Distance, fog (%)": ["100.0 ± 0.0", "50.0 (1/2)"],
        "Distance, snow (%)": ["100.0 ± 0.0", "80.0 (1/2)"],
        "Distance, speckle-noise (%)": ["100.0 ± 0.0", "10.0 (1/2)"],
    }
    assert "50 transforms drawn from the learner" in " ".join(table.definitions)
    (table,) = corruptions_tables(replace(runs, overlap=overlap_rows(rows).query("label == 'none'")))
    assert texts(table)["Distance (%)"] == ["100.0 ± 0.0", "–"], "a learner that mixes images"
    assert "Distance" not in " ".join(corruptions_tables(runs)[0].definitions)


def test_images_of_other_data_sets(runs: Runs) -> None:
    assert outside_tables(runs) == []
    rows = [row for row in runs.finished().to_dict("records") if row["method"] != "fixed"]
    (table,) = outside_tables(replace(runs, outside=outside_rows(rows[:3])))
    assert texts(table) == {
        "AUROC, confidence, against letters (%)": ["80.5 ± 0.7", "80.0 (1/2)"],
        "FPR95, confidence, against letters (%)": ["19.5 ± 0.7", "20.0 (1/2)"],
        "AUROC, energy, against letters (%)": ["85.5 ± 0.7", "85.0 (1/2)"],
        "FPR95, energy, against letters (%)": ["14.5 ± 0.7", "15.0 (1/2)"],
        "AUROC, confidence, against clothes (%)": ["90.5 ± 0.7", "90.0 (1/2)"],
        "FPR95, confidence, against clothes (%)": ["9.5 ± 0.7", "10.0 (1/2)"],
        "AUROC, energy, against clothes (%)": ["95.5 ± 0.7", "95.0 (1/2)"],
        "FPR95, energy, against clothes (%)": ["4.5 ± 0.7", "5.0 (1/2)"],
    }
    assert "Finished runs without such scores: fixed on" in " ".join(table.definitions)
