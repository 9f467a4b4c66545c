"""A table of results in no particular format: columns, rows, cells and notes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from augbench.results.statistics.summary import summarise

NOTHING = "–"
SEVERAL_DEVICES = "several devices"
UNDEFINED = "not a number"


@dataclass(frozen=True)
class Column:
    """What one column shows, or one row of a table whose columns are methods.

    Attributes:
        heading: Heading with the unit.
        metric: Machine-readable name, as in the CSV file.
        draws: Number of test-time draws, None where it does not apply.
        unit: Unit of the raw number behind a cell.
        rank: Which columns the terminal shows first, which has room for few: 1 before 2, 0 never unless asked; where
            none has a rank, all are shown.
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
        asked: Number of seeds that runs exist for, finished or not; 0 where it does not apply.
        device: Where that is another one than the row's.
    """

    text: str
    mean: float | None = None
    sd: float | None = None
    count: int = 0
    best: bool = False
    asked: int = 0
    device: str = ""

    def of(self, asked: int) -> "Cell":
        """Return the cell with the number of seeds that were asked for; if it has fewer, its text says so."""
        if not self.count:
            return self
        return replace(
            self, asked=asked, text=f"{self.text} ({self.count}/{asked})" if self.count < asked else self.text
        )


@dataclass(frozen=True)
class Row:
    """One method on one data set, with cells in column order; or one measure, where columns are methods.

    Attributes:
        comparison: What rows of a group have in common.
        dataset: Data set with its options.
        network: Network.
        budget: Such as "24 epochs".
        protocol: Protocol settings where they vary, else empty.
        label: What the row is called: a method, or a measure.
        device: Of all runs behind the row.
        cells: One for each column.
        measure: What the cells are, where the columns are methods; None where the columns say so.
    """

    comparison: str
    dataset: str
    network: str
    budget: str
    protocol: str
    label: str
    device: str
    cells: tuple[Cell, ...]
    measure: Column | None = None

    @property
    def seeds(self) -> int | None:
        """The n of all cells that name no other; None for a row without numbers or with several n."""
        asked = {cell.asked for cell in self.cells if cell.asked}
        return asked.pop() if len(asked) == 1 else None


@dataclass(frozen=True)
class Table:
    """A table of unescaped text.

    Attributes:
        name: What a document refers to it by.
        title: One line.
        notes: What a reader must know of these runs: splits, devices, what ± is, what is missing.
        definitions: What the columns mean.
        columns: The columns after data set and method.
        rows: Rows, grouped by data set.
        label_heading: Heading of the rows' labels.
        data: What the CSV file holds if that is more than the cells.
        bold: What bold means in brief, for the terminal.
    """

    name: str
    title: str
    notes: tuple[str, ...]
    definitions: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    label_heading: str = "Method"
    data: pd.DataFrame | None = None
    bold: str = ""

    def groups(self) -> Iterator[tuple[str, list[Row]]]:
        """Yield each data set with its rows."""
        for comparison in dict.fromkeys(row.comparison for row in self.rows):
            yield comparison, [row for row in self.rows if row.comparison == comparison]

    @property
    def headings(self) -> list[str]:
        """Headings of all columns: data set, label of the row, n if any row has one, then `columns`."""
        seeds = ["n"] if self.has_seeds else []
        return ["Data set", self.label_heading, *seeds, *(column.heading for column in self.columns)]

    @property
    def has_seeds(self) -> bool:
        """Whether any row has an n."""
        return any(row.seeds for row in self.rows)

    def with_column(self, column: Column, cell: Callable[[Row], Cell]) -> "Table":
        """Return the table with one more column.

        Args:
            column: What it shows; the unit should say what its numbers are.
            cell: Makes the cell of a row, which has `comparison` and `label` to look runs up with.
        """
        rows = tuple(replace(row, cells=(*row.cells, cell(row))) for row in self.rows)
        return replace(self, columns=(*self.columns, column), rows=rows)

    def heads(self) -> Iterator[tuple[list[str], Row]]:
        """Yield each row with its first texts: data set, label, n if the table has any.

        Only the first row of a group names the data set: repeated, it would hide where the next one begins.
        """
        for comparison, rows in self.groups():
            for name, row in zip([comparison, *[""] * len(rows)], rows, strict=False):
                seeds = [str(row.seeds or "")] if self.has_seeds else []
                yield [name, row.label, *seeds], row


def marked(rows: Iterable[Row]) -> Iterator[tuple[str, bool]]:
    """Yield for each cell of some rows its comparison and whether it is bold."""
    return ((row.comparison, cell.best) for row in rows for cell in row.cells)


def number(value: float, digits: int) -> str:
    """Write a number with so many decimals and a true minus sign."""
    text = f"{value:.{digits}f}"
    return text.replace("-", "" if float(text) == 0 else "−")


def signed(text: str) -> str:
    """Put a plus sign before what begins with a number above zero, as it is shown."""
    first = text.partition(" ")[0]
    return f"+{text}" if first.strip("0.") and first[0].isdigit() else text


def with_ends(texts: Sequence[str | None]) -> str:
    """Write a number with the ends of its interval, if any, in brackets."""
    middle, low, high = texts
    return f"{middle}" if low is None else f"{middle} [{low}, {high}]"


def with_draws(draws: int) -> str:
    """Write the number of test-time draws for the end of a heading; empty for 0."""
    return f", {draws} draw{'s' if draws > 1 else ''}" if draws else ""


def mean_cell(values: "pd.Series[float]", factor: float, digits: int) -> Cell:
    """Average over seeds.

    One NaN makes the whole cell "not a number": the average over the others would look too good.

    Args:
        values: One for each seed.
        factor: What to multiply by in the text, 100 for percentages.
        digits: Decimals in the text.
    """
    if values.empty:
        return Cell(NOTHING)
    if values.isna().any():
        return Cell(UNDEFINED, count=len(values))
    summary = summarise(values)
    spread = "" if summary.sd is None else f" ± {number(factor * summary.sd, digits)}"
    return Cell(number(factor * summary.mean, digits) + spread, summary.mean, summary.sd, len(values))
