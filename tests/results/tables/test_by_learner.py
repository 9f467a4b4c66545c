"""Tables in the paper's layout, checked by hand: learners are columns, measures are rows."""

import csv
import io
import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from cells import cell, headings, texts

from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import Runs, load_runs
from augbench.results.tables.by_learner import (
    ablation_tables,
    accuracy_tables,
    calibration_tables,
    detailed_tables,
    svhn_tables,
)
from augbench.results.tables.formats import to_csv

WriteRun = Callable[..., RunFolder]
SET = "mnist5k (size=14)"


@pytest.fixture
def two_seeds(tmp_path: Path, write_run: WriteRun) -> Runs:
    """Two methods with two seeds each; hours of training and search are 1 to 5."""
    for seed in (0, 1):
        hour = 3600.0
        write_run("none", seed=seed, accuracy=0.8, training_seconds=hour + seed * hour)
        write_run(
            "scale", seed=seed, accuracy={0: 0.85, 4: 0.86, 8: 0.87}, training_seconds=3 * hour, search_seconds=2 * hour
        )
    return load_runs(tmp_path)


def test_accuracy_and_hours(two_seeds: Runs) -> None:
    (table,) = accuracy_tables(two_seeds)
    assert headings(table) == ["none", "scale"]
    assert texts(table) == {
        "Accuracy (%)": ["80.0 ± 0.0", "85.0 ± 0.0"],
        "Accuracy, 4 draws (%)": ["–", "86.0 ± 0.0"],
        "Accuracy, 8 draws (%)": ["–", "87.0 ± 0.0"],
        "Hours": ["1.5 ± 0.7", "5.0 ± 0.0"],
        "Extra hours": ["–", "+3.5 ± 0.7"],  # 4 and 3, seed by seed
    }
    assert [row.seeds for row in table.rows] == [2] * 5
    assert table.label_heading == "Measure"
    assert "data set version 1" in table.notes[0]
    assert "split: test" in table.notes[0]
    assert "Extra: hours more than none, one copy of each image, with the same seed" in " ".join(table.definitions)
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert len(lines) == 7
    (hours,) = [line for line in lines if line["metric"] == "extra_hours"]
    assert (hours["method"], hours["dataset"], hours["device"]) == ("scale", SET, "cpu one")
    assert (hours["unit"], hours["mean"], hours["n"], hours["asked"], hours["draws"]) == ("hours", "3.5", "2", "2", "")
    (drawn,) = [line for line in lines if line["draws"] == "8"]
    assert (drawn["metric"], drawn["method"], drawn["mean"]) == ("accuracy", "scale", "0.87")


def test_a_missing_seed_is_said_in_the_cell(tmp_path: Path, write_run: WriteRun) -> None:
    for seed in (0, 1, 2):
        write_run("none", seed=seed, accuracy=0.8)
        write_run("fixed", seed=seed, accuracy=0.8)
        write_run("scale", seed=seed, accuracy=0.9, state=RunState.DONE if seed else RunState.FAILED)
    (table,) = accuracy_tables(load_runs(tmp_path))
    assert cell(table, "Accuracy (%)", "scale").text == "90.0 ± 0.0 (2/3)"
    assert not cell(table, "Accuracy (%)", "scale").best
    assert cell(table, "Accuracy (%)", "none").best
    assert cell(table, "Extra minutes", "scale").text.endswith(" (2/3)")
    assert {row.seeds for row in table.rows} == {3}


def test_hours_of_different_devices_stand_in_different_rows(tmp_path: Path, write_run: WriteRun) -> None:
    for seed in (0, 1):
        write_run("none", seed=seed, training_seconds=3600.0, device="gpu two", gpu=True)
        write_run("scale", seed=seed, training_seconds=7200.0, device="gpu two" if seed else "cpu one", gpu=bool(seed))
    write_run("fixed", training_seconds=3600.0, device="cpu one + gpu two")
    (table,) = accuracy_tables(load_runs(tmp_path))
    assert texts(table) == {
        "Accuracy (%)": ["90.0 ± 0.0", "90.0 (1/2)", "90.0 ± 0.0"],
        "Hours, cpu one": ["–", "–", "2.0 (1/2)"],
        "GPU-hours, gpu two": ["1.0 ± 0.0", "–", "2.0 (1/2)"],
        "Extra GPU-hours, gpu two": ["–", "–", "+1.0 (1/2)"],
    }
    assert {shown.device for row in table.rows if "gpu two" in row.label for shown in row.cells} == {"gpu two", ""}
    assert "(k/N): only k of the N seeds ran on that one device" in " ".join(table.definitions)


