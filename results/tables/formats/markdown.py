"""A table in GitHub's Markdown."""

import re
from collections.abc import Sequence

from augbench.bench.common.plain_text import safe
from augbench.results.model.table import Cell, Table

_SPECIAL = re.compile(r"([\\`*_\[\]#|~$])")
_LIST = re.compile(r"^(\s*)(-|\+(?=\s|$))|^(\s*\d+)([.)])(?=\s|$)")  # what would begin a list
_ENTITIES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("\n"): " ", ord("\r"): " "}


def escape_markdown(text: str) -> str:
    """Escape any text for a cell of a Markdown table: no mark-up, no HTML, no end of the cell or line."""
    return _LIST.sub(r"\1\3\\\2\4", _SPECIAL.sub(r"\\\1", safe(text).translate(_ENTITIES)))


def to_markdown(table: Table) -> str:
    """Write the table with its notes in GitHub's Markdown; cells marked as best are bold."""
    lines = [_line([escape_markdown(heading) for heading in table.headings])]
    lines.append("|".join(["", "---", "---", *("---:" for _ in table.headings[2:]), ""]))
    for head, row in table.heads():
        lines.append(_line([escape_markdown(text) for text in head] + [_cell(cell) for cell in row.cells]))
    notes = [f"- {escape_markdown(note)}" for note in (*table.notes, *table.definitions)]
    return "\n".join([f"## {escape_markdown(table.title)}", "", *lines, "", *notes]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    return f"**{escape_markdown(cell.text)}**" if cell.best else escape_markdown(cell.text)
