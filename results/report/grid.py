"""A table of the report: any text, sorted and filtered in the browser."""

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from augbench.results.model.table import NOTHING, SEVERAL_DEVICES, Cell, Table

SIGNIFICANT = 6  # digits of the numbers that the page computes with; people are shown fewer
LONG = 60  # letters from which on a text is broken into lines


@dataclass(frozen=True)
class GridColumn:
    """A column.

    Attributes:
        heading: Its heading.
        numbers: Whether it is sorted by number and aligned to the right.
        filter: Name of the filter that chooses among its texts: `method`, `dataset`, `draws` or `state`; else empty.
    """

    heading: str
    numbers: bool = True
    filter: str = ""


NAMES = (
    GridColumn("Method", numbers=False, filter="method"),
    GridColumn("Data set", numbers=False, filter="dataset"),
)
"""The first columns of tables of results."""


@dataclass(frozen=True)
class GridCell:
    """An entry: its text, the number that it is sorted by (None for its text), and whether it is bold."""

    text: str
    value: float | None = None
    strong: bool = False


@dataclass(frozen=True)
class Grid:
    """A table; the first cell of each row names the row.

    Attributes:
        name: Id of the table in the page.
        caption: What it shows.
        rows_are: Name of its rows where they are counted, such as "runs".
        columns: Its columns.
        rows: A cell for each column.
        notes: Sentences below it.
    """

    name: str
    caption: str
    rows_are: str
    columns: tuple[GridColumn, ...]
    rows: tuple[tuple[GridCell, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def long(self) -> list[bool]:
        """Tell for each column whether its texts are broken into lines."""
        return [
            not column.numbers and any(len(row[index].text) > LONG for row in self.rows)
            for index, column in enumerate(self.columns)
        ]


def significant(value: Any, digits: int = SIGNIFICANT) -> float | None:
    """Round a number to significant digits; None for a missing or infinite one, which JSON cannot hold."""
    if value is None or pd.isna(value) or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def number_cell(value: Any, factor: float, digits: int) -> GridCell:
    """Show one number with so many decimals, multiplied by `factor` in the text; None or NaN is an empty cell."""
    known = significant(value)
    return GridCell(NOTHING) if known is None else GridCell(f"{factor * known:,.{digits}f}", known)


def text_cells(*texts: Any) -> list[GridCell]:
    """Show texts as they are; a dash for what is missing."""
    return [GridCell(NOTHING if text is None or text == "" or pd.isna(text) else str(text)) for text in texts]


def only_device(devices: Iterable[object]) -> str:
    """Name the device of some runs; empty if unknown, `SEVERAL_DEVICES` if there are several."""
    known = sorted({str(device) for device in devices if isinstance(device, str) and device})
    if not known:
        return ""
    return known[0] if len(known) == 1 and " + " not in known[0] else SEVERAL_DEVICES


def grid_of(table: Table, said: Container[str] = ()) -> Grid:
    """Turn a table of `augbench tables` into one of the page, without the sentences that the page has already."""
    seeds = [GridColumn("n")] if table.has_seeds else []
    columns = (
        NAMES[0] if table.label_heading == "Method" else GridColumn(table.label_heading, numbers=False),
        NAMES[1],
        *seeds,
        *(GridColumn(column.heading) for column in table.columns),
    )
    rows = [
        (
            *text_cells(row.label, row.comparison),
            *(text_cells(row.seeds) if seeds else []),
            *(cell_of(cell) for cell in row.cells),
        )
        for row in table.rows
    ]
    notes = tuple(sentence for sentence in (*table.notes, *table.definitions) if sentence not in said)
    return Grid(f"table-{table.name}", table.title, "rows", columns, tuple(rows), notes)


def cell_of(cell: Cell) -> GridCell:
    """Turn a cell of a table of results into one of the page."""
    return GridCell(cell.text, significant(cell.mean), cell.best)


def plain_grid(
    name: str, caption: str, rows_are: str, headings: Sequence[str], rows: Iterable[Sequence[object]]
) -> Grid:
    """Make a table of texts and whole numbers; a column of nothing but numbers is sorted as such."""
    cells = tuple(tuple(text_cells(*row)) for row in rows)
    numbers = [
        bool(cells) and all(row[index].text.replace(",", "").lstrip("-").isdigit() for row in cells)
        for index in range(len(headings))
    ]
    columns = tuple(GridColumn(heading, is_number) for heading, is_number in zip(headings, numbers, strict=True))
    return Grid(name, caption, rows_are, columns, cells)
