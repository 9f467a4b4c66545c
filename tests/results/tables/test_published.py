"""Our numbers beside published ones."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cells import texts

from augbench.bench.experiment.acceleration import Acceleration
from augbench.bench.experiment.budgets import budgets
from augbench.bench.experiment.protocol import Protocol
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import Runs, load_runs
from augbench.results.published import COLUMNS
from augbench.results.tables import write_tables
from augbench.results.tables.comparison import comparison_table
from augbench.results.tables.formats import to_csv, to_html, to_latex, to_markdown
from augbench.results.tables.published import published_tables

WriteRun = Callable[..., RunFolder]
WriteNumbers = Callable[..., Path]


@pytest.fixture
def write_numbers(tmp_path: Path) -> WriteNumbers:
    """Write a file of published accuracies of `scale`, each line changed as given."""

    def write(*lines: dict[str, object]) -> Path:
        line = {"source": "A paper", "table": "Table 1", "dataset": "mnist5k", "network": "tiny", "method": "scale"}
        line |= {"metric": "accuracy", "draws": 0, "value": 0.967, "n": 5, "epochs": 2, "batch_size": 128, "copies": 1}
        pd.DataFrame([line | change for change in lines], columns=list(COLUMNS)).to_csv(tmp_path / "p.csv", index=False)
        return tmp_path / "p.csv"

    return write


def test_several_sources_stand_in_one_cell(tmp_path: Path, write_run: WriteRun, write_numbers: WriteNumbers) -> None:
    for seed, accuracy in enumerate((0.95, 0.97)):
        write_run("scale", options={}, seed=seed, accuracy={0: accuracy, 4: 0.99})
    over = {"sd_over": "repeats"}
    path = write_numbers(
        {"sd": 0.0009, "sd_over": "seeds"}, {"table": "Table 2"}, {"draws": 4, "value": 0.97, "sd": 0.0012, **over}
    )
    (table,) = published_tables(load_runs(tmp_path), [path])
    assert texts(table) == {
        "scale: accuracy (%)": ["96.0 ± 1.4", "96.7 ± 0.09 [1]; 96.7 [2]", "−0.7 [1]; −0.7 [2]", "D1"],
        "scale: accuracy, 4 draws (%)": ["99.0 ± 0.0", "97.0 ± 0.12 [3]", "+2.0 [3]", "D1"],
    }
    assert "D1: runs: 5, here 2." in table.notes
    assert "[1] A paper, Table 1; ± over seeds, n = 5." in table.notes
    assert "[2] A paper, Table 2; n = 5, no standard deviation." in table.notes
    (third,) = [note for note in table.notes if note.startswith("[3]")]
    assert "± over repeats of the test-time draws, which says nothing of other seeds, n = 5" in third
    assert {row.seeds for row in table.rows} == {2}


def test_a_missing_seed_is_said_once(tmp_path: Path, write_run: WriteRun, write_numbers: WriteNumbers) -> None:
    for seed in (0, 1):
        hours = {"training_seconds": 3600.0, "gpu": True, "learned": [{"range/rotation": 0.5}]}
        write_run("scale", options={}, seed=seed, state=RunState.FAILED if seed else RunState.DONE, **hours)
    lines = ({"metric": "gpu_hours", "draws": ""}, {"metric": "range/rotation", "draws": ""})
    (table,) = published_tables(load_runs(tmp_path), [write_numbers({}, *lines)])
    assert [ours for ours, *_ in texts(table).values()] == ["90.0 (1/2)", "1.00 (1/2)", "0.50 (1/2)"]


def test_lines_of_the_csv_file(tmp_path: Path, write_run: WriteRun, write_numbers: WriteNumbers) -> None:
    write_run("scale", options={}, accuracy=0.95)
    (table,) = published_tables(load_runs(tmp_path), [write_numbers({"note": "a, b"}, {"source": "Another"})])
    first, second = csv.DictReader(io.StringIO(to_csv(table)))
    assert (first["mean"], first["sd"], first["n"], first["asked"]) == ("0.95", "", "1", "1")
    assert (first["published_value"], first["published_sd"], first["published_note"]) == ("0.967", "", "a, b")
    assert float(first["difference"]) == pytest.approx(-0.017)
    assert second["published_source"] == "Another"
    assert (first["published_epochs"], first["differs"]) == ("2", "runs: 5, here 1")


def test_what_is_known_to_differ_is_said_of_each_row(
    tmp_path: Path, write_run: WriteRun, write_numbers: WriteNumbers
) -> None:
    beside = "crop beside the policy: there, not here"
    same = {"n": 1, "setup": ""}
    path = write_numbers(
        same,
        {**same, "method": "fast-aa", "epochs": 200, "batch_size": 64, "copies": 4, "setup": beside},
        {"method": "dada", "epochs": None, "batch_size": None, "copies": None, "n": None},
    )
    for method in ("scale", "fast-aa", "dada"):
        write_run(method, options={}, accuracy=0.95)
    (table,) = published_tables(load_runs(tmp_path), [path])
    assert {label: cells[-1] for label, cells in texts(table).items()} == {
        "scale: accuracy (%)": "–",
        "fast-aa: accuracy (%)": "D1",
        "dada: accuracy (%)": "D2",
    }
    differing = [note for note in table.notes if note.startswith("D")]
    assert differing == [
        f"D1: epochs: 200, here 2; images in a batch: 64, here 128; copies of each image: 4, here 1; {beside}.",
        "D2: not stated: epochs (here 2), images in a batch (here 128), copies of each image (here 1), runs (here 1).",
    ]
    for text in (to_markdown(table), to_latex(table), to_html([table])):
        assert all(word in text for word in ("What differs", "D1", "epochs: 200, here 2"))


@pytest.mark.parametrize("dataset", ["cifar10", "cifar100"])
def test_policies_of_the_paper_do_not_pass_for_the_experiment_here(
    tmp_path: Path, write_run: WriteRun, dataset: str
) -> None:
    """Fast AutoAugment and Faster AutoAugment have crop and flip beside the policy in their authors' code."""
    for method in ("none", "fast-aa", "faster-aa", "scale"):
        write_run(method, dataset=dataset, options={}, epochs=20)
    runs = load_runs(tmp_path)
    runs.runs["network"] = "wrn-28-10"
    (table,) = published_tables(runs)
    notes = {note.partition(":")[0]: note for note in table.notes}
    said = {label: notes[cells[-1].partition(",")[0]] for label, cells in texts(table).items()}
    assert "epochs: 200, here 20" in said["scale: accuracy (%)"]
    assert "not stated: epochs (here 20)" in said["none: accuracy (%)"]
    assert "crop, flip and cutout beside the policy" in said["fast-aa: accuracy (%)"]
    assert "crop and flip beside the policy" in said["faster-aa: accuracy (%)"]


