"""The tables of planted symmetries, checked by hand."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from cells import bold, cell, headings

from augbench.bench.augmentation.transform_distribution import COORDINATES
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import load_runs
from augbench.results.model.table import Cell
from augbench.results.tables import write_tables
from augbench.results.tables.comparison import comparison_table
from augbench.results.tables.formats import to_csv, to_latex, to_markdown
from augbench.results.tables.recovery import coordinate_table, has_planted, recovery_table

WriteRun = Callable[..., RunFolder]
LAWS = {
    "rotation ±180°": ({"rotation": 180.0}, ("turn",)),
    "rotation ±45°": ({"rotation": 45.0}, ("turn",)),
    "none": ({}, ()),
    "flip": ({"flip": 0.5}, ("flip",)),
}


@pytest.fixture
def plant(write_run: WriteRun) -> WriteRun:
    """Write a run on data with a law of `LAWS`; distances that are not given are 0."""

    def write(method: str, law: str, /, distances: dict[str, float] | None = None, **others: object) -> RunFolder:
        options, coordinates = LAWS[law]
        recovery = None if distances is None else dict.fromkeys(COORDINATES, 0.0) | distances
        return write_run(
            method,
            dataset="planted",
            options={"shrink": 2, **options},
            planted=(law, coordinates),
            recovery=recovery,
            **others,
        )

    return write


def test_learners_are_rows_and_laws_are_columns(tmp_path: Path, plant: WriteRun) -> None:
    for seed in (0, 1):
        for law in LAWS:
            plant("none", law, {"turn": 0.5} if "rotation" in law else {}, seed=seed, accuracy=0.8)
        plant("scale", "rotation ±45°", {"turn": 0.1 + seed / 10, "x-scale": 0.14}, seed=seed, accuracy=0.9 + seed / 10)
    table = recovery_table(load_runs(tmp_path))
    assert headings(table) == ["none", "flip", "rotation ±45°", "rotation ±180°"]
    assert [(row.comparison, row.label) for row in table.rows] == [
        ("planted (shrink=2)", "none"),
        ("planted (shrink=2)", "scale"),
    ]
    # distances 0.1 and 0.2 where planted; (0.1 + 0.14) / 7 and (0.2 + 0.14) / 7 over all seven coordinates
    assert cell(table, "scale", "rotation ±45°").text == "95.0 ± 7.1 %; 0.150 ± 0.071 / 0.041 ± 0.010"
    assert cell(table, "none", "rotation ±180°").text == "80.0 ± 0.0 %; 0.500 ± 0.000 / 0.071 ± 0.000"
    assert cell(table, "none", "none").text == "80.0 ± 0.0 %; – / 0.000 ± 0.000"
    assert cell(table, "scale", "flip") == Cell("–")
    assert "n = 2 seeds" in table.notes[0]
    assert "n = 2; a seed" in table.notes[1]


def test_missing_seeds_are_said(tmp_path: Path, plant: WriteRun) -> None:
    for seed in (0, 1, 2):
        plant("none", "flip", {"flip": 0.5}, seed=seed)
        plant("scale", "flip", {"flip": 0.2}, seed=seed, state=RunState.DONE if seed else RunState.FAILED)
        plant("scale", "rotation ±45°", {"turn": 0.1}, seed=seed)
    runs = load_runs(tmp_path)
    assert cell(recovery_table(runs), "scale", "rotation ±45°").text.endswith("± 0.000")
    assert any(note.startswith("(k/N): ") for note in recovery_table(runs).notes)
    assert cell(recovery_table(runs), "scale", "flip").text == "90.0 ± 0.0 %; 0.200 ± 0.000 / 0.029 ± 0.000 (2/3)"
    flip = "planted (shrink=2): flip"
    assert cell(coordinate_table(runs), "scale", "flip", flip).text == "0.200 ± 0.000 (2/3)"
    assert "Runs without a result so far: scale on planted (flip=0.5, shrink=2)." in recovery_table(runs).notes


def test_laws_with_different_numbers_of_seeds_say_theirs(tmp_path: Path, plant: WriteRun) -> None:
    for seed in (0, 1, 2):
        plant("none", "flip", {"flip": 0.5}, seed=seed)
    for seed in (0, 1):
        plant("none", "rotation ±45°", {"turn": 0.1}, seed=seed)
    (row,) = recovery_table(load_runs(tmp_path)).rows
    assert row.seeds is None
    assert [shown.text.rpartition(" (")[2] for shown in row.cells] == ["n = 3)", "n = 2)"]


def test_methods_without_maps_of_the_plane_have_an_accuracy_only(tmp_path: Path, plant: WriteRun) -> None:
    plant("dada", "flip", None, accuracy=0.7)
    assert cell(recovery_table(load_runs(tmp_path)), "dada", "flip").text == "70.0 %; – / –"  # alone, too
    plant("none", "flip", {"flip": 0.5})
    runs = load_runs(tmp_path)
    assert cell(recovery_table(runs), "dada", "flip").text == "70.0 %; – / –"
    assert cell(coordinate_table(runs), "dada", "turn") == Cell("–")
    assert cell(comparison_table(runs), "dada", "Recovery error, planted") == Cell("–")


def test_coordinates_are_shown_with_the_planted_ones_in_bold(tmp_path: Path, plant: WriteRun) -> None:
    plant("none", "flip", {"flip": 0.5})
    plant("none", "rotation ±45°", {"turn": 0.125, "y-shift": 0.01})
    plant("none", "none", {})
    table = coordinate_table(load_runs(tmp_path))
    assert headings(table)[3:] == list(COORDINATES)
    names = [f"planted (shrink=2): {law}" for law in ("none", "flip", "rotation ±45°")]
    assert [row.comparison for row in table.rows] == names
    assert [(name, heading) for name, _, heading in bold(table)] == [(names[1], "flip"), (names[2], "turn")]
    assert cell(table, "none", "y-shift", names[2]).text == "0.010"
    assert cell(table, "none", "Recovery error, planted", names[2]).text == "0.125"
    assert cell(table, "none", "Recovery error, all", names[2]).text == "0.019"  # 0.135 / 7
    assert cell(table, "none", "Recovery error, planted", names[0]) == Cell("–")


def test_a_learner_has_the_same_name_for_every_law(tmp_path: Path, plant: WriteRun) -> None:
    plant("scale", "flip", {}, settings={"prior": 0.1})
    plant("scale", "flip", {}, settings={"prior": 0.2})
    plant("scale", "rotation ±45°", {}, settings={"prior": 0.2})
    rows = recovery_table(load_runs(tmp_path)).rows
    assert [(row.label, [c.text == "–" for c in row.cells]) for row in rows] == [
        ("scale (prior=0.1)", [False, True]),
        ("scale (prior=0.2)", [False, False]),
    ]


def test_different_bases_networks_and_budgets_never_share_a_row(tmp_path: Path, plant: WriteRun) -> None:
    plant("none", "flip", {}, epochs=2)
    plant("none", "rotation ±45°", {}, epochs=9)
    rows = recovery_table(load_runs(tmp_path)).rows
    assert [(row.comparison, [c.text == "–" for c in row.cells]) for row in rows] == [
        ("planted (shrink=2), 2 epochs", [False, True]),
        ("planted (shrink=2), 9 epochs", [True, False]),
    ]


def test_formats(tmp_path: Path, plant: WriteRun) -> None:
    plant("none", "rotation ±45°", {"turn": 0.125})
    runs = load_runs(tmp_path)
    assert "| planted (shrink=2) | none | 1 | 90.0 %; 0.125 / 0.018 |" in to_markdown(recovery_table(runs))
    assert r"rotation $\pm$45$^\circ$" in to_latex(recovery_table(runs))
    (turn,) = [
        row for row in csv.DictReader(io.StringIO(to_csv(coordinate_table(runs)))) if row["metric"].endswith("/turn")
    ]
    assert turn["dataset"] == "planted (rotation=45.0, shrink=2)"
    assert (turn["metric"], turn["mean"], turn["n"]) == ("recovery_distance/turn", "0.125", "1")


def test_files_are_written_where_something_was_planted(tmp_path: Path, plant: WriteRun) -> None:
    plant("none", "flip", {"flip": 0.5})
    runs = load_runs(tmp_path)
    written = write_tables(runs, tmp_path / "out")
    assert {"recovery.md", "recovery.tex", "recovery.csv", "recovery.html"} <= {path.name for path in written}
    text = (tmp_path / "out" / "recovery.md").read_text(encoding="utf-8")
    assert text == to_markdown(recovery_table(runs)) + "\n" + to_markdown(coordinate_table(runs))
    latex = (tmp_path / "out" / "recovery.tex").read_text(encoding="utf-8")
    assert r"\label{tab:recovery}" in latex
    assert r"\label{tab:recovery-by-coordinate}" in latex


def test_other_data_has_no_such_tables(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    runs = load_runs(tmp_path)
    assert not has_planted(runs)
    assert runs.recovery.empty
    assert not any("Recovery" in heading for heading in headings(comparison_table(runs)))


def test_other_data_beside_planted_data_is_left_out(tmp_path: Path, plant: WriteRun, write_run: WriteRun) -> None:
    plant("none", "flip", {"flip": 0.5})
    write_run("none")
    runs = load_runs(tmp_path)
    assert [row.comparison for row in recovery_table(runs).rows] == ["planted (shrink=2)"]
    errors = [row.cells[4].text for row in comparison_table(runs).rows]
    assert comparison_table(runs).columns[4].heading == "Recovery error, planted"
    assert errors == ["–", "0.500"]
