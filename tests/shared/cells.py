"""Reads cells of tables of results."""

from augbench.results.model.table import Cell, Table


def cell(table: Table, label: str, heading: str, comparison: str | None = None) -> Cell:
    """The cell under a heading in the only row with this label (of a comparison)."""
    (row,) = [row for row in table.rows if row.label == label and comparison in (None, row.comparison)]
    return row.cells[headings(table).index(heading)]


def headings(table: Table) -> list[str]:
    """Headings of the columns of cells."""
    return [column.heading for column in table.columns]


def texts(table: Table) -> dict[str, list[str]]:
    """Texts of the cells of each row, by its label."""
    return {row.label: [cell.text for cell in row.cells] for row in table.rows}


def bold(table: Table) -> list[tuple[str, str, str]]:
    """Data set, label and heading of every cell in bold."""
    return [
        (row.comparison, row.label, column.heading)
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if cell.best
    ]
