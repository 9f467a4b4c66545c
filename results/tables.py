"""Write a comparison table for people (Markdown, LaTeX, terminal) and for programs (CSV)."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from augbench.bench.files import make_folder, write_text
from augbench.results.comparison import Cell, Row, Table, comparison_table
from augbench.results.frame import Runs

CSV_COLUMNS = (
    *("dataset", "network", "budget", "protocol", "method", "device"),
    *("metric", "draws", "unit", "mean", "sd", "n"),
)

_MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]#+|~$])")
_MARKDOWN_ENTITIES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("\n"): " ", ord("\r"): " "}
_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "[": "{[}",  # an optional argument where it follows \\
        "]": "{]}",
        "±": r"$\pm$",
        "×": r"$\times$",
        "−": "$-$",
        "–": "--",
        "°": r"$^\circ$",
        "\n": " ",
        "\r": " ",
    }
)


def escape_markdown(text: str) -> str:
    """Make any text a plain one in a cell of a Markdown table: no mark-up, no HTML, no end of the cell or line."""
    return _MARKDOWN_SPECIAL.sub(r"\\\1", text.translate(_MARKDOWN_ENTITIES))


def escape_latex(text: str) -> str:
    """Make any text a plain one in LaTeX."""
    return text.translate(_LATEX)


def to_markdown(table: Table) -> str:
    """Write the table with its notes in GitHub's Markdown; the best cells are bold."""
    headings = ["Data set", "Method", *(column.heading for column in table.columns)]
    lines = [_markdown_line([escape_markdown(heading) for heading in headings])]
    lines.append("|".join(["", "---", "---", *("---:" for _ in table.columns), ""]))
    for comparison, rows in table.groups():
        # The data set stands in the first row of its group only: repeated, it hides where the next one begins.
        for name, row in zip([comparison, *[""] * len(rows)], rows, strict=False):
            start = [escape_markdown(name), escape_markdown(row.label)]
            lines.append(_markdown_line(start + [_markdown_cell(cell) for cell in row.cells]))
    notes = [f"- {escape_markdown(note)}" for note in (*table.notes, *table.definitions)]
    return "\n".join([f"## {escape_markdown(table.title)}", "", *lines, "", *notes]) + "\n"


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    return f"**{escape_markdown(cell.text)}**" if cell.best else escape_markdown(cell.text)


def to_csv(table: Table) -> str:
    """Write a line for each cell that holds a number, unrounded, in the columns `CSV_COLUMNS`.

    `mean` and `sd` are over `n` seeds and in `unit` (accuracies as shares, not percent); `sd` is empty for one seed.
    """
    lines = [
        (
            *(row.dataset, row.network, row.budget, row.protocol, row.label, row.device),
            *(column.metric, column.draws, column.unit, cell.mean, cell.sd, cell.count),
        )
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if cell.mean is not None
    ]
    frame = pd.DataFrame(lines, columns=list(CSV_COLUMNS)).astype({"draws": "Int64"})
    return frame.to_csv(index=False, lineterminator="\n")


def to_latex(table: Table) -> str:
    r"""Write a `table*` environment for the package booktabs, with the notes as its caption."""
    lines: list[list[str]] = []
    for comparison, rows in table.groups():
        # A rule may open a cell if that is the first of its line: pandas has no rules between groups of its own.
        start = (r"\midrule " if lines else "") + escape_latex(comparison)
        for name, row in zip([start, *[""] * len(rows)], rows, strict=False):
            lines.append([name, escape_latex(row.label), *(_latex_cell(cell) for cell in row.cells)])
    headings = ["Data set", "Method", *(escape_latex(column.heading) for column in table.columns)]
    styler = pd.DataFrame(lines, columns=headings).style.hide(axis="index")
    environment = styler.to_latex(
        column_format="ll" + "r" * len(table.columns),
        hrules=True,
        environment="table*",
        position_float="centering",
        label="tab:comparison",
        caption=" ".join(escape_latex(note) for note in (f"{table.title}.", *table.notes, *table.definitions)),
    )
    return "% needs \\usepackage{booktabs}\n" + environment


def _latex_cell(cell: Cell) -> str:
    return rf"\textbf{{{escape_latex(cell.text)}}}" if cell.best else escape_latex(cell.text)


IN_BRIEF = (
    "Draws: test-time augmentation. ECE: expected calibration error, 0 is best. Time / none: a multiple of none's.",
)


def to_rich(table: Table, *, complete: bool = False) -> RichTable:
    """Build the table for the terminal.

    Args:
        table: What to show.
        complete: Show every column, with definitions; otherwise those columns that fit into 80 characters.
    """
    shown = [index for index, column in enumerate(table.columns) if complete or column.brief]
    notes = (*table.notes, *(table.definitions if complete else IN_BRIEF))
    view = RichTable.grid(padding=(0, 0))
    view.title, view.caption, view.caption_justify = Text(table.title), Text("\n".join(notes)), "left"
    width = _longest_word(row.label for row in table.rows)
    for comparison, rows in table.groups():
        # Tables within a table: a row of rich has no cell over several columns for the name of the data set.
        view.add_row(Text(f" {comparison}", style="bold"))
        view.add_row(_rich_group(table, rows, shown, width))
    return view


def _rich_group(table: Table, rows: Sequence[Row], shown: Sequence[int], label_width: int) -> RichTable:
    view = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    view.add_column(Text("Method"), min_width=label_width)
    for index in shown:
        # As wide as the numbers, so that headings and what stands in parentheses are folded, and numbers never.
        heading = table.columns[index].heading
        numbers = [len(row.cells[index].text.partition(" (")[0]) for row in rows]
        view.add_column(Text(heading), justify="right", width=max(_longest_word([heading]), *numbers))
    for row in rows:
        cells = [row.cells[index] for index in shown]
        view.add_row(Text(row.label), *(Text(cell.text, style="bold" if cell.best else "") for cell in cells))
    return view


def _longest_word(texts: Iterable[str]) -> int:
    return max(len(word) for text in texts for word in text.split())


def write_tables(runs: Runs, out: Path) -> list[Path]:
    """Write `comparison.md`, `comparison.csv` and `comparison.tex`.

    Args:
        runs: What to compare.
        out: Folder, made if need be.

    Returns:
        The files.

    Raises:
        UserError: If no run is finished or the folder cannot be written to.
    """
    table = comparison_table(runs)
    make_folder(out)
    written = []
    for ending, content in (("md", to_markdown(table)), ("csv", to_csv(table)), ("tex", to_latex(table))):
        written.append(out / f"comparison.{ending}")
        write_text(written[-1], content)
    return written
