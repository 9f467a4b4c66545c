"""Runs of archives and parquet files, put into an output folder as if they had been computed there."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import atomic_write, make_folder
from augbench.bench.common.wording import counted
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.records.archives import FILES, texts_of
from augbench.results.records.collecting import collect
from augbench.results.records.outcomes import reduced_predictions
from augbench.results.records.record import Record
from augbench.results.records.stored import TEXTS

RESULT = TEXTS["result"]


class KnownRuns:
    """The finished runs of some files, trials of a tuning included.

    Args:
        sources: Archives, parquet files and output folders, as `augbench archive` reads them.

    Attributes:
        records: By identity.

    Raises:
        UserError: If a source does not exist, cannot be read or holds no finished runs.
    """

    def __init__(self, sources: Sequence[Path]) -> None:
        self.sources = sources
        collected = collect(sources, skip_damaged=False, cache=False)
        self.contradictions = tuple(one.text for one in collected.problems if one.kind == "contradiction")
        everything = (*collected.records, *collected.trials)
        self.records = {record.spec.identity: record for record in everything if record.state is RunState.DONE}
        if not self.records:
            raise UserError(f"{self.named} holds no finished run. Give another file with --have, or leave it out.")

    @property
    def named(self) -> str:
        """The sources, for sentences."""
        return " and ".join(map(str, self.sources))

    def codes(self, identities: Iterable[str]) -> Counter[str]:
        """Count some of the runs by the code that made them; empty text where that is unknown."""
        results = (self.records[identity].result for identity in identities)
        return Counter(result.code.label for result in results if result is not None)

    def restore(self, identity: str, folder: RunFolder) -> None:
        """Write the files of a run into its folder, the result last: its presence means that the run is done.

        Raises:
            DamagedError: If its predictions are damaged.
            UserError: If the folder cannot be written to.
        """
        record = self.records[identity]
        make_folder(folder.path)
        _write_predictions(record, folder)
        files = dict(texts_of(record.stored))
        for name in sorted(files, key=lambda name: name == RESULT):
            with atomic_write(folder.path / name) as file:
                file.write(files[name])


def _write_predictions(record: Record, folder: RunFolder) -> None:
    """Copy what is no text, or write what a parquet file has in place of predictions."""
    outcomes = record.outcomes()  # also checks that they are those of the result
    if record.stored.folder is None:
        with atomic_write(folder.predictions) as file:
            np.savez_compressed(file, **reduced_predictions(outcomes))  # type: ignore[arg-type]
        return
    for name in FILES[len(TEXTS) :]:
        source = record.stored.folder.path / name
        if source.exists():
            with atomic_write(folder.path / name) as file:
                file.write(source.read_bytes())


def of_other_code(codes: Counter[str], here: str) -> str:
    """Say which runs were made with other code than this one; empty if none was, or it is not known."""
    others = {code: count for code, count in codes.items() if code and here and code != here}
    listed = ", ".join(f"{counted(count, 'run')} with {code}" for code, count in others.items())
    return f"{listed}; this is {here}." if others else ""
