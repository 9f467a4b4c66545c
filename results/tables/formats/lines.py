"""A table as a CSV file: a line for each number, unrounded."""

import pandas as pd

from augbench.results.model.csv_text import csv_text
from augbench.results.model.table import Table

CSV_COLUMNS = (
    *("dataset", "network", "budget", "protocol", "method", "device"),
    *("metric", "draws", "unit", "mean", "sd", "n", "asked"),
)


def to_csv(table: Table) -> str:
    """Write a line for each cell that holds a number, in the columns `CSV_COLUMNS`, or the table's own data.

    `mean` and `sd` are over `n` seeds of the `asked` and in `unit` (accuracies as shares, not percent); `sd` is empty
    for one seed.
    """
    frame = _lines(table) if table.data is None else table.data
    return csv_text(frame)


def _lines(table: Table) -> pd.DataFrame:
    lines = []
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            if cell.mean is None:
                continue
            measure, method = (column, row.label) if row.measure is None else (row.measure, column.heading)
            lines.append(
                (
                    *(row.dataset, row.network, row.budget, row.protocol, method, cell.device or row.device),
                    *(measure.metric, measure.draws, measure.unit, cell.mean, cell.sd, cell.count, cell.asked or None),
                )
            )
    return pd.DataFrame(lines, columns=list(CSV_COLUMNS)).astype({"draws": "Int64", "asked": "Int64"})