def recipe(name: str, network: str = "wrn-28-10", **changes: Any) -> dict[str, Any]:
    """Return the budget of a recipe with changes, for `write_run`."""
    return {**budgets().paper("cifar10", network, name).model_dump(exclude={"epochs", "acceleration"}), **changes}


def with_network(tmp_path: Path, network: str) -> Runs:
    """Load all runs as if they were of a network."""
    runs = load_runs(tmp_path)
    runs.runs["network"] = network
    return runs


SEARCHED = {"search_network": "wrn-40-2", "search_epochs": 200}


def test_numbers_of_a_recipe_stand_beside_its_runs(tmp_path: Path, write_run: WriteRun) -> None:
    about = {"dataset": "cifar10", "options": {}, "epochs": 200}
    auto, fast = about | {"budget": recipe("autoaugment")}, about | {"budget": recipe("fast-autoaugment")}
    for method in ("none", "autoaugment", "trivialaugment-wide"):
        write_run(method, **auto)
    write_run("randaugment-wide", settings={"operations": 3, "magnitude": 5}, **auto)
    write_run("none", **fast)
    write_run("fast-aa", settings=SEARCHED, **fast)
    write_run("dada", settings={"search_network": "wrn-40-2"}, **fast)
    (table,) = published_tables(with_network(tmp_path, "wrn-28-10"))
    assert {label.partition(":")[0]: cells[1] for label, cells in texts(table).items()} == {
        **{"none": "96.9 [1]", "trivialaugment-wide": "97.46 [2]", "randaugment-wide": "97.3 [3]"},
        **{"autoaugment": "97.4 [4]", "fast-aa": "97.3 [5]", "dada": "97.3 [6]"},
    }
    assert any("crop and flip after the policy, here before it" in note for note in table.notes)
    assert not any("SCALE paper" in note for note in table.notes), "whose numbers are of another recipe"


