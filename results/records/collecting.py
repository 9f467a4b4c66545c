"""From sources to records: each run once, with a list of what was left out."""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import DamagedError, RunState
from augbench.bench.training.examples import read_examples
from augbench.results.records.anonymous import Anonymiser
from augbench.results.records.archives import Archive
from augbench.results.records.cache import OutcomesCache
from augbench.results.records.folders import stored_runs
from augbench.results.records.parquet_runs import ParquetRuns
from augbench.results.records.problems import Problem
from augbench.results.records.record import Record, RecordReader
from augbench.results.records.stored import Stored

ENDINGS: dict[str, type[Archive] | type[ParquetRuns]] = {".tar.gz": Archive, ".tgz": Archive, ".parquet": ParquetRuns}
"""What files with runs in them are called, and what reads them."""


@dataclass
class Collected:
    """All runs of all sources.

    Attributes:
        records: The runs that are evaluated on test images, each once.
        trials: Those that are evaluated on validation images, as trials of a tuning are.
        problems: What was left out.
        caches: By source, what became of test images.
    """

    records: list[Record] = field(default_factory=list)
    trials: list[Record] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    caches: dict[str, OutcomesCache] = field(default_factory=dict)


def collect(
    sources: Sequence[Path], *, skip_damaged: bool, cache: bool, anonymiser: Anonymiser | None = None
) -> Collected:
    """Read every run of some sources.

    Args:
        sources: Output folders, archives and parquet files.
        skip_damaged: Leave damaged folders out.
        cache: Keep what takes long to read in output folders.
        anonymiser: Takes out what says who executed the runs, where and from which folders.

    Raises:
        DamagedError: If a folder is damaged or holds the same run as another one of the same source, unless
            `skip_damaged`.
        UserError: If a source does not exist or cannot be read, or holds no runs.
    """
    reader, collected = RecordReader(), Collected()
    found: dict[tuple[str, int], Record] = {}
    for source in {os.path.realpath(source): source for source in sources}.values():  # given twice, read once
        check_presence(source)
        collected.caches[str(source)] = OutcomesCache(_output_folder(source) if cache and source.is_dir() else None)
        stored = stored_runs_of(source, skip_damaged=skip_damaged)
        read = reader.read if anonymiser is None else lambda one: reader.read(anonymiser.stored(one))
        for one in _records(read, stored, collected.caches[str(source)], skip_damaged=skip_damaged):
            if isinstance(one, Problem):
                collected.problems.append(one)
            elif (other := found.get(one.same)) is not None:
                is_better = one.state is RunState.DONE and other.state is not RunState.DONE
                kept, left_out = (one, other) if is_better else (other, one)
                found[one.same] = kept
                collected.problems.append(_duplicate(kept, left_out, skip_damaged=skip_damaged))
            else:
                found[one.same] = one
    for record in _with_unique_names(list(found.values())):
        if record.spec.protocol.evaluated_on == "test":
            collected.records.append(record)
            continue
        collected.trials.append(record)
        text = f"{record.stored.place} is evaluated on validation images and is no result on test images."
        collected.problems.append(Problem("trial of a tuning", text, record.name))
    return collected


def stored_runs_of(source: Path, *, skip_damaged: bool) -> Iterator[Stored | Problem]:
    """Read the text files of every run of one source, as `folders.stored_runs` does of an output folder."""
    if source.is_file():
        kinds = [kind for ending, kind in ENDINGS.items() if source.name.lower().endswith(ending)]
        if kinds:
            return kinds[0](source).stored_runs(str(source), skip_damaged=skip_damaged)
        raise UserError(
            f"{source} is no file of runs. Give an output folder, or a file that ends in {', '.join(ENDINGS)}, as "
            "`augbench archive` writes them."
        )
    return stored_runs(source, str(source), skip_damaged=skip_damaged)


def check_presence(source: Path) -> None:
    """Check that a source exists and is readable.

    Raises:
        UserError: If it is not.
    """
    try:
        source.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{source} does not exist. Give the folder that `augbench run` or `augbench demo` wrote to with --out, or "
            "a file that `augbench archive` wrote; or make runs: `augbench demo`."
        ) from None
    except OSError as error:
        raise UserError(f"{source} cannot be read: {error.strerror}. Choose another one.") from None


def _output_folder(source: Path) -> Path:
    source = source.resolve()
    return source if (source / "runs").is_dir() else source.parent


def _records(
    read: Callable[[Stored], Record],
    stored: Iterable[Stored | Problem],
    cache: OutcomesCache,
    *,
    skip_damaged: bool,
) -> Iterator[Record | Problem]:
    for one in stored:
        if isinstance(one, Problem):
            yield one
            continue
        try:
            record = read(one)
            if skip_damaged:
                _look_inside(record, cache)
        except DamagedError as error:
            if not skip_damaged:
                raise
            yield Problem("damaged", str(error), one.name)
        else:
            yield record
    cache.save()


def _look_inside(record: Record, cache: OutcomesCache) -> None:
    """Read what is otherwise read late: damaged runs must be left out before anything is counted.

    Raises:
        DamagedError: If what was recorded of the epochs, predictions or example images are damaged.
    """
    _ = record.epochs
    if record.state is RunState.DONE:
        cache.of(record)
    if record.stored.folder is not None:
        read_examples(record.stored.folder)


def _duplicate(kept: Record, left_out: Record, *, skip_damaged: bool) -> Problem:
    """Report a run that was found twice: counted twice it would look like another seed."""
    text = f"{left_out.stored.place} holds the same run as {kept.stored.place}."
    if kept.stored.source == left_out.stored.source:
        text += " Move one of the two away or delete it."
        if not skip_damaged:
            raise DamagedError(text)
    first, second = kept.result, left_out.result
    if first is not None and second is not None and first.metrics != second.metrics:
        text += " Their results differ, as they may if code or device did; the second is left out."
        return Problem("contradiction", text, left_out.name)
    return Problem("duplicate", text, left_out.name)


def _with_unique_names(records: Sequence[Record]) -> list[Record]:
    """Rename records whose folders share a name, since frames are joined by it."""
    taken = {record.name for record in records}
    kept: set[str] = set()
    unique = []
    for record in records:
        name = record.name
        if name in kept:
            name = next(other for count in itertools.count(2) if (other := f"{record.name} ({count})") not in taken)
            record = replace(record, stored=replace(record.stored, name=name))
        taken.add(name)
        kept.add(name)
        unique.append(record)
    return unique
