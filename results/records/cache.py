"""Cache of what became of the test images of finished runs, since reading predictions takes long.

It is a file in the output folder that can be deleted at any time. The key of an entry is the content of the run's
`result.json`, which holds the metrics of the predictions to the last digit, and the size of `predictions.npz`. So a
folder can be moved or copied, and a run that was made again has another entry.
"""

import hashlib
import json
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from augbench.bench.common.errors import RetryableError
from augbench.bench.common.files import atomic_write, parse_json
from augbench.results.records.outcome_columns import (
    OUTCOMES,
    checksum,
    outcome_columns,
    plain_rows,
    read_outcome_rows,
)
from augbench.results.records.outcomes import Outcomes
from augbench.results.records.record import Record

FORMAT = 2
"""To be raised whenever the columns change, or what they hold of the same predictions."""
METADATA = b"augbench.outcomes"
KEY = "key"
COLUMNS = pa.schema([(KEY, pa.string()), *OUTCOMES])
NAME = Path("cache") / "outcomes.parquet"
UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError)


class OutcomesCache:
    """Outcomes of the runs of one output folder, read on first use.

    Args:
        out: The output folder; None to keep them in memory only.
    """

    def __init__(self, out: Path | None) -> None:
        self.path = out / NAME if out is not None else None
        self._known: dict[str, Outcomes] | None = None
        self._unsaved = 0.0  # seconds that it took

    def of(self, record: Record) -> Outcomes:
        """Return the outcomes of a finished run, from its predictions if they are not known.

        Raises:
            DamagedError: If the predictions are damaged.
        """
        if self._known is None:
            self._known = self._read()
        key = _key(record)
        if key not in self._known:
            begun = time.perf_counter()
            self._known[key] = record.outcomes()
            self._unsaved += time.perf_counter() - begun
        return self._known[key]

    def save(self, worth: float = 0.0) -> None:
        """Write new entries beside those of before; a folder that cannot be written to is no error.

        Args:
            worth: Write only if making the new entries took more than this many seconds.
        """
        if self.path is None or self._known is None or self._unsaved <= worth:
            return
        keys = pa.table({KEY: list(self._known)})
        table = outcome_columns(list(self._known.values()))
        for name in table.column_names:
            keys = keys.append_column(name, table[name])
        about = {"format": FORMAT, "sha256": checksum(plain_rows(keys, COLUMNS))}
        keys = keys.replace_schema_metadata({METADATA: json.dumps(about).encode()})
        try:
            self.path.parent.mkdir(exist_ok=True)
            with atomic_write(self.path) as file:
                pq.write_table(keys, file, compression="zstd")
            self._unsaved = 0.0
        except (RetryableError, OSError):  # somebody else's folder, or a full disk
            return

    def _read(self) -> dict[str, Outcomes]:
        if self.path is None:
            return {}
        try:
            with pq.ParquetFile(self.path) as file:
                table = file.read(columns=COLUMNS.names)
            about, rows = parse_json(table.schema.metadata[METADATA], KEY), plain_rows(table, COLUMNS)
            if about["format"] != FORMAT or about["sha256"] != checksum(rows):
                return {}
            return dict(zip((row[KEY] for row in rows), read_outcome_rows(rows), strict=True))
        except UNREADABLE:  # not there, or damaged: then it is made anew
            return {}


def _key(record: Record) -> str:
    size = record.stored.predictions.size if record.stored.predictions is not None else 0
    return hashlib.sha256(b"%d\n" % size + record.stored.result).hexdigest()