def test_plain_steps_are_averaged_over_devices(tmp_path: Path, write_run: WriteRun) -> None:
    slow, fast = {"device": "cpu one", "plain_step_ms": (9.0, 10.0, 12.0)}, {"device": "gpu two", "gpu": True}
    write_run("none", plain_steps=1000.0, training_seconds=10.0, **slow)
    write_run("none", seed=1, plain_steps=1200.0, training_seconds=2.4, plain_step_ms=(2.0, 2.0, 2.2), **fast)
    write_run("scale", plain_steps=10_000.0, training_seconds=100.0, **slow)
    write_run("scale", seed=1, plain_steps=11_000.0, **fast)
    write_run("scale", seed=2)  # of an earlier version
    write_run("fixed", device="cpu one + gpu two", plain_steps=2000.0)  # went on elsewhere
    write_run("augerino")
    (table,) = accuracy_tables(load_runs(tmp_path))
    shown = dict(zip(headings(table), texts(table)["Plain steps (thousands)"], strict=True))
    assert shown == {
        "none": "1.1 ± 0.1 (2/3)",
        "fixed": "2.0 (1/3)",
        "augerino": "–",
        "scale": "10.5 ± 0.7 (2/3)",
    }
    scale = cell(table, "Plain steps (thousands)", "scale")
    assert (scale.mean, scale.sd, scale.count) == (10_500.0, pytest.approx(500 * math.sqrt(2)), 2)
    (said,) = [text for text in table.definitions if text.startswith("Plain steps: ")]
    # none on each device, scale on each, fixed on both; quartiles 30 and 30, and 10 and 0 % apart
    assert "10 ms on cpu one (quartiles within a run 30 % apart)" in said
    assert "2 ms on gpu two (quartiles within a run 5 % apart)" in said
    assert "2 ms on cpu one + gpu two" in said


def test_runs_of_earlier_versions_have_no_plain_steps(two_seeds: Runs) -> None:
    assert not any(row.label.startswith("Plain steps") for row in accuracy_tables(two_seeds)[0].rows)
    assert two_seeds.runs["plain_steps"].isna().all()


