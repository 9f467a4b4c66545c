"""Runs as columns of a table of Arrow: their text files, and what became of each test image."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from augbench.bench.training.metrics import ReliabilityBins
from augbench.results.records.outcomes import Outcomes, checked_outcomes
from augbench.results.records.record import Record
from augbench.results.records.stored import TEXTS

RECORD = "record_"
"""Beginning of the names of columns that hold a run as it is stored."""
RECORDS = pa.schema(
    [
        *((f"{RECORD}{name}", pa.string()) for name in ("name", "state")),
        *((f"{RECORD}{name}", pa.large_string()) for name in TEXTS),
    ]
)
"""Columns of the text files; null without such a file."""
OUTCOMES = pa.schema(
    [
        ("predictions_images", pa.int64()),
        ("predictions_draws", pa.list_(pa.int64())),
        ("predictions_repeats", pa.list_(pa.int64())),
        ("predictions_right", pa.list_(pa.large_binary())),
        ("predictions_bin_count", pa.list_(pa.list_(pa.int64()))),
        ("predictions_bin_confidence", pa.list_(pa.list_(pa.float64()))),
        ("predictions_bin_accuracy", pa.list_(pa.list_(pa.float64()))),
    ]
)
"""Columns of `Outcomes`: an entry for each number of test-time draws; null without predictions."""


def record_columns(records: Sequence[Record]) -> pa.Table:
    """Make a row of each record, with the columns of `RECORDS`."""
    rows = []
    for record in records:
        texts = {f"{RECORD}{name}": getattr(record.stored, name).decode(errors="replace") or None for name in TEXTS}
        rows.append({f"{RECORD}name": record.name, f"{RECORD}state": record.state.value, **texts})
    return pa.Table.from_pylist(rows, schema=RECORDS)


def outcome_columns(outcomes: Sequence[Outcomes]) -> pa.Table:
    """Make a row of the outcomes of each run, with the columns of `OUTCOMES`."""
    return pa.Table.from_pylist([_row(of_run) for of_run in outcomes], schema=OUTCOMES)


def _row(outcomes: Outcomes) -> dict[str, Any]:
    if not outcomes:
        return dict.fromkeys(OUTCOMES.names)
    drawn = list(outcomes.values())
    columns = (
        drawn[0].images,
        list(outcomes),
        [one.repeats for one in drawn],
        [one.bits for one in drawn],
        [one.bins.count for one in drawn],
        [one.bins.confidence for one in drawn],
        [one.bins.accuracy for one in drawn],
    )
    return dict(zip(OUTCOMES.names, columns, strict=True))


def plain_rows(table: pa.Table, schema: pa.Schema) -> list[dict[str, Any]]:
    """Take some columns of a table as plain values, a dictionary for each row, in the order of the schema.

    Raises:
        KeyError: If a column is missing.
        pyarrow.ArrowException: If a column is of another kind.
    """
    rows: list[dict[str, Any]] = table.select(schema.names).cast(schema).to_pylist()
    return rows


def checksum(rows: Iterable[Mapping[str, Any]]) -> str:
    """Sum up values, the same however a file stores them: parquet itself does not notice a bit that has flipped.

    Returns:
        SHA-256 as hexadecimal digits.
    """
    found = hashlib.sha256()
    for row in rows:
        for value in row.values():
            part = value.encode() if isinstance(value, str) else ascii(value).encode()
            found.update(b"%s %d " % (type(value).__name__.encode(), len(part)) + part)
    return found.hexdigest()


def read_outcome_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[Outcomes]:
    """Read the outcomes of each row.

    Raises:
        ValueError: If a row contradicts itself.
        TypeError: If a value is missing.
    """
    for row in rows:
        yield _outcomes(row) if row["predictions_draws"] is not None else {}


def _outcomes(row: Mapping[str, Any]) -> Outcomes:
    images, *columns = (row[name] for name in OUTCOMES.names)
    outcomes = {}
    for draws, repeats, bits, *bins in zip(*columns, strict=True):
        if draws < 0:
            raise ValueError(f"{draws} test-time draws")
        count = np.array(bins[0], dtype=np.int64)
        confidence, accuracy = (np.array(values, dtype=np.float64) for values in bins[1:])
        outcomes[draws] = checked_outcomes(repeats, images, bits, ReliabilityBins(count, confidence, accuracy))
    return outcomes
