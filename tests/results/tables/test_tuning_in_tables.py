"""What a tuning cost stands in tables, once for a method and data set; trials themselves never do."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cells import cell

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import write_json
from augbench.bench.experiment.protocol import Protocol
from augbench.bench.runs.run_folder import DamagedError, RunFolder
from augbench.results.model.frame import load_runs
from augbench.results.model.table import Cell
from augbench.results.studies.probes import finished_runs
from augbench.results.tables.comparison import comparison_table
from augbench.results.tables.formats import to_csv, to_markdown

WriteRun = Callable[..., RunFolder]
ON_VALIDATION = Protocol(evaluated_on="validation")


def tuned(folder: RunFolder, *, trials: int = 20, device: str = "cpu one", **more: object) -> None:
    """Write 7,200 s of tuning into a run folder."""
    content = {"trials": trials, "search": "random", "seconds": {device: 7200.0}, "image_passes": 5, **more}
    write_json(folder.path / "tuning.json", content)


def test_the_tuning_counts_once_for_all_seeds(write_run: WriteRun, tmp_path: Path) -> None:
    for seed in (0, 1):
        tuned(write_run("scale", seed=seed, training_seconds=3569.0, compilation_seconds=30.0))
        write_run("none", seed=seed, training_seconds=1799.0)
    table = comparison_table(load_runs(tmp_path))
    assert cell(table, "scale (tuned)", "Tuning (h)") == Cell("2", 2.0, None, 2, asked=2)
    assert cell(table, "scale (tuned)", "Total (h)") == Cell(
        "4", 4.0, None, 2, asked=2
    )  # 2 + 2 · (3569 + 30 + 1) / 3600
    assert cell(table, "none", "Tuning (h)").text == "–"
    assert cell(table, "none", "Total (h)") == Cell("1", 1.0, None, 2, asked=2)
    text = to_markdown(table)
    assert "tuned on the validation split: scale (tuned) on mnist5k (size=14) with 20 trials (random)." in text
    assert "Tuning (h): hours of all trials of the tuning together, counted once for all seeds." in text
    assert "equally hard" not in text
    assert ",tuning_hours,,hours,2.0,,2" in to_csv(table)


def test_values_that_differ_between_data_sets_are_noted_and_make_no_rows(write_run: WriteRun, tmp_path: Path) -> None:
    for name, rate in (("mnist5k", 0.02), ("rotmnist5k", 0.03)):
        folder = write_run("scale", dataset=name, settings={"learning_rate": rate, "copies": 2})
        tuned(folder, values={"learning_rate": rate, "regularisation": 0.05})
    table = comparison_table(load_runs(tmp_path))
    assert [row.label for row in table.rows] == ["scale (tuned)", "scale (tuned)"]
    (note,) = [note for note in table.notes if note.startswith("Values chosen")]
    assert "scale (tuned) on mnist5k (size=14): learning_rate=0.02, regularisation=0.05; " in note
    assert "scale (tuned) on rotmnist5k (size=14): learning_rate=0.03, regularisation=0.05." in note


def test_runs_of_earlier_values_and_of_none_stay_apart(write_run: WriteRun, tmp_path: Path) -> None:
    """After more trials, the final runs with the values of before are still there."""
    for rate in (0.02, 0.03):
        tuned(write_run("scale", settings={"learning_rate": rate}), values={"learning_rate": rate})
    write_run("scale", settings={"learning_rate": 0.5})
    labels = {row.label for row in comparison_table(load_runs(tmp_path)).rows}
    assert labels == {"scale (tuned, learning_rate=0.02)", "scale (tuned, learning_rate=0.03)", "scale"}


def test_a_seed_whose_folder_does_not_know_of_the_tuning_has_the_same_label(
    write_run: WriteRun, tmp_path: Path
) -> None:
    tuned(write_run("scale", seed=1), values={"learning_rate": 0.001})
    write_run("scale", seed=0)
    assert set(load_runs(tmp_path).runs["label"]) == {"scale (tuned)"}


def test_tables_of_untuned_methods_are_as_they_were(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("scale")
    text = to_markdown(comparison_table(load_runs(tmp_path)))
    assert "Tuning" not in text
    assert "Total" not in text


def test_methods_that_were_not_tuned_equally_hard_are_named(write_run: WriteRun, tmp_path: Path) -> None:
    tuned(write_run("scale"), trials=20)
    tuned(write_run("augerino"), trials=5)
    (note,) = [note for note in comparison_table(load_runs(tmp_path)).notes if "tuned on the" in note]
    assert "augerino (tuned) on mnist5k (size=14) with 5 trials (random); scale (tuned)" in note
    assert note.endswith("They were not tuned equally hard.")


def test_of_a_tuning_that_went_on_the_last_state_counts(write_run: WriteRun, tmp_path: Path) -> None:
    tuned(write_run("scale", seed=1), trials=20)
    content = {"trials": 40, "search": "random", "seconds": {"cpu one": 3 * 3600.0}, "image_passes": 5}
    write_json(write_run("scale", seed=0).path / "tuning.json", content)
    assert cell(comparison_table(load_runs(tmp_path)), "scale (tuned)", "Tuning (h)").mean == 3.0


def test_hours_of_different_devices_are_never_added_up(write_run: WriteRun, tmp_path: Path) -> None:
    tuned(write_run("scale"), device="gpu two")
    table = comparison_table(load_runs(tmp_path))
    assert cell(table, "scale (tuned)", "Tuning (h)").text == "2 (gpu two)"
    assert cell(table, "scale (tuned)", "Total (h)").text == "several devices"
    content = {"trials": 2, "search": "asha", "seconds": {"gpu two": 1.0, "cpu one": 1.0}, "image_passes": 5}
    write_json(write_run("augerino").path / "tuning.json", content)
    assert cell(comparison_table(load_runs(tmp_path)), "augerino (tuned)", "Tuning (h)").text == "several devices"


def test_trials_stand_beside_no_result(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("scale", protocol=ON_VALIDATION, accuracy=0.99)
    write_run("scale", seed=1, protocol=ON_VALIDATION, accuracy=0.99)
    with pytest.raises(UserError, match="holds only runs that are evaluated on validation images"):
        load_runs(tmp_path)
    write_run("scale", accuracy=0.5)
    runs = load_runs(tmp_path)
    assert (len(runs.runs), runs.trials) == (1, 2)
    table = comparison_table(runs)
    assert [row.label for row in table.rows] == ["scale"]
    assert "2 trials of a tuning are left out: they are evaluated on validation images." in table.notes


def test_probes_of_a_folder_leave_trials_out(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("scale", protocol=ON_VALIDATION)
    with pytest.raises(UserError, match="None of the 0 runs"):
        finished_runs([tmp_path])


@pytest.mark.parametrize("text", ["{", "[]", '{"trials": 0}', '{"trials": "many"}'])
def test_a_damaged_file_is_named(write_run: WriteRun, tmp_path: Path, text: str) -> None:
    (write_run("scale").path / "tuning.json").write_text(text)
    with pytest.raises(DamagedError, match=r"tuning\.json is damaged"):
        load_runs(tmp_path)


def test_what_a_later_release_adds_is_passed_over(write_run: WriteRun, tmp_path: Path) -> None:
    folder = write_run("scale")
    content = {"trials": 3, "search": "optuna", "seconds": {"cpu one": 1.0}, "image_passes": 5, "colour": "red"}
    write_json(folder.path / "tuning.json", content)
    assert load_runs(tmp_path).runs["tuning_trials"].tolist() == [3]
