"""Every table in every format, with names that could break it: LaTeX is compiled, HTML is parsed."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from pages import Page
from probed import corruption_rows, outside_rows
from rich.console import Console

from augbench.bench.augmentation.transform_distribution import COORDINATES
from augbench.bench.runs import run_folder
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.csv_text import csv_text
from augbench.results.model.frame import load_runs
from augbench.results.model.table import Table
from augbench.results.published import COLUMNS
from augbench.results.tables import all_tables
from augbench.results.tables.formats import to_csv, to_html, to_latex, to_markdown, to_rich
from augbench.results.tables.formats.latex_text import NEEDS_T1, escape_latex

WriteRun = Callable[..., RunFolder]
CommandLine = Callable[..., tuple[int, str, str]]
NASTY = r"<script>$%&_#{}~^\[*|`α中é<b>"
DOCUMENT = r"""\documentclass{article}
\usepackage{booktabs}
\usepackage{graphicx}
\begin{document}
%s
\end{document}
"""


@pytest.fixture
def pdflatex() -> str:
    """The LaTeX compiler; outside CI it may be missing."""
    found = shutil.which("pdflatex")
    if found is None and os.environ.get("CI") == "true":
        pytest.fail("pdflatex is not installed; in CI the tables have to be compiled")
    return found or pytest.skip("pdflatex is not installed; on Debian it is in texlive-latex-recommended")


@pytest.fixture(scope="module")
def tables(write_run_below: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> list[Table]:
    """Every table, of runs with names that could break it."""
    out = tmp_path_factory.mktemp("tables")
    for seed in (0, 1, 2):
        for method in ("none", "augerino-pb", "scale-norm", "scale", NASTY):
            state = RunState.FAILED if (method, seed) == (NASTY, 0) else RunState.DONE
            given = {"state": state, "settings": {"x_y": NASTY}, "options": {}, "seed": seed}
            write_run_below(out, method, accuracy={0: 0.97 - seed / 100, 4: 0.98, 8: 0.985}, **given)
    write_run_below(out, "scale", dataset="svhn", options={})
    planted = {"planted": ("flip", ["flip"]), "recovery": dict.fromkeys(COORDINATES, 0.1)}
    write_run_below(out, "none", dataset="planted", options={"flip": 0.5}, **planted)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(run_folder, "NAME_PATTERN", re.compile(".*", re.DOTALL))
        runs = load_runs(out)
    runs.scores.loc[runs.scores["draws"] > 0, "sd_repeats"] = 0.001
    number = {"source": NASTY, "dataset": "mnist5k", "network": "tiny", "method": NASTY, "metric": "accuracy"}
    number |= {"draws": 0, "value": 0.9, "note": NASTY}
    pd.DataFrame([number], columns=list(COLUMNS)).to_csv(out / "numbers.csv", index=False)
    probed = corruption_rows(runs.finished().head(2).to_dict("records")).replace({"corruption": {"fog": NASTY}})
    others = outside_rows(runs.finished().head(2).to_dict("records")).replace({"against": {"letters": NASTY}})
    found = all_tables(replace(runs, corruptions=probed, outside=others), published_files=[out / "numbers.csv"])
    assert set(found) == {
        *("comparison", "accuracy", "accuracy-detailed", "ablation", "svhn", "recovery", "calibration"),
        *("corruptions", "ood", "differences", "published"),
    }
    return [table for of_file in found.values() for table in of_file]


def compiled(document: str, pdflatex: str, folder: Path) -> str:
    """Compile a document in which nothing is wrong; returns the log."""
    (folder / "tables.tex").write_text(document, encoding="utf-8")
    command = [pdflatex, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "tables.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=600, check=False)
    log = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, log[-3000:]
    assert "Overfull" not in log
    assert "Missing character" not in log
    return log


def test_latex_compiles(tables: list[Table], pdflatex: str, tmp_path: Path) -> None:
    log = compiled(DOCUMENT % "\n\\clearpage\n".join(map(to_latex, tables)), pdflatex, tmp_path)
    assert f"Output written on tables.pdf ({len(tables)} pages" in log.replace("\n", "")


@pytest.mark.parametrize("encoding", ["OT1", "T1"])
def test_letters_and_signs_can_be_set(encoding: str, pdflatex: str, tmp_path: Path) -> None:
    characters = map(chr, (*range(0x20, 0x250), *range(0x370, 0x400), *range(0x2000, 0x2330)))
    words = [escape_latex(one) for one in characters if encoding == "T1" or one not in NEEDS_T1]
    shown = rf"\usepackage[{encoding}]{{fontenc}}\begin{{document}}\raggedright"
    compiled(DOCUMENT.replace(r"\begin{document}", shown) % "\n".join(words), pdflatex, tmp_path)


def test_a_table_says_what_its_letters_need(tables: list[Table]) -> None:
    assert "fontenc" not in to_latex(tables[0])
    assert r"\usepackage[T1]{fontenc}" in to_latex(replace(tables[0], title="Þórr"))


def test_html_shows_every_text_as_it_is(tables: list[Table]) -> None:
    page = Page(to_html(tables))
    assert page.open == []
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "img", "iframe", "object"}
    assert not any(name in {"src", "href"} or name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert page.texts["th"].count(NASTY) >= 3  # a row of one table, a column of others
    assert any(NASTY in text for text in page.texts["li"])
    cells = [cell.text for table in tables for row in table.rows for cell in row.cells]
    best = [cell.text for table in tables for row in table.rows for cell in row.cells if cell.best]
    assert page.texts["b"] == best
    shown = sorted([*page.texts["td"], *page.texts["b"]])
    seeds = [str(row.seeds) for table in tables for row in table.rows if table.has_seeds and row.seeds]
    assert shown == sorted([*cells, *seeds])


def test_html_can_be_read_aloud(tables: list[Table]) -> None:
    page = Page(to_html(tables[:1]))
    headers = [attrs for tag, attrs in page.tags if tag == "th"]
    assert {attrs["scope"] for attrs in headers} == {"col", "row", "rowgroup"}
    assert [tag for tag, _ in page.tags].count("h1") == 1
    (table,) = [attrs for tag, attrs in page.tags if tag == "table"]
    assert any(attrs.get("id") == table["aria-labelledby"] for _, attrs in page.tags)
    assert ("html", {"lang": "en"}) in page.tags


def test_markdown_and_csv_keep_their_shape(tables: list[Table], tmp_path: Path) -> None:
    for table in tables:
        text = to_markdown(table)
        bars = {line.count("|") - line.count(r"\|") for line in text.splitlines() if line.startswith("|")}
        assert len(bars) == 1, table.name
        assert "<script>" not in text
        (tmp_path / "table.csv").write_text(to_csv(table), encoding="utf-8")
        frame = pd.read_csv(tmp_path / "table.csv", keep_default_na=False)
        assert len(frame) or table.name == "recovery", "the file has the other table of recovery.md"
        assert "n" in frame or "seeds" in frame
        assert f",{NASTY}," in to_csv(table) or table.name not in ("comparison", "accuracy")


@pytest.mark.parametrize(
    "form", ["folder", *(pytest.param(name, marks=pytest.mark.slow) for name in ("runs.parquet", "runs.tar.gz"))]
)
def test_nothing_of_a_record_steers_a_terminal_or_a_spreadsheet(
    form: str, tmp_path: Path, write_run: WriteRun, augbench: CommandLine
) -> None:
    steering, formula = "\x1b]0;new title\x07\x9b", '=HYPERLINK("http://evil")'
    for seed, note in ((0, steering), (1, formula)):
        write_run(
            "none",
            root=tmp_path / "folder",
            seed=seed,
            settings={steering: note},
            options={steering: note},
            device=f"{formula}{steering}",
            gpu=False,
            environment={"host": steering, "plugins": [{"path": steering}], "command": steering},
            learned=[{f"range/{steering}": 1.0}],
        )
    write_run("scale", root=tmp_path / "folder", state=RunState.FAILED, status={"reason": steering, "cause": steering})
    source = tmp_path / form
    if form != "folder":
        assert augbench("archive", "--from", tmp_path / "folder", "--out", source)[0] == 0
    made = [augbench("tables", "--from", source, "--out", tmp_path / "to"), augbench("tables", "--from", source)]
    made.append(augbench("report", "--from", source, "--out", tmp_path / "to" / "page.html"))
    assert [code for code, _, _ in made] == [0, 0, 0]
    texts = [path.read_text() for path in (tmp_path / "to").iterdir()] + [said for one in made for said in one[1:]]
    assert len(texts) > 8
    for text in texts:
        assert not set(text) & set("\x1b\x07\x9b"), text
    assert r"\\x1b" in (tmp_path / "to" / "comparison.md").read_text()
    frame = pd.read_csv(tmp_path / "to" / "comparison.csv")
    assert frame["device"].str.startswith("'=HYPERLINK").all()


def test_names_that_cannot_be_registered_are_none_of_a_run(
    tmp_path: Path, write_run: WriteRun, augbench: CommandLine
) -> None:
    write_run("none", root=tmp_path / "runs")
    write_run('=HYPERLINK("x")', root=tmp_path / "runs")
    code, _, errors = augbench("tables", "--from", tmp_path / "runs")
    assert code == 2
    assert """'=HYPERLINK("x")' is no name that can be registered""" in errors
    code, text, errors = augbench("tables", "--from", tmp_path / "runs", "--skip-damaged")
    assert code == 0
    assert "1 damaged run folder is left out" in text


def test_texts_that_a_spreadsheet_would_compute_begin_with_an_apostrophe() -> None:
    frame = pd.DataFrame({"=text": ["=1+1", "+1", "-1", "@a", " =1", "a=1", "−1", None, 2], "number": range(-4, 5)})
    texts = [line.rpartition(",")[0] for line in csv_text(frame).splitlines()]
    assert texts == ["'=text", "'=1+1", "'+1", "'-1", "'@a", "' =1", "a=1", "−1", "", "2"]
    assert csv_text(frame).splitlines()[1].endswith(",-4")


def test_every_table_fits_into_a_terminal(tables: list[Table]) -> None:
    for table in tables:
        console = Console(width=80, color_system=None)
        with console.capture() as capture:
            console.print(to_rich(table))
        text = capture.get()
        assert max(map(len, text.splitlines())) <= 80
        assert "<script>" in text or NASTY not in to_csv(table), "names are shown as they are"
        if table.rows[0].measure is not None:
            for column in table.columns:
                assert column.heading[:12] in text, "learners that do not fit stand further below"
