"""Any tidy frame as a table: the way to a table of one's own."""

import pandas as pd

from augbench.results.model.cells import asked_seeds
from augbench.results.model.frame import Runs
from augbench.results.model.notes import run_notes
from augbench.results.model.table import NOTHING, Cell, Column, Table, mean_cell
from augbench.results.tables.comparison import row_of


def tidy_table(
    runs: Runs,
    frame: pd.DataFrame,
    *,
    name: str,
    title: str,
    columns: str,
    value: str = "value",
    unit: str = "",
    factor: float = 1,
    digits: int = 3,
) -> Table:
    """Average a column of a frame over seeds: a row for each method on each data set.

    Args:
        runs: The runs that the frame is about.
        frame: Such as `runs.learned` or a part of it: the columns `KEYS`, one whose values become columns of the table,
            and one with numbers. A run has at most one number for each column.
        name: What files and documents call the table.
        title: One line.
        columns: The column of the frame whose values are the headings of the table, in their order.
        value: The column with the numbers.
        unit: Their unit.
        factor: Multiplies them in the text, 100 for percentages.
        digits: Decimals in the text.

    Returns:
        Cells are mean ± standard deviation over seeds, with n/N if some are missing.

    Raises:
        UserError: If no run is finished.
    """
    finished = runs.finished()
    headings = list(dict.fromkeys(frame[columns]))
    rows = []
    for _, group in finished.groupby("comparison", sort=False):
        for label, inside in group.groupby("label", sort=False):
            of_label = frame[frame["folder"].isin(inside["folder"])]
            cells = []
            for heading in headings:
                values = of_label.loc[of_label[columns] == heading, value].astype(float)
                cell = mean_cell(values, factor, digits) if len(values) else Cell(NOTHING)
                cells.append(cell.of(asked_seeds(group)))
            if any(cell.count for cell in cells):
                rows.append(row_of(inside, str(label), cells))
    shown = tuple(Column(str(heading), str(heading), None, unit) for heading in headings)
    return Table(name, title, run_notes(runs, finished), (), shown, tuple(rows))
