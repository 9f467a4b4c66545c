"""The numbers of the comparison table, checked by hand."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from cells import bold, cell, headings

from augbench.bench.common.files import write_json
from augbench.bench.experiment.acceleration import Acceleration
from augbench.bench.experiment.protocol import Budget
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import load_runs
from augbench.results.model.table import Cell
from augbench.results.report.cost_grid import cost_grid
from augbench.results.tables.comparison import comparison_table

WriteRun = Callable[..., RunFolder]


def test_means_and_deviations(tmp_path: Path, write_run: WriteRun) -> None:
    for seed, accuracy in enumerate((0.80, 0.90, 1.00)):
        write_run("none", seed=seed, accuracy=accuracy, training_seconds=10 + seed)
    table = comparison_table(load_runs(tmp_path))
    shown = cell(table, "none", "Accuracy (%)")
    # Deviations −0.1, 0, 0.1: the variance is 0.02 / 2.
    assert shown.text == "90.0 ± 10.0"
    assert shown.count == 3
    assert shown.mean is not None and math.isclose(shown.mean, 0.9)
    assert shown.sd is not None and math.isclose(shown.sd, 0.1)
    assert cell(table, "none", "Training (s)").text == "11 ± 1"
    assert cell(table, "none", "NLL").text == "0.250 ± 0.000"
    assert cell(table, "none", "Image passes").text == "8,000"
    assert any("n − 1 in the divisor), n = 3" in note for note in table.notes)
    assert table.notes[0] == (
        "mnist5k (size=14): data set version 1, 4,000 training images, evaluated on 4 images (split: test), network "
        "tiny, 2 epochs, n = 3 seeds, cpu one."
    )
    assert any("15 equal-width bins" in note for note in table.definitions)


def test_a_missing_seed_is_said_and_never_best(tmp_path: Path, write_run: WriteRun) -> None:
    for seed in range(3):
        write_run("none", seed=seed, accuracy=0.8)
        write_run("fixed", seed=seed, accuracy=0.75 + seed / 100)
    for seed in range(2):
        write_run("scale", seed=seed, accuracy=0.99)
    write_run("scale", seed=2, state=RunState.FAILED)
    table = comparison_table(load_runs(tmp_path))
    assert cell(table, "scale", "Accuracy (%)").text == "99.0 ± 0.0 (2/3)"
    assert not cell(table, "scale", "Accuracy (%)").best
    assert cell(table, "none", "Accuracy (%)").best
    assert table.rows[1].seeds == 3
    assert "Runs without a result so far: scale on mnist5k (size=14)." in table.notes
    assert any(note.startswith("1 of 9 runs has no result") for note in table.notes)
    assert any(note.startswith("(k/N): only k of the N requested seeds") for note in table.notes)


@pytest.mark.parametrize("seeds", [1, 2])
def test_where_nothing_can_be_tested_nothing_is_bold(tmp_path: Path, write_run: WriteRun, seeds: int) -> None:
    for seed in range(seeds):
        write_run("none", seed=seed, accuracy=0.95 + seed / 100)
        write_run("scale", seed=seed, accuracy={0: 0.9, 4: 0.93 + seed / 50})
    table = comparison_table(load_runs(tmp_path))
    assert bold(table) == []
    said = [text for text in table.definitions if "bold" in text.lower()]
    assert [text.partition(":")[0] for text in said] == ["Nothing is bold on mnist5k (size=14)"]
    assert "at least 3 seeds" in said[0]
    assert table.bold == "Nothing is bold on mnist5k (size=14): a test takes two methods with 3 seeds at least."


def test_bold_is_whoever_is_not_shown_to_be_beaten(tmp_path: Path, write_run: WriteRun) -> None:
    noise = (0.000, 0.001, -0.001, 0.002, -0.002)
    for seed, shift in enumerate(noise):
        write_run("none", seed=seed, accuracy=0.80 + shift)
        write_run("fixed", seed=seed, accuracy=0.90 + (0.002 if seed % 2 else -0.001))
        write_run("scale", seed=seed, accuracy=0.901 + shift)
    write_run("none", accuracy=0.5, dataset="rotmnist5k")
    table = comparison_table(load_runs(tmp_path))
    # scale − fixed: 2, 0, 1, 1, 0 thousandths; t = 0.8 / (0.8367 / √5) = 2.14 with 4 degrees of freedom, p = 0.099
    accuracies = [place[1:] for place in bold(table) if place[2].startswith("Accuracy")]
    assert accuracies == [("fixed", "Accuracy (%)"), ("scale", "Accuracy (%)")]
    meaning, untested = [text for text in table.definitions if text.startswith(("Bold", "Nothing"))]
    assert "no other one significantly beats" in meaning
    assert "Few seeds show few differences" in meaning
    assert untested.startswith("Nothing is bold on rotmnist5k (size=14):")
    assert table.bold.startswith("Bold: ")
    groups = [cell(table, label, "Group", "mnist5k (size=14)").text for label in ("none", "fixed", "scale")]
    assert groups == ["b", "a", "ab"], "a difference that is the same with every seed is not tested"
    assert cell(table, "none", "Group", "rotmnist5k (size=14)").text == "–", "one seed is not tested"


def test_of_errors_the_lowest_is_the_best(tmp_path: Path, write_run: WriteRun) -> None:
    for seed in range(3):
        write_run("none", seed=seed)
        write_run("scale", seed=seed)
    runs = load_runs(tmp_path)
    is_worse = (runs.scores["metric"] == "ece") & (runs.scores["label"] == "scale")
    runs.scores.loc[is_worse, "value"] = (0.2, 0.21, 0.22)
    assert [label for _, label, heading in bold(comparison_table(runs)) if heading == "ECE"] == ["none"]


def test_what_is_not_a_number_is_said_and_averages_nothing(tmp_path: Path, write_run: WriteRun) -> None:
    for seed in (0, 1, 2):
        for method in ("none", "fixed", "scale"):
            write_run(method, seed=seed)
    runs = load_runs(tmp_path)
    is_one = (runs.scores["metric"] == "nll") & (runs.scores["label"] == "scale") & (runs.scores["seed"] == 1)
    runs.scores.loc[is_one, "value"] = math.nan
    shown = cell(comparison_table(runs), "scale", "NLL")
    assert (shown.text, shown.mean, shown.best) == ("not a number", None, False)
    assert cell(comparison_table(runs), "none", "NLL").best


def test_methods_without_a_policy_have_no_entries_for_draws(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    write_run("scale", accuracy={0: 0.9, 4: 0.93, 8: 0.94})
    table = comparison_table(load_runs(tmp_path))
    for heading in ("Accuracy, 4 draws (%)", "Accuracy, 8 draws (%)", "ECE, 8 draws"):
        assert cell(table, "none", heading) == Cell("–")
    assert [column.draws for column in table.columns if column.metric == "accuracy"] == [0, 4, 8]


def test_the_time_ratio_counts_the_search(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", training_seconds=10)
    write_run("scale", training_seconds=20, search_seconds=15)
    write_run("scale", training_seconds=20, dataset="rotmnist5k")
    table = comparison_table(load_runs(tmp_path))
    ratio = headings(table).index("Time / none")
    assert [row.cells[ratio].text for row in table.rows] == ["×1.0", "×3.5", "–"]


def test_plain_steps_count_search_and_training_with_three_digits(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", plain_steps=62.0)
    write_run("scale", plain_steps=241.0)
    write_run("none", plain_steps=62_000.0, dataset="rotmnist5k")
    folder = write_run("scale", plain_steps=241_000.0, dataset="rotmnist5k")
    result = json.loads((folder.path / "result.json").read_text())
    result["plain_steps"]["search"] = 200_000.0  # evaluation has a million, which are not counted
    write_json(folder.path / "result.json", result)
    table = comparison_table(load_runs(tmp_path))
    column = headings(table).index("Plain steps (thousands)")
    assert headings(table)[column - 1] == "Time / none"
    assert [row.cells[column].text for row in table.rows] == ["0.062", "0.241", "62", "441"]
    grid = cost_grid(load_runs(tmp_path))
    assert grid is not None
    index = [column.heading for column in grid.columns].index("Plain steps (thousands)")
    assert [(row[index].text, row[index].value) for row in grid.rows][-1] == ("441", 441_000.0)
    assert grid.notes[-1].startswith("Plain steps: ")


def test_budgets_that_are_equal_in_passes_say_so(tmp_path: Path, write_run: WriteRun) -> None:
    equal = {"equal": "passes", "copies_in_batch": True}
    for budget in ({}, equal, {"equal": "passes"}):
        write_run("none", budget=budget)
    assert [row.budget for row in comparison_table(load_runs(tmp_path)).rows] == [
        "2 epochs",
        "2 epochs of passes",
        "2 epochs of passes (copies in the batch)",
    ]


def test_the_time_ratio_is_to_none_with_one_copy_of_each_image(tmp_path: Path, write_run: WriteRun) -> None:
    for method, seconds in (("none", 40), ("scale", 44)):
        write_run(method, training_seconds=seconds, budget={"baseline_copies": 4})
    table = comparison_table(load_runs(tmp_path))
    assert {cell(table, method, "Time / none").text for method in ("none", "scale")} == {"–"}
    assert "those of none, one copy of each image" in " ".join(table.definitions)


def test_seconds_of_search_training_and_evaluation(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", training_seconds=10)
    write_run("fast-aa", settings={"policy": ["given"]}, search_seconds=0.02)  # there was nothing to search for
    before = headings(comparison_table(load_runs(tmp_path)))
    assert before[-4:] == ["Training (s)", "Evaluation (s)", "Time / none", "Image passes"]
    assert "Search (s)" not in before
    write_run("dada", training_seconds=20, search_seconds=150, search_passes=4000)
    table = comparison_table(load_runs(tmp_path))
    assert cell(table, "dada", "Search (s)").text == "150"
    assert cell(table, "none", "Search (s)") == cell(table, "fast-aa", "Search (s)") == Cell("–")
    assert cell(table, "dada", "Training (s)").text == "20"
    assert cell(table, "dada", "Evaluation (s)").text == "1.0"
    assert any(note.startswith("Search, Training, Evaluation: wall-clock") for note in table.definitions)


def test_a_checksum_in_place_of_a_setting_is_explained(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("fast-aa")
    explanation = "#… is the start of the sha256 of a setting's content, which is too long to be shown."
    assert explanation not in comparison_table(load_runs(tmp_path)).notes
    write_run("fast-aa", settings={"policy": [["Rotate", 0.5, 0.7], ["Color", 0.3, 0.4]]})
    assert explanation in comparison_table(load_runs(tmp_path)).notes


def test_seconds_of_different_devices_are_never_averaged(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", training_seconds=10)
    write_run("none", training_seconds=10, seed=1)
    write_run("scale", training_seconds=30)
    write_run("scale", training_seconds=3, seed=1, device="gpu two")
    write_run("fixed", training_seconds=4, device="gpu two")
    write_run("fixed", training_seconds=4, seed=1, device="gpu two")
    for seed in (0, 1):
        write_run("dada", training_seconds=30, seed=seed, device="cpu one + gpu two")  # continued elsewhere
    table = comparison_table(load_runs(tmp_path))
    for method in ("scale", "dada"):
        assert cell(table, method, "Training (s)") == Cell("several devices")
        assert cell(table, method, "Evaluation (s)") == Cell("several devices")
        assert cell(table, method, "Time / none") == Cell("–")
    assert cell(table, "fixed", "Time / none") == Cell("–")
    assert cell(table, "fixed", "Evaluation (s)").text == "1.0 ± 0.0 (gpu two)"
    assert cell(table, "fixed", "Training (s)").text == "4.0 ± 0.0 (gpu two)"
    assert "cpu one" in table.notes[0] and "gpu two" in table.notes[0]


def test_settings_and_what_is_missing_are_said(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    write_run("scale", settings={"prior": 0.5, "copies": 2})
    write_run("fixed", state=RunState.FAILED)
    write_run("none", dataset="rotmnist5k")
    table = comparison_table(load_runs(tmp_path))
    notes = table.notes
    assert "Not at their defaults: scale with copies=2, prior=0.5." in notes
    assert "Runs without a result so far: fixed on mnist5k (size=14)." in notes
    assert notes[0].startswith("mnist5k (size=14) and rotmnist5k (size=14): data set version 1, 4,000 training images")
    assert "n = 1 seed: how much results vary with the seed is unknown." in notes
    assert not any("±" in note for note in notes), "there is one seed only"
    assert all("±" not in cell.text and cell.sd is None for row in table.rows for cell in row.cells)


def test_all_warnings_stand_below_the_table(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    write_run("scale")
    assert load_runs(tmp_path).warnings() == []
    write_run("fixed", code={"commit": "fedcba9876543210", "dirty": True})
    write_run("dada", state=RunState.FAILED)
    runs = load_runs(tmp_path)
    assert len(runs.warnings()) >= 3
    assert set(runs.warnings()) <= set(comparison_table(runs).notes)
    assert any("0123456789" in note and "fedcba9876" in note for note in comparison_table(runs).notes)


def test_settings_and_budgets_never_share_a_row(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("scale", settings={"estimator": "rloo"})
    write_run("scale", settings={"estimator": "pooled"}, seed=1)
    write_run("scale", settings={"estimator": "pooled"}, seed=1, epochs=9)
    rows = comparison_table(load_runs(tmp_path)).rows
    assert [(row.budget, row.label) for row in rows] == [
        ("2 epochs", "scale (estimator=pooled)"),
        ("2 epochs", "scale (estimator=rloo)"),
        ("9 epochs", "scale"),
    ]


def test_of_many_missing_runs_a_few_are_named(tmp_path: Path, write_run: WriteRun) -> None:
    write_run()
    for number in range(9):
        write_run(f"learner-{number}", state=RunState.PLANNED)
    (note,) = [note for note in comparison_table(load_runs(tmp_path)).notes if note.startswith("Runs without a result")]
    assert note.count("learner-") == 6
    assert note.endswith("learner-5 on mnist5k (size=14) and 3 more.")


def test_one_epoch_is_no_result(write_run: WriteRun, tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run("none", seed=seed, epochs=1)
        write_run("scale", seed=seed, epochs=1, accuracy={0: 0.9, 1: 0.9})
    table = comparison_table(load_runs(tmp_path))
    assert "Accuracy, 1 draw (%)" in headings(table)
    assert any("With 1 draw: class probabilities" in text for text in table.definitions)
    assert table.notes[0].endswith("trained for one epoch, to see whether everything runs; accuracies mean nothing.")
    assert bold(table) == []
    assert not any("mean nothing" in note for note in table.notes[1:])
    runs = load_runs(tmp_path)  # the budget tells, and not its name
    runs.runs["budget"] = "a single pass"
    assert "mean nothing" in comparison_table(runs).notes[0]
    runs.runs["budget"], runs.runs["epochs"] = "1 epoch of 90", 90
    assert not any("mean nothing" in note for note in comparison_table(runs).notes)


def test_compilation_has_a_column_where_something_was_compiled(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", training_seconds=10)
    write_run("scale", training_seconds=20, compilation_seconds=30)
    runs = load_runs(tmp_path)
    table = comparison_table(runs)
    assert cell(table, "scale", "Compilation (s)").text == "30"
    assert cell(table, "none", "Compilation (s)").text == "0.0"
    assert cell(table, "scale", "Time / none").text == "×2.0"  # it is not counted there
    assert any(note.startswith("Training, Compilation, Evaluation: wall-clock") for note in table.definitions)
    grid = cost_grid(runs)
    assert grid is not None
    (scale,) = [row for row in grid.rows if row[0].text == "scale"]
    shown = {column.heading: cell.text for column, cell in zip(grid.columns, scale, strict=True)}
    assert shown["Compilation (s)"] == "30.0"
    assert shown["All seeds together (h)"] == "0.014"  # 20 + 30 seconds, and one of evaluation


def test_what_makes_steps_faster_is_said_and_keeps_runs_apart(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", budget={"acceleration": Acceleration(precision="bfloat16", compiled=True)})
    alone = comparison_table(load_runs(tmp_path))
    assert [row.budget for row in alone.rows] == ["2 epochs (compiled=True, precision=bfloat16)"]
    assert "network tiny, 2 epochs (compiled=True, precision=bfloat16)," in alone.notes[0]
    write_run("none", seed=1)
    rows = comparison_table(load_runs(tmp_path)).rows
    assert [(row.budget, row.cells[0].count) for row in rows] == [
        ("2 epochs", 1),
        ("2 epochs (compiled=True, precision=bfloat16)", 1),
    ]


def test_a_base_is_said_and_keeps_runs_apart(tmp_path: Path, write_run: WriteRun) -> None:
    base = Budget.model_validate({"epochs": 1, "base": [{"name": "crop", "pixels": 2}, "flip"]}).base
    write_run("none", budget={"base": base})
    write_run("scale", budget={"base": base})
    based = comparison_table(load_runs(tmp_path))
    assert {row.budget for row in based.rows} == {"2 epochs (base: crop 2 px, flip)"}
    assert "network tiny, 2 epochs (base: crop 2 px, flip)," in based.notes[0]
    assert any(note.startswith("With a base, all methods have its steps") for note in based.notes)
    write_run("none", seed=1)
    both = comparison_table(load_runs(tmp_path))
    assert [(row.label, row.budget, row.cells[0].count) for row in both.rows] == [
        ("none", "2 epochs", 1),
        ("none", "2 epochs (base: crop 2 px, flip)", 1),
        ("scale", "2 epochs (base: crop 2 px, flip)", 1),
    ]
