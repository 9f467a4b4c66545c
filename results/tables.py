"""Write a comparison table for people (Markdown, LaTeX, terminal) and for programs (CSV)."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from augbench.bench.files import make_folder, write_text
from augbench.results.comparison import comparison_table
from augbench.results.frame import Runs
from augbench.results.recovery import coordinate_table, has_planted, recovery_table
from augbench.results.table import Cell, Column, Row, Table

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
        label=f"tab:{table.name}",
        caption=" ".join(escape_latex(note) for note in (f"{table.title}.", *table.notes, *table.definitions)),
    )
    return "% needs \\usepackage{booktabs}\n" + environment


def _latex_cell(cell: Cell) -> str:
    return rf"\textbf{{{escape_latex(cell.text)}}}" if cell.best else escape_latex(cell.text)


TERMINAL_WIDTH = 80
IN_BRIEF = {
    "ece": "ECE: expected calibration error, 0 is best.",
    "recovery_error_planted": "Recovery error: distance from what was planted, 0 is exact.",
    "time_ratio": "Time / none: a multiple of none's.",
}


def to_rich(table: Table, *, complete: bool = False) -> RichTable:
    """Build the table for the terminal.

    Args:
        table: What to show.
        complete: Show every column, with definitions; otherwise those columns that fit into 80 characters.
    """
    shown = list(range(len(table.columns))) if complete else _fitting(table)
    notes = (*table.notes, *(table.definitions if complete else [_in_brief([table.columns[i] for i in shown])]))
    view = RichTable.grid(padding=(0, 0))
    view.title, view.caption, view.caption_justify = Text(table.title), Text("\n".join(notes)), "left"
    for comparison, rows in table.groups():
        # Tables within a table: a row of rich has no cell over several columns for the name of the data set.
        view.add_row(Text(f" {comparison}", style="bold"))
        view.add_row(_rich_group(table, rows, shown))
    return view


def _in_brief(columns: Sequence[Column]) -> str:
    draws = ["Draws: test-time augmentation."] if any(column.draws for column in columns) else []
    return " ".join([*draws, *(text for metric, text in IN_BRIEF.items() if metric in {c.metric for c in columns})])


def _fitting(table: Table) -> list[int]:
    """Columns that the terminal has room for, chosen by their ranks, in the table's order."""
    ranked = sorted((column.rank, index) for index, column in enumerate(table.columns) if column.rank)
    shown: list[int] = []
    left = TERMINAL_WIDTH - 1 - _label_width(table)  # a blank at either end
    for _, index in ranked:
        needed = 2 + _column_width(table, table.rows, index)
        if needed <= left:
            shown.append(index)
            left -= needed
    return sorted(shown)


def _label_width(table: Table) -> int:
    return _longest_word(["Method", *(row.label for row in table.rows)])


def _column_width(table: Table, rows: Sequence[Row], index: int) -> int:
    """As wide as the numbers, so that headings and what stands in parentheses are folded, and numbers never."""
    parts = [row.cells[index].text.partition(" (") for row in rows]
    folded = [table.columns[index].heading, *(f"({rest}" for _, _, rest in parts if rest)]
    return max(_longest_word(folded), *(len(number) for number, _, _ in parts))


def _rich_group(table: Table, rows: Sequence[Row], shown: Sequence[int]) -> RichTable:
    view = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    view.add_column(Text("Method"), min_width=_label_width(table))
    for index in shown:
        width = _column_width(table, rows, index)
        view.add_column(Text(table.columns[index].heading), justify="right", width=width)
    for row in rows:
        cells = [row.cells[index] for index in shown]
        view.add_row(Text(row.label), *(Text(cell.text, style="bold" if cell.best else "") for cell in cells))
    return view


def _longest_word(texts: Iterable[str]) -> int:
    return max(len(word) for text in texts for word in text.split())


def write_tables(runs: Runs, out: Path) -> list[Path]:
    """Write `comparison.md`, `.csv` and `.tex`, and where symmetries were planted the same of `recovery`.

    Args:
        runs: What to compare.
        out: Folder, made if need be.

    Returns:
        The files.

    Raises:
        UserError: If no run is finished or the folder cannot be written to.
    """
    contents = _contents("comparison", [comparison_table(runs)])
    if has_planted(runs):
        contents |= _contents("recovery", [recovery_table(runs), coordinate_table(runs)])
    make_folder(out)
    for name, content in contents.items():
        write_text(out / name, content)
    return [out / name for name in contents]


def _contents(name: str, tables: Sequence[Table]) -> dict[str, str]:
    """Files of some tables; the CSV file has the last of them, which leaves nothing out."""
    return {
        f"{name}.md": "\n".join(map(to_markdown, tables)),
        f"{name}.csv": to_csv(tables[-1]),
        f"{name}.tex": "\n".join(map(to_latex, tables)),
    }
