r"""A table in LaTeX, for the packages booktabs and graphicx."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from augbench.results.model.table import Cell, Row, Table
from augbench.results.tables.formats.blocks import cut
from augbench.results.tables.formats.latex_text import NEEDS_T1, escape_latex

WIDTH = 145  # characters that can still be read when they are shrunk to the width of a page
NARROWEST = 11  # characters that a heading is folded to, at least
GAP = 2  # characters between columns
HEIGHT = 55  # lines on a page
NOTE_WIDTH = 130  # characters in a line of the notes


def to_latex(table: Table) -> str:
    r"""Write `table*` environments with the notes below the last one.

    A table that is too wide is cut into blocks of columns, each shrunk to the width of the text if need be. A table
    that is too tall for a page continues in another environment, under the same number.
    """
    notes = "\n\n".join(escape_latex(note) for note in (*table.notes, *table.definitions))
    pages: list[list[str]] = [[]]
    left = HEIGHT
    for block in _blocks(table):
        for part in _parts(table):
            lines = len(part.rows) + 3
            if pages[-1] and lines > left:
                pages.append([])
                left = HEIGHT
            pages[-1].append(_tabular(table, part, block))
            left -= lines
    note_lines = sum(2 + len(note) // NOTE_WIDTH for note in (*table.notes, *table.definitions)) // 2
    if note_lines > left:
        pages.append([])
    return "\n".join(_environment(table, number, page, notes, len(pages)) for number, page in enumerate(pages, 1))


def _parts(table: Table) -> Iterator[Table]:
    """Cut a table between data sets into parts that fit onto a page."""
    part: list[Row] = []
    for _, rows in table.groups():
        if part and len(part) + len(rows) > HEIGHT - 3:
            yield replace(table, rows=tuple(part))
            part = []
        part += rows
    yield replace(table, rows=tuple(part))


def _environment(table: Table, number: int, blocks: Sequence[str], notes: str, pages: int) -> str:
    title = escape_latex(table.title)
    head = [rf"\caption{{{title}}}", rf"\label{{tab:{table.name}}}"]
    if number > 1:
        head = [r"\addtocounter{table}{-1}", rf"\caption{{{title} (continued)}}"]
    tail = [_NOTES.format(notes=notes)] if number == pages else []
    body = "\n\\par\\medskip\n".join([*blocks, *tail])
    lines = [r"\begin{table*}", r"\centering", *head, r"\par\smallskip", body, r"\end{table*}", ""]
    return "\n".join([*(_needs(lines) if number == 1 else []), *lines])


def _needs(lines: Sequence[str]) -> list[str]:
    """List the packages that the document has to load."""
    packages = [r"% needs \usepackage{booktabs} and \usepackage{graphicx}"]
    if not set(NEEDS_T1).isdisjoint("".join(lines)):
        packages.append(r"% needs \usepackage[T1]{fontenc} for some of its letters")
    return packages


def _blocks(table: Table) -> list[list[int]]:
    """Cut the columns into as few blocks as keep within `WIDTH`, each beside the same first columns."""
    heads = [head for head, _ in table.heads()]
    first = sum(max(map(len, texts)) + GAP for texts in zip(table.headings, *heads, strict=False))
    widths = [_width(table, index) + GAP for index in range(len(table.columns))]
    return cut(widths, WIDTH - first)


def _width(table: Table, index: int) -> int:
    """Width in characters of a column whose heading may be folded between words."""
    words = table.columns[index].heading.split()
    numbers = (row.cells[index].text for row in table.rows)
    return max(min(NARROWEST, len(table.columns[index].heading)), *map(len, (*words, *numbers, "")))


def _tabular(table: Table, part: Table, shown: Sequence[int]) -> str:
    lines: list[list[str]] = []
    for head, row in part.heads():
        # A rule may open a cell if that is the first of its line: pandas has no rules between groups of its own.
        rule = r"\midrule " if head[0] and lines else ""
        start = [rule + escape_latex(head[0]), *map(escape_latex, head[1:])]
        lines.append(start + [_cell(row.cells[index]) for index in shown])
    folded = [_folded(table.columns[index].heading, _width(table, index)) for index in shown]
    headings = [*map(escape_latex, part.headings[: -len(table.columns) or None]), *folded]
    styler = pd.DataFrame(lines, columns=headings).style.hide(axis="index")
    text = styler.to_latex(column_format="ll" + "r" * (len(headings) - 2), hrules=True)
    return f"{_SHRUNK}{{!}}{{%\n{text}}}"


def _folded(heading: str, width: int) -> str:
    lines = [
        escape_latex(line)
        for line in textwrap.wrap(heading, max(width, 1), break_long_words=False, break_on_hyphens=False)
    ]
    folded = r"\\".join(lines)
    return folded if len(lines) < 2 else rf"\begin{{tabular}}[b]{{@{{}}r@{{}}}}{folded}\end{{tabular}}"


_SHRUNK = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}"
_NOTES = r"""\begin{{minipage}}{{\textwidth}}
\scriptsize\setlength{{\parskip}}{{2pt}}
{notes}
\end{{minipage}}"""


def _cell(cell: Cell) -> str:
    return rf"\textbf{{{escape_latex(cell.text)}}}" if cell.best else escape_latex(cell.text)