def test_numbers_of_a_predictor_stand_beside_its_runs(tmp_path: Path, write_run: WriteRun) -> None:
    about: dict[str, Any] = {"dataset": "cifar10", "options": {}, "predictor": "batch-ensemble", "epochs": 250}
    about |= {"budget": recipe("batch-ensemble"), "training_passes": 250 * 4000 * 4}
    write_run("none", **about)
    write_run("none", **about, predictor_settings={"members": 8})
    write_run("scale", **about)
    (table,) = published_tables(with_network(tmp_path, "wrn-28-10"))
    numbers = {"accuracy (%)": "96.3 [1]", "ECE": "0.0177 [1]", "NLL": "0.136 [1]"}
    expected = {f"none × batch-ensemble: {measure}": number for measure, number in numbers.items()}
    assert {label: cells[1] for label, cells in texts(table).items()} == expected
    assert not [note for note in table.notes if "copies of each image" in note], "since four members see each once"


@pytest.mark.parametrize(
    ("method", "change", "settings"),
    [
        ("autoaugment", {"base": ()}, {}),
        ("autoaugment", {"gradient_clip": None}, {}),
        ("autoaugment", {"weight_decay": 2e-4}, {}),
        ("autoaugment", {"epochs": 20}, {}),
        ("autoaugment", {"baseline_copies": 2}, {}),
        ("autoaugment", {}, {"policy": "svhn"}),
        ("randaugment-wide", {}, {}),
        ("fast-aa", {}, SEARCHED),
        ("none", {"gradient_clip": None}, {}),  # nor do those of SCALE's paper, which have no base
    ],
)
def test_numbers_of_a_recipe_stand_beside_no_other_run(
    tmp_path: Path, write_run: WriteRun, method: str, change: dict[str, Any], settings: dict[str, Any]
) -> None:
    budget = recipe("autoaugment", **change)
    epochs = budget.pop("epochs", 200)
    write_run(method, dataset="cifar10", options={}, epochs=epochs, budget=budget, settings=settings)
    assert published_tables(with_network(tmp_path, "wrn-28-10")) == []


def test_what_makes_steps_faster_is_no_other_recipe(tmp_path: Path, write_run: WriteRun) -> None:
    budget = recipe("autoaugment", "wrn-40-2", acceleration=Acceleration(precision="bfloat16"))
    write_run("trivialaugment-wide", dataset="cifar10", options={}, epochs=200, budget=budget)
    (table,) = published_tables(with_network(tmp_path, "wrn-40-2"))
    assert [cells[1] for cells in texts(table).values()] == ["96.32 [1]"]


def test_they_enter_no_other_table(tmp_path: Path, write_run: WriteRun, write_numbers: WriteNumbers) -> None:
    write_run("scale", options={}, accuracy=0.95)
    runs = load_runs(tmp_path)
    before = comparison_table(runs)
    published_tables(runs, [write_numbers({"value": 0.999})])
    assert comparison_table(runs) == before


