"""The table in its four formats."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.frame import load_runs
from augbench.results.model.table import Table
from augbench.results.tables import FORMATS, all_tables, write_tables
from augbench.results.tables.comparison import comparison_table
from augbench.results.tables.formats import to_csv, to_latex, to_markdown, to_rich
from augbench.results.tables.formats.blocks import cut
from augbench.results.tables.formats.latex import escape_latex
from augbench.results.tables.formats.lines import CSV_COLUMNS
from augbench.results.tables.formats.markdown import escape_markdown

WriteRun = Callable[..., RunFolder]
NASTY = r"a_b & <c>|[d]*100%$\~^#{}"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, write_run_below: WriteRun) -> Table:
    out = tmp_path_factory.mktemp("table")
    for seed, (accuracy, behind) in enumerate(((0.8, 0.1), (0.9, 0.1), (0.85, 0.16))):
        write_run_below(out, "none", seed=seed, accuracy=accuracy)
        write_run_below(out, "scale", seed=seed, accuracy={0: accuracy - behind, 4: accuracy, 8: accuracy})
    write_run_below(out, "none", dataset="rotmnist5k")
    return comparison_table(load_runs(out))


def markdown_cells(line: str) -> list[str]:
    """Split a line of a Markdown table where no backslash stands before the bar."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_markdown(table: Table) -> None:
    lines = to_markdown(table).splitlines()
    rows = [markdown_cells(line) for line in lines if line.startswith("|")]
    assert {len(row) for row in rows} == {3 + len(table.columns)}
    assert rows[2][:4] == ["mnist5k (size=14)", "none", "3", "**85.0 ± 5.0**"]
    assert rows[3][:5] == ["", "scale", "3", "73.0 ± 6.1", "85.0 ± 5.0"]
    assert rows[4][:4] == ["rotmnist5k (size=14)", "none", "1", "90.0"]
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
    assert (first["draws"], first["mean"], first["n"], first["network"]) == (0, 0.8500000000000001, 3, "tiny")
    assert first["sd"] == pytest.approx(0.05)
    assert frame.loc[frame["n"] == 1, "sd"].isna().all()


def test_latex(table: Table) -> None:
    text = to_latex(table)
    for command in (r"\begin{table*}", r"\caption{", r"\label{tab:comparison}", r"\begin{minipage}"):
        assert text.count(command) == 1
    blocks = re.findall(r"\\begin\{tabular\}\{llr.*?\\bottomrule", text, re.DOTALL)
    assert len(blocks) == 2, "ten columns and their first ones are too wide for a page"
    assert [block.count(r"\midrule") for block in blocks] == [2, 2]  # below the headings, and between the data sets
    for block in blocks:
        rows = [line for line in block.splitlines() if line.endswith(r"\\")]
        assert len({len(re.findall(r"(?<!\\)&", row)) for row in rows}) == 1
    assert r"mnist5k (size=14) & none & 3 & \textbf{85.0 $\pm$ 5.0} & --" in blocks[0]
    assert r"Accuracy\\(\%)" in blocks[0]
    assert r"Time / none" in blocks[1]


def test_a_tall_latex_table_goes_on_on_another_page(table: Table) -> None:
    many = replace(table, rows=tuple(replace(row, comparison=f"set {i // 3}") for i, row in enumerate(table.rows * 30)))
    text = to_latex(many)
    pages = text.split(r"\begin{table*}")[1:]
    assert len(pages) > 2
    assert pages[0].startswith("\n\\centering\n\\caption{Comparison of augmentation learners}\n\\label{")
    for page in pages[1:]:
        assert r"\addtocounter{table}{-1}" in page
        assert r"\caption{Comparison of augmentation learners (continued)}" in page
        assert r"\label" not in page
    assert [r"\begin{minipage}" in page for page in pages] == [False] * (len(pages) - 1) + [True]
    assert text.count("none & 1") == 2 * 30  # nothing is lost: each block has all rows
    assert all(page.count("\\\\\n") <= 60 for page in pages)


