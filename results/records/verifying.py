"""Reads everything that is stored of runs, with all checks: what is good, repairable or lost."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.common.files import read_torch
from augbench.bench.runs.run_folder import DamagedError, RunFolder, RunState
from augbench.bench.training.examples import read_examples
from augbench.results.records.collecting import check_presence, stored_runs_of
from augbench.results.records.record import Record, RecordReader
from augbench.results.records.stored import ADVICE, TEXTS, Stored

SIDE_FILES = ("environment", "tuning", "status")
"""Text files of a run that no result depends on, by the names of the attributes of `Stored`."""


class Soundness(StrEnum):
    """Whether what is stored of a run can be used."""

    GOOD = "good"
    REPAIRABLE = "repairable"  # its results are intact; another file is damaged
    LOST = "lost"  # its results, or the checkpoint of an unfinished run, cannot be used


@dataclass(frozen=True)
class Verdict:
    """What was found of a run, or of a file with runs.

    Attributes:
        name: Name of the run, or of the file if nothing in it can be read.
        place: Where it is.
        soundness: Whether it can be used.
        problem: What is wrong; empty if it is good.
        way_on: What to do about it.
    """

    name: str
    place: str
    soundness: Soundness
    problem: str = ""
    way_on: str = ""


def verify(source: Path) -> Iterator[Verdict]:
    """Examine every run of an output folder, an archive or a parquet file.

    Yields:
        A verdict for each run; one for the whole file if that cannot be read.

    Raises:
        UserError: If the source does not exist or holds no runs.
    """
    check_presence(source)
    reader = RecordReader()
    try:
        for one in stored_runs_of(source, skip_damaged=True):
            if isinstance(one, Stored):
                yield _verdict(one, reader, source)
            elif one.kind == "damaged":
                yield Verdict(one.folder, str(source), Soundness.LOST, one.text, _again(source))
    except DamagedError:
        raise
    except UserError as error:
        if source.is_dir():
            raise
        yield Verdict(source.name, str(source), Soundness.LOST, str(error))


def _again(source: Path) -> str:
    """How to make a run again."""
    if source.is_file():
        return "Copy the file again, or make it again from the run folders."
    return f"Move its folder away; `{to_paste('run', 'SUITE', '--out', source)}` then makes the run again."


def _verdict(stored: Stored, reader: RecordReader, source: Path) -> Verdict:
    try:
        record = reader.read(stored)
        _read_numbers(record)
    except DamagedError as error:
        problem = str(error).removesuffix(ADVICE).strip()
        if (name := _side_file_to_blame(stored, reader)) is not None:
            return Verdict(stored.name, stored.place, Soundness.REPAIRABLE, problem, _without(TEXTS[name]))
        return Verdict(stored.name, stored.place, Soundness.LOST, problem, _again(source))
    return _of_files(record, stored.folder, source) if stored.folder is not None else _good(stored)


def _good(stored: Stored) -> Verdict:
    return Verdict(stored.name, stored.place, Soundness.GOOD)


def _without(name: str) -> str:
    return f"Move {name} out of the run's folder: no result depends on it."


def _read_numbers(record: Record) -> None:
    """Read all that tables and figures are made from.

    Raises:
        DamagedError: If something is damaged, or contradicts something else.
    """
    _ = record.epochs
    if record.state is RunState.DONE:
        record.outcomes()


def _side_file_to_blame(stored: Stored, reader: RecordReader) -> str | None:
    """Name the one damaged file, if no result depends on it."""
    for name in SIDE_FILES:
        try:
            without: dict[str, Any] = {name: b""}
            _read_numbers(reader.read(replace(stored, **without)))
        except DamagedError:
            continue
        return name
    return None


def _of_files(record: Record, folder: RunFolder, source: Path) -> Verdict:
    """Examine the files that only some commands read: example images, the trained network, a checkpoint."""
    name, place = record.name, record.stored.place
    if record.state is RunState.DONE:
        try:
            read_examples(folder)
        except DamagedError as error:
            return Verdict(name, place, Soundness.REPAIRABLE, str(error), _without("examples.npz"))
        if problem := _problem_of(folder.model):
            way_on = f"{_without('model.pt')} Only `probe` and `bound` need it."
            return Verdict(name, place, Soundness.REPAIRABLE, problem, way_on)
    elif problem := _problem_of(folder.checkpoint):
        way_on = f"`{to_paste('retry', '--out', source, '--from-scratch', name)}` starts the run again."
        return Verdict(name, place, Soundness.LOST, problem, way_on)
    return _good(record.stored)


def _problem_of(weights: Path) -> str:
    """Describe the damage of a file of weights; empty if it is sound or does not exist."""
    if not weights.exists():
        return ""
    try:
        read_torch(weights)
    except ValueError as error:
        return f"{weights} is damaged: {error}."
    return ""


def verify_all(sources: list[Path], tell: Callable[[Verdict], None]) -> list[Verdict]:
    """Examine every run of some sources.

    Args:
        sources: Output folders, archives and parquet files.
        tell: Called with each verdict as soon as it is known.

    Raises:
        UserError: If a source does not exist or holds no runs.
    """
    verdicts = []
    for source in sources:
        for verdict in verify(source):
            tell(verdict)
            verdicts.append(verdict)
    return verdicts
