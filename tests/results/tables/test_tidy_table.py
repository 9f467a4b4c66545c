"""A table of any frame, and a table with one more column."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cells import headings, texts

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import load_runs
from augbench.results.model.table import Cell, Column
from augbench.results.tables import write_table
from augbench.results.tables.comparison import comparison_table
from augbench.results.tables.formats import to_csv, to_markdown
from augbench.results.tables.tidy import tidy_table

WriteRun = Callable[..., RunFolder]


def test_numbers_are_averaged_over_seeds(tmp_path: Path, write_run: WriteRun) -> None:
    for seed, value in enumerate((0.1, 0.3)):
        write_run("scale", seed=seed, learned=[{"range/rotation": value, "range/x-shear": 2 * value}])
        write_run("none", seed=seed)
    write_run("augerino", learned=[{"range/rotation": 0.5}])
    write_run("augerino", seed=1, state=RunState.FAILED)
    runs = load_runs(tmp_path)
    table = tidy_table(runs, runs.learned, name="ranges", title="Ranges", columns="quantity", unit="rad", digits=2)
    assert headings(table) == ["range/rotation", "range/x-shear"]
    assert texts(table) == {"augerino": ["0.50 (1/2)", "–"], "scale": ["0.20 ± 0.14", "0.40 ± 0.28"]}
    assert "1 of 6 runs has no result" in " ".join(table.notes)
    assert "range/rotation,,rad,0.2,0.1414" in to_csv(table)


def test_a_column_is_added(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    write_run("scale")
    table = comparison_table(load_runs(tmp_path))
    column = Column("Letters", "letters", None, "letters")
    wider = table.with_column(column, lambda row: Cell(f"|{len(row.label)}", len(row.label), count=1))
    assert wider.columns == (*table.columns, column)
    assert [row.cells[-1].mean for row in wider.rows] == [4, 5]
    assert [row.cells[:-1] for row in wider.rows] == [row.cells for row in table.rows]
    assert r"\|5 |" in to_markdown(wider)


def test_one_table_is_written(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    runs = load_runs(tmp_path)
    table = tidy_table(
        runs, runs.probe, name="angles", title="Angles", columns="degrees", value="accuracy", factor=100, digits=0
    )
    files = write_table(table, tmp_path / "tables", formats=["md", "html"])
    assert [file.name for file in files] == ["angles.md", "angles.html"]
    assert "| mnist5k (size=14) | none | 1 | 50 | 40 | 90 | 40 |" in files[0].read_text()
    with pytest.raises(UserError, match="no format 'docx'"):
        write_table(table, tmp_path / "tables", formats=["docx"])  # type: ignore[list-item]