def test_columns_are_cut_into_blocks_of_about_one_width() -> None:
    assert cut([], 10) == [[]]
    assert cut([4, 4], 10) == [[0, 1]]
    assert cut([4, 4, 4], 10) == [[0, 1], [2]]
    assert cut([3, 3, 3, 3], 10) == [[0, 1], [2, 3]], "3 and 1 would fit as well"
    assert cut([30, 2, 30], 10) == [[0], [1], [2]], "what is too wide has a block of its own"


def render(table: Table, *, width: int, complete: bool = False) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(to_rich(table, complete=complete))
    return capture.get()


def test_terminal_of_usual_width(table: Table) -> None:
    text = render(table, width=80)
    assert "85.0 ± 5.0" in text
    assert "Bold: not shown to be worse than another method" in " ".join(text.split())
    assert "Nothing is bold on rotmnist5k (size=14):" in " ".join(text.split())
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- x", r"\- x"),
        ("---", r"\---"),
        ("+ x", r"\+ x"),
        ("1. x", r"1\. x"),
        ("12) x", r"12\) x"),
        ("+0.5 and augerino+flips", "+0.5 and augerino+flips"),
        ("0.5 a-b", "0.5 a-b"),
        ("a\nb", "a b"),
        (NASTY, r"a\_b &amp; &lt;c&gt;\|\[d\]\*100%\$\\\~^\#{}"),
    ],
)
def test_nothing_is_mark_up_in_markdown(text: str, expected: str) -> None:
    assert escape_markdown(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("αω", r"$\alpha$$\omega$"),
        ("Straße, Ørsted, Æsop, ð", "Straße, Ørsted, Æsop, ð"),
        ("e\u0301", "é"),
        ("“a–b” ≤ 5 €", r"``a--b'' $\leq$ 5 \texteuro{}"),
        ("--from ``x''", "-{}-from `{}`x'{}'"),
        ("Nguyễn, ﬁt, ℝ, ＃", r"Nguyen, fit, R, \#"),
        ("中\x1b", "U+4E2DU+001B"),
        ("*", "{*}"),
        (
            NASTY,
            r"a\_b \& \textless{}c\textgreater{}\textbar{}{[}d{]}{*}100\%\$\textbackslash{}\textasciitilde{}"
            r"\textasciicircum{}\#\{\}",
        ),
        ("a\nb", "a b"),
    ],
)
def test_latex_gets_letters_and_commands_and_says_what_its_fonts_lack(text: str, expected: str) -> None:
    assert escape_latex(text) == expected


def test_files(tmp_path: Path, write_run: WriteRun) -> None:
    write_run()
    runs, out = load_runs(tmp_path), tmp_path / "new" / "folder"
    made = all_tables(runs)
    assert list(made) == ["comparison", "accuracy", "calibration"]
    assert all_tables(runs, without=("comparison",)) == {name: made[name] for name in ("accuracy", "calibration")}
    names = [f"{table}.{ending}" for table in made for ending in FORMATS]
    assert [path.name for path in write_tables(runs, out)] == names
    assert sorted(path.name for path in out.iterdir()) == sorted(names)
    assert (out / "comparison.md").read_text(encoding="utf-8") == to_markdown(comparison_table(runs))
    with pytest.raises(UserError, match=r"no data for the table svhn\. Without --table"):
        all_tables(runs, names=["accuracy", "svhn"])
    written = write_tables(runs, tmp_path / "out", formats=("csv",))
    assert [path.name for path in written] == ["comparison.csv", "accuracy.csv", "calibration.csv"]
    with pytest.raises(UserError, match=r"no format 'text'.*Valid choices: csv, html, md, tex\."):
        write_tables(runs, tmp_path / "none", formats=("text",))  # type: ignore[arg-type]
    assert not (tmp_path / "none").exists()


def test_no_files_of_nothing(tmp_path: Path, write_run: WriteRun) -> None:
    write_run(state=RunState.PLANNED)
    with pytest.raises(UserError, match="None of the 1 runs"):
        write_tables(load_runs(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()
