"""A table of results as it is before a format is chosen: columns, rows, cells and what has to be said about them."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

NOTHING = "–"
SEVERAL_DEVICES = "several devices"


@dataclass(frozen=True)
class Column:
    """What one column shows.

    Attributes:
        heading: Heading with the unit.
        metric: Machine-readable name, as in the CSV file.
        draws: Number of test-time draws, None where that is no question.
        unit: Unit of the raw number behind a cell.
        rank: Which columns the terminal shows first, which has room for few: 1 before 2, 0 never unless asked.
    """

    heading: str
    metric: str
    draws: int | None
    unit: str
    rank: int = 0


@dataclass(frozen=True)
class Cell:
    """One entry.

    Attributes:
        text: As people read it, not yet escaped.
        mean: Mean over seeds in the column's unit, None for an empty cell.
        sd: Standard deviation over seeds (n − 1 in the divisor), None for fewer than two.
        count: Number of seeds.
        best: Whether to set it in bold.
    """

    text: str
    mean: float | None = None
    sd: float | None = None
    count: int = 0
    best: bool = False


@dataclass(frozen=True)
class Row:
    """One method on one data set; `comparison` is what rows of a group have in common, cells are in column order."""

    comparison: str
    dataset: str
    network: str
    budget: str
    protocol: str
    label: str
    device: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table of any text; what writes it in a format escapes it.

    Attributes:
        name: What a document refers to it by.
        title: One line.
        notes: What a reader must know of these runs: splits, devices, what ± is, what is missing.
        definitions: What the columns mean.
        columns: The columns after data set and method.
        rows: Rows, grouped by data set.
    """

    name: str
    title: str
    notes: tuple[str, ...]
    definitions: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def groups(self) -> Iterator[tuple[str, list[Row]]]:
        """Yield each data set with its rows."""
        for comparison in dict.fromkeys(row.comparison for row in self.rows):
            yield comparison, [row for row in self.rows if row.comparison == comparison]


def mean_cell(values: "pd.Series[float]", factor: float, digits: int) -> Cell:
    """Average over seeds.

    Args:
        values: One for each seed.
        factor: What to multiply by in the text, 100 for percentages.
        digits: Decimals in the text.
    """
    if values.empty:
        return Cell(NOTHING)
    mean, deviation = float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None
    text = f"{factor * mean:.{digits}f}" + (f" ± {factor * deviation:.{digits}f}" if deviation is not None else "")
    return Cell(text, mean, deviation, len(values))
