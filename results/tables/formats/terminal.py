"""A table in the terminal."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from augbench.bench.common.plain_text import safe
from augbench.results.model.table import Column, Row, Table
from augbench.results.tables.formats.blocks import cut

WIDTH = 80
IN_BRIEF = {
    "temperature": "T: temperature, fitted on other test images.",
    "ece": "ECE: expected calibration error, 0 is best.",
    "recovery_error_planted": "Recovery error: distance from what was planted, 0 is exact.",
    "time_ratio": "Time / none: a multiple of none's.",
}


def to_rich(table: Table, *, complete: bool = False) -> RichTable:
    """Build the table for the terminal.

    Args:
        table: What to show.
        complete: Show every column, with definitions; otherwise the columns that fit into 80 characters by their ranks
            or, if none has a rank, all of them in blocks of that width.
    """
    blocks = _blocks(table, complete=complete)
    columns = [table.columns[index] for block in blocks for index in block]
    notes = (*table.notes, *(table.definitions if complete else [_in_brief(table, columns)]))
    view = RichTable.grid(padding=(0, 0))
    view.title, view.caption, view.caption_justify = _plain(table.title), _plain("\n".join(notes)), "left"
    for comparison, rows in table.groups():
        # Tables within a table: a row of rich has no cell over several columns for the name of the data set.
        view.add_row(_plain(f" {comparison}{_seeds(rows)}", style="bold"))
        for block in blocks:
            view.add_row(_group(table, rows, block))
    return view


def _blocks(table: Table, *, complete: bool) -> list[list[int]]:
    everything = list(range(len(table.columns)))
    if complete:
        return [everything]
    if any(column.rank for column in table.columns):
        return [_fitting(table)]
    widths = [2 + _column_width(table, table.rows, index) for index in everything]
    return cut(widths, WIDTH - 1 - _label_width(table))


def _plain(text: str, style: str = "") -> Text:
    """Escape any text: control characters are shown."""
    return Text(safe(text), style=style)


def _seeds(rows: Sequence[Row]) -> str:
    """Write the n of a group's numbers, unless they have their own."""
    numbers = {row.seeds for row in rows} - {None}
    return f", n = {numbers.pop()}" if len(numbers) == 1 else ""


def _in_brief(table: Table, columns: Sequence[Column]) -> str:
    shown = [*columns, *(row.measure for row in table.rows if row.measure is not None)]
    draws = ["Draws: test-time augmentation."] if any(column.draws for column in shown) else []
    texts = [text for metric, text in IN_BRIEF.items() if metric in {column.metric for column in shown}]
    return " ".join([*draws, *texts, *([table.bold] if table.bold else [])])


def _fitting(table: Table) -> list[int]:
    """Choose the columns that fit, by their ranks, in the table's order."""
    ranked = sorted((column.rank, index) for index, column in enumerate(table.columns) if column.rank)
    shown: list[int] = []
    left = WIDTH - 1 - _label_width(table)  # a blank at either end
    for _, index in ranked:
        needed = 2 + _column_width(table, table.rows, index)
        if needed <= left:
            shown.append(index)
            left -= needed
    return sorted(shown)


def _label_width(table: Table) -> int:
    if table.rows and table.rows[0].measure is not None:  # measures are many words and few rows, never folded
        return max(len(row.label) for row in table.rows)
    return _longest_word([table.label_heading, *(row.label for row in table.rows)])


def _column_width(table: Table, rows: Sequence[Row], index: int) -> int:
    """Width of the numbers, which are never folded; headings and text in parentheses may be."""
    parts = [row.cells[index].text.partition(" (") for row in rows]
    folded = [table.columns[index].heading, *(f"({rest}" for _, _, rest in parts if rest)]
    return max(_longest_word(folded), *(len(number) for number, _, _ in parts))


def _group(table: Table, rows: Sequence[Row], shown: Sequence[int]) -> RichTable:
    view = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    view.add_column(_plain(table.label_heading), min_width=_label_width(table))
    for index in shown:
        width = _column_width(table, rows, index)
        view.add_column(_plain(table.columns[index].heading), justify="right", width=width)
    for row in rows:
        cells = [row.cells[index] for index in shown]
        view.add_row(_plain(row.label), *(_plain(cell.text, style="bold" if cell.best else "") for cell in cells))
    return view


def _longest_word(texts: Iterable[str]) -> int:
    return max((len(word) for text in texts for word in text.split()), default=0)
