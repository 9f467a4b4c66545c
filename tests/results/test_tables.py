"""The table in its four formats."""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from augbench.bench.errors import UserError
from augbench.bench.run_folder import RunFolder, RunState
from augbench.results.comparison import comparison_table
from augbench.results.frame import load_runs
from augbench.results.table import Table
from augbench.results.tables import (
    CSV_COLUMNS,
    escape_latex,
    escape_markdown,
    to_csv,
    to_latex,
    to_markdown,
    to_rich,
    write_tables,
)

WriteRun = Callable[..., RunFolder]
NASTY = r"a_b & <c>|[d]*100%$\~^#{}"


@pytest.fixture
def table(tmp_path: Path, write_run: WriteRun) -> Table:
    for seed, accuracy in enumerate((0.8, 0.9)):
        write_run("none", seed=seed, accuracy=accuracy)
        write_run("scale", seed=seed, accuracy={0: accuracy - 0.1, 4: accuracy, 8: accuracy})
    write_run("none", dataset="rotmnist5k")
    return comparison_table(load_runs(tmp_path))


def markdown_cells(line: str) -> list[str]:
    """Split a line of a Markdown table where no backslash stands before the bar."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_markdown(table: Table) -> None:
    lines = to_markdown(table).splitlines()
    rows = [markdown_cells(line) for line in lines if line.startswith("|")]
    assert {len(row) for row in rows} == {2 + len(table.columns)}
    assert rows[2][:3] == ["mnist5k (size=14)", "none", "**85.0 ± 7.1**"]
    assert rows[3][:4] == ["", "scale", "75.0 ± 7.1", "**85.0 ± 7.1**"]
    assert rows[4][:3] == ["rotmnist5k (size=14)", "none", "**90.0**"]
    assert lines[0] == "## Comparison of augmentation learners"
    assert sum(line.startswith("- ") for line in lines) == len(table.notes) + len(table.definitions)


def test_csv_round_trips(table: Table, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(to_csv(table), encoding="utf-8")
    frame = pd.read_csv(path, keep_default_na=False, na_values=[""], dtype={"draws": "Int64"})
    assert tuple(frame.columns) == CSV_COLUMNS
    expected = [
        (row.label, column.metric, cell.mean, cell.count)
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if cell.mean is not None
    ]
    assert list(frame[["method", "metric", "mean", "n"]].itertuples(index=False, name=None)) == expected
    first = frame.iloc[0]
    assert (first["draws"], first["mean"], first["n"], first["network"]) == (0, 0.8500000000000001, 2, "tiny")
    assert first["sd"] == pytest.approx(0.005**0.5)
    assert frame.loc[frame["n"] == 1, "sd"].isna().all()


def test_latex(table: Table) -> None:
    text = to_latex(table)
    for command in (r"\begin{table*}", r"\toprule", r"\bottomrule", r"\end{tabular}", r"\caption{"):
        assert text.count(command) == 1
    assert text.count(r"\midrule") == 2  # below the headings and between the data sets
    assert r"mnist5k (size=14) & none & \textbf{85.0 $\pm$ 7.1} & --" in text
    assert r"Accuracy (\%)" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {1 + len(table.columns)}


def render(table: Table, *, width: int, complete: bool = False) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(to_rich(table, complete=complete))
    return capture.get()


def test_terminal_of_usual_width(table: Table) -> None:
    text = render(table, width=80)
    assert "85.0 ± 7.1" in text
    for heading in ("Accuracy", "8 draws", "ECE", "Training", "Time"):
        assert heading in text
    assert "4 draws" not in text
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "Brier" not in text
    assert "Brier" in render(table, width=200, complete=True)


def test_a_narrow_terminal_shows_the_columns_that_fit(tmp_path: Path, write_run: WriteRun) -> None:
    for seed in (0, 1, 2):
        for name in ("none", "trivialaugment-wide", "scale"):
            state = RunState.FAILED if (name, seed) == ("scale", 0) else RunState.DONE
            planted = {"planted": ("flip", ["flip"]), "recovery": {"flip": 0.123, "turn": 0.4}}
            accuracy = {0: 0.987, 4: 0.985, 8: 0.986}
            write_run(name, seed=seed, accuracy=accuracy, state=state, training_seconds=123.0, **planted)
    text = render(comparison_table(load_runs(tmp_path)), width=80)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    for shown in ("trivialaugment-wide", "98.7 ± 0.0", "0.123 ± 0.000", "123 ± 0", "×1.0", "Recovery error: distance"):
        assert shown in text
    assert "ECE" not in text  # neither the column nor its explanation
    wide = render(comparison_table(load_runs(tmp_path)), width=250, complete=True)
    assert "error, all" in wide
    assert "ECE" in wide


def test_any_name_is_shown_as_it_is(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", dataset="data_set & <e>|f")
    folder = write_run("plain", dataset="data_set & <e>|f", seed=1).path
    assert folder.exists()
    runs = load_runs(tmp_path)
    runs.runs.loc[runs.runs["label"] == "plain", "label"] = NASTY
    table = comparison_table(runs)

    rows = [markdown_cells(line) for line in to_markdown(table).splitlines() if line.startswith("|")]
    assert {len(row) for row in rows} == {2 + len(table.columns)}
    name = next(row[1] for row in rows if "c" in row[1] and "b" in row[1])
    assert name == r"a\_b &amp; &lt;c&gt;\|\[d\]\*100%\$\\\~^\#{}"
    assert rows[2][0] == r"data\_set &amp; &lt;e&gt;\|f (size=14)"

    latex = to_latex(table)
    assert escape_latex(NASTY) in latex
    assert r"a\_b \& \textless{}c\textgreater{}\textbar{}{[}d{]}*100\%\$\textbackslash{}" in latex
    assert latex.count("{") == latex.count("}")
    assert f",{NASTY}," in to_csv(table)
    assert NASTY in render(table, width=200, complete=True)


def test_a_name_may_hold_a_line_break() -> None:
    assert escape_markdown("a\nb") == "a b"
    assert escape_latex("a\nb") == "a b"


def test_a_method_with_special_characters(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("a_b & <c>")
    table = comparison_table(load_runs(tmp_path))
    assert r"| a\_b &amp; &lt;c&gt; |" in to_markdown(table)
    assert r"& a\_b \& \textless{}c\textgreater{} &" in to_latex(table)
    assert ",a_b & <c>," in to_csv(table)
    assert "a_b & <c>" in render(table, width=200)


def test_files(tmp_path: Path, write_run: WriteRun) -> None:
    write_run()
    out = tmp_path / "new" / "folder"
    written = write_tables(load_runs(tmp_path), out)
    assert [path.name for path in written] == ["comparison.md", "comparison.csv", "comparison.tex"]
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in written)
    assert (out / "comparison.md").read_text(encoding="utf-8") == to_markdown(comparison_table(load_runs(tmp_path)))


def test_no_files_of_nothing(tmp_path: Path, write_run: WriteRun) -> None:
    write_run(state=RunState.PLANNED)
    with pytest.raises(UserError, match="None of the 1 runs"):
        write_tables(load_runs(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()
