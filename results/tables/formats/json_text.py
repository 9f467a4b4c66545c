"""Tables as JSON, for programs: every number as it was computed, beside its text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from augbench.results.model.table import Row, Table


def to_plain(files: Mapping[str, Sequence[Table]]) -> dict[str, Any]:
    """Make plain values of tables, by the name of their file; NaN and infinite numbers become None."""
    return {name: [_table(table) for table in tables] for name, tables in files.items()}


def _table(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "columns": [asdict(column) for column in table.columns],
        "rows": [_row(row) for row in table.rows],
        "definitions": list(table.definitions),
        "notes": list(table.notes),
    }


def _row(row: Row) -> dict[str, Any]:
    cells = [asdict(cell) | {"mean": _finite(cell.mean), "sd": _finite(cell.sd)} for cell in row.cells]
    return asdict(row) | {"cells": cells}


def _finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else float(number)