def test_other_data_networks_and_methods_have_none(
    tmp_path: Path, write_run: WriteRun, write_numbers: WriteNumbers
) -> None:
    write_run("scale", accuracy=0.95)  # with an option, so that it is another data set
    path = write_numbers({}, {"dataset": "rotmnist5k"}, {"network": "wrn-28-10"}, {"method": "dada"})
    assert published_tables(load_runs(tmp_path), [path]) == []
    write_run("scale", options={}, accuracy=0.95)
    (table,) = published_tables(load_runs(tmp_path), [path])
    assert list(texts(table)) == ["scale: accuracy (%)"]
    assert "Published of other methods on the same data and networks: dada." in table.notes
    assert [row.comparison for row in table.rows] == ["mnist5k"]


def test_hours_have_no_difference_and_are_of_gpus_only(
    tmp_path: Path, write_run: WriteRun, write_numbers: WriteNumbers
) -> None:
    hours = {"metric": "extra_gpu_hours", "draws": None, "value": 1.5}
    path = write_numbers(hours, hours | {"method": "none", "metric": "gpu_hours", "value": 5})
    write_run("none", options={}, training_seconds=3600.0)
    write_run("scale", options={}, training_seconds=7200.0)
    assert published_tables(load_runs(tmp_path), [path]) == []
    for method, seconds in (("none", 3600.0), ("scale", 7200.0)):
        write_run(method, options={}, dataset="cifar10", training_seconds=seconds, device="gpu two", gpu=True)
    path = write_numbers(
        hours | {"dataset": "cifar10"},
        hours | {"dataset": "cifar10", "method": "none", "metric": "gpu_hours", "value": 5},
    )
    (table,) = published_tables(load_runs(tmp_path), [path])
    assert texts(table) == {
        "none: GPU-hours": ["1.00", "5 [1]", "–", "D1"],
        "scale: extra GPU-hours": ["1.00", "1.5 [1]", "–", "D1"],
    }


@pytest.mark.parametrize(
    ("line", "label", "cells"),
    [
        ({"metric": "ece", "value": 0.02}, "ECE", ["0.062", "0.02 [1]", "+0.04 [1]", "D1"]),
        ({"metric": "nll", "value": 0.3}, "NLL", ["0.250", "0.3 [1]", "−0.05 [1]", "D1"]),
        (
            {"metric": "range/rotation", "draws": None, "value": 0.31},
            "range/rotation",
            ["0.25", "0.31 [1]", "−0.06 [1]", "D1"],
        ),
    ],
)
def test_other_metrics_and_learned_numbers_are_compared(
    tmp_path: Path, write_run: WriteRun, write_numbers: WriteNumbers, line: Any, label: str, cells: list[str]
) -> None:
    write_run("scale", options={}, learned=[{"range/rotation": 0.25}])
    (table,) = published_tables(load_runs(tmp_path), [write_numbers(line)])
    assert texts(table) == {f"scale: {label}": cells}


def test_a_calibration_error_of_other_bins_is_another_number(
    tmp_path: Path, write_run: WriteRun, write_numbers: WriteNumbers
) -> None:
    write_run("scale", options={}, protocol=Protocol(calibration_bins=10))
    assert published_tables(load_runs(tmp_path), [write_numbers({"metric": "ece", "value": 0.02})]) == []


def test_the_table_is_written_unless_it_is_not_wanted(
    tmp_path: Path, write_run: WriteRun, write_numbers: WriteNumbers
) -> None:
    write_run("scale", options={})
    runs, path = load_runs(tmp_path), write_numbers({})
    names = [found.name for found in write_tables(runs, tmp_path / "a", published_files=[path], formats=["md"])]
    assert "published.md" in names
    assert write_tables(runs, tmp_path / "b", published_files=[path], published=False, formats=["md"])
    assert not (tmp_path / "b" / "published.md").exists()
    assert not any(found.name == "published.md" for found in write_tables(runs, tmp_path / "c", formats=["md"]))
