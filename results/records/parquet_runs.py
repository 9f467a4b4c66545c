"""Runs in one parquet file, which any program that reads parquet shows as a table.

A row is a run. The first columns are for people: those of `Runs.runs`, and the metrics by number of test-time draws.
The same frames as from run folders are made from the rest: `record_…` holds the text files of the run, `predictions_…`
what became of each test image.
"""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import parse_json
from augbench.bench.runs.run_folder import RunState
from augbench.results.records.outcome_columns import (
    OUTCOMES,
    RECORD,
    RECORDS,
    checksum,
    plain_rows,
    read_outcome_rows,
)
from augbench.results.records.outcomes import Outcomes
from augbench.results.records.problems import Problem
from augbench.results.records.stored import TEXTS, Stored

FORMAT = 1
"""To be raised whenever an older augbench can no longer read the file."""
METADATA = b"augbench.campaign"
UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)


class ParquetRuns:
    """A parquet file with runs.

    Args:
        path: The file.

    Raises:
        UserError: If it is not there, truncated, something else or of a newer augbench.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            schema = pq.read_schema(path)
            stored = (schema.metadata or {}).get(METADATA)
            about = None if stored is None else parse_json(stored, "its metadata")
        except UNREADABLE as error:
            raise self._damaged(error) from None
        if about is None:
            raise UserError(
                f"{path} is no parquet file of augbench: its metadata lacks {METADATA.decode()!r}. Give a file that "
                "`augbench archive` has written, or an output folder."
            )
        self._check_version(about)
        self._about: dict[str, Any] = about

    def _check_version(self, about: Any) -> None:
        try:
            newer, version = int(about["format"]) > FORMAT, str(about["augbench"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._damaged(error) from None
        if newer:
            raise UserError(
                f"{self.path} was written by augbench {version}, in a newer format than this one can read. Install a "
                "newer augbench (`pip install --upgrade augbench`)."
            )

    def stored_runs(self, source: str, *, skip_damaged: bool = False) -> Iterator[Stored | Problem]:
        """Read the text files of every run, and what was left out when the file was written.

        Args:
            source: What was given with --from.
            skip_damaged: Ignored: a parquet file holds no damaged folders.

        Raises:
            UserError: If the file is damaged.
        """
        try:
            found = [self._stored(row, index, source) for index, row in enumerate(self._rows(RECORDS, "records"))]
            problems = TypeAdapter(list[Problem]).validate_python(self._about["problems"])
        except UNREADABLE as error:
            raise self._damaged(error) from None
        yield from problems
        yield from found

    def _rows(self, schema: pa.Schema, part: str) -> list[dict[str, Any]]:
        """Read some columns and check their checksum, which files of earlier versions lack."""
        with pq.ParquetFile(self.path) as file:  # which takes no folder such as `seed=0` for a column
            rows = plain_rows(file.read(columns=schema.names), schema)
        if "sha256" in self._about and self._about["sha256"][part] != checksum(rows):
            raise ValueError("its checksum is not that of what was written")
        return rows

    def _stored(self, row: dict[str, Any], index: int, source: str) -> Stored:
        name, state = row[f"{RECORD}name"], RunState(row[f"{RECORD}state"])
        if not name:
            raise ValueError(f"row {index} has no name")
        texts = ((row[f"{RECORD}{text}"] or "").encode() for text in TEXTS)
        spec, status, result, metrics, environment, tuning = texts
        return Stored(
            *(name, f"{name} in {self.path}", source, state),
            *(spec, status, result, metrics, environment, tuning),
            outcomes=lambda: self._outcomes[index],
        )

    @cached_property
    def _outcomes(self) -> list[Outcomes]:
        try:
            return list(read_outcome_rows(self._rows(OUTCOMES, "outcomes")))
        except UNREADABLE as error:
            raise self._damaged(error) from None

    def _damaged(self, error: BaseException) -> UserError:
        return UserError(
            f"{self.path} is damaged or no parquet file: {(str(error) or repr(error)).splitlines()[0]}. "
            "Copy it again, or make it again with `augbench archive`."
        )