def test_few_hours_are_shown_in_minutes_and_kept_in_hours(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", training_seconds=90.0)
    write_run("scale", training_seconds=60.0)
    (table,) = accuracy_tables(load_runs(tmp_path))
    assert cell(table, "Minutes", "none").text == "1.5"
    assert cell(table, "Extra minutes", "scale").text == "−0.5"
    assert cell(table, "Extra minutes", "scale").mean == pytest.approx(-30 / 3600)


def test_without_none_nothing_is_extra(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale")
    write_run("none", settings={"prior": 3}, dataset="rotmnist5k")
    write_run("none", settings={"prior": 4}, dataset="rotmnist5k")
    (table,) = accuracy_tables(load_runs(tmp_path))
    assert not any(row.label.startswith("Extra") for row in table.rows)


def test_deviations_over_seeds_and_over_repeats(two_seeds: Runs) -> None:
    assert detailed_tables(two_seeds) == [], "none has been recorded"
    drawn = (two_seeds.scores["draws"] == 4) & (two_seeds.scores["metric"] == "accuracy")
    two_seeds.scores.loc[drawn, "sd_repeats"] = [0.003, 0.004]
    two_seeds.scores.loc[drawn, "value"] = [0.86, 0.87]
    (table,) = detailed_tables(two_seeds)
    assert texts(table) == {
        "Accuracy, 4 draws (%)": ["86.50 ± 0.71"],
        "sd over repeats, 4 draws (points)": ["0.35"],  # √((0.3² + 0.4²) / 2)
        "Accuracy, 8 draws (%)": ["87.00 ± 0.00"],
    }
    shown = cell(table, "sd over repeats, 4 draws (points)", "scale").mean
    assert shown is not None and math.isclose(shown, math.sqrt(0.0000125))


def test_the_ablation_is_of_three_methods_on_their_data_sets(tmp_path: Path, write_run: WriteRun) -> None:
    for method in ("none", "augerino", "scale"):
        write_run(method)
    assert ablation_tables(load_runs(tmp_path)) == []
    for method in ("scale-norm", "augerino-pb"):
        write_run(method, accuracy={0: 0.7, 4: 0.75})
    write_run("scale", dataset="rotmnist5k")
    (table,) = ablation_tables(load_runs(tmp_path))
    assert texts(table) == {
        "Accuracy (%)": ["70.0", "70.0", "90.0"],
        "Accuracy, 4 draws (%)": ["75.0", "75.0", "–"],
    }
    assert headings(table) == ["augerino-pb", "scale-norm", "scale"]


def test_house_numbers_have_one_row(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", accuracy={0: 0.9, 4: 0.95})
    assert svhn_tables(load_runs(tmp_path)) == []
    for seed, shift in enumerate((0, 0.001, -0.001)):
        write_run("scale", dataset="svhn", options={}, seed=seed, accuracy={0: 0.974 + shift, 4: 0.98})
        write_run("dada", dataset="svhn", options={}, seed=seed, accuracy=0.966)
    (table,) = svhn_tables(load_runs(tmp_path))
    assert texts(table) == {"Accuracy (%)": ["96.6 ± 0.0", "97.4 ± 0.1"]}
    assert cell(table, "Accuracy (%)", "scale").best


def test_calibration_by_draws(two_seeds: Runs) -> None:
    is_ece = two_seeds.scores["metric"] == "ece"
    two_seeds.scores.loc[is_ece & (two_seeds.scores["draws"] == 8), "value"] = [0.01, 0.03]
    (table,) = calibration_tables(two_seeds)
    assert [row.label for row in table.rows] == [
        *("ECE", "ECE, 4 draws", "ECE, 8 draws"),
        *("ECE, equal mass", "ECE, equal mass, 4 draws", "ECE, equal mass, 8 draws"),
        *("NLL", "NLL, 4 draws", "NLL, 8 draws"),
        *("Brier", "Brier, 4 draws", "Brier, 8 draws"),
    ]
    assert cell(table, "ECE, 8 draws", "scale").text == "0.020 ± 0.014"
    assert cell(table, "ECE, equal mass", "none").text == "0.050 ± 0.000"
    assert "15 equal-width bins" in table.definitions[0]
    assert "15 bins of about equally many images" in table.definitions[0]
    assert table.definitions[1].startswith("With 4 or 8 draws:")


def test_two_versions_of_a_method_are_two_columns(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", version=1, accuracy=0.5)
    write_run("scale", version=2, accuracy=0.9)
    (table,) = accuracy_tables(load_runs(tmp_path))
    assert headings(table) == ["scale (version=1)", "scale (version=2)"]
    assert texts(table)["Accuracy (%)"] == ["50.0", "90.0"]
    assert any("Versions of a method are separate" in note for note in table.notes)


def test_a_score_that_is_not_a_number_is_no_average(two_seeds: Runs) -> None:
    chosen = (two_seeds.scores["metric"] == "accuracy") & (two_seeds.scores["label"] == "scale")
    two_seeds.scores.loc[chosen & (two_seeds.scores["seed"] == 0), "value"] = math.nan
    (table,) = accuracy_tables(two_seeds)
    assert cell(table, "Accuracy (%)", "scale").text == "not a number"
    frame = pd.read_csv(io.StringIO(to_csv(table)))
    assert frame[(frame["metric"] == "accuracy") & (frame["method"] == "scale")].empty
