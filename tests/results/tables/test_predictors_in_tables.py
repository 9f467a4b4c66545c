"""Two predictors of one method are two rows, and what is compared with `none` is compared with the single network."""

from collections.abc import Callable
from pathlib import Path

from cells import cell, texts

from augbench.bench.runs.run_folder import RunFolder
from augbench.results.model.frame import load_runs
from augbench.results.tables import all_tables
from augbench.results.tables.comparison import comparison_table
from augbench.results.tables.differences import differences_table

WriteRun = Callable[..., RunFolder]


def write_grid(write_run: WriteRun) -> None:
    for seed in range(3):
        for method, predictor, accuracy, seconds in (
            ("none", "", 0.80, 10.0),
            ("none", "batch-ensemble", 0.90, 40.0),
            ("scale", "", 0.85, 20.0),
            ("scale", "batch-ensemble", 0.95, 80.0),
        ):
            value = accuracy + seed / 1000
            write_run(method, seed=seed, predictor=predictor, accuracy=value, training_seconds=seconds)


def test_predictors_of_a_method_are_never_averaged(tmp_path: Path, write_run: WriteRun) -> None:
    write_grid(write_run)
    runs = load_runs(tmp_path)
    table = comparison_table(runs)
    names = ["none", "none × batch-ensemble", "scale", "scale × batch-ensemble"]
    assert list(texts(table)) == names
    shown = [cell(table, name, "Accuracy (%)") for name in names]
    assert [one.text for one in shown] == ["80.1 ± 0.1", "90.1 ± 0.1", "85.1 ± 0.1", "95.1 ± 0.1"]
    assert [one.count for one in shown] == [3] * 4
    assert list(dict.fromkeys(runs.runs["predictor"])) == ["single", "batch-ensemble"]
    assert list(dict.fromkeys(runs.runs["method"])) == names
    assert cell(table, "scale × batch-ensemble", "Time / none").text == "×8.0"


def test_the_reference_is_the_single_network(tmp_path: Path, write_run: WriteRun) -> None:
    write_grid(write_run)
    rows = texts(differences_table(load_runs(tmp_path)))
    assert sorted(rows) == ["none × batch-ensemble", "scale", "scale × batch-ensemble"]
    assert rows["none × batch-ensemble"][0] == "none"
    assert any(text.startswith("+10.0") for text in rows["none × batch-ensemble"])


def test_every_table_can_be_made(tmp_path: Path, write_run: WriteRun) -> None:
    write_grid(write_run)
    tables = [table for made in all_tables(load_runs(tmp_path)).values() for table in made]
    assert len(tables) > 3
    for table in tables:
        rows = [(row.label, row.comparison) for row in table.rows]
        assert len(rows) == len(set(rows))
