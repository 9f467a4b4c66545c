"""Packing runs for sharing: run folders without networks as .tar.gz, or what figures and tables need as .parquet."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import augbench
from augbench.bench.common.errors import UserError
from augbench.bench.common.files import atomic_write, make_folder
from augbench.results.model.frame import Runs, load_runs
from augbench.results.records.anonymous import Anonymiser, anonymous_problem
from augbench.results.records.archives import write_archive
from augbench.results.records.collecting import collect
from augbench.results.records.outcome_columns import checksum, outcome_columns, plain_rows, record_columns
from augbench.results.records.parquet_runs import FORMAT, METADATA
from augbench.results.records.problems import Problem
from augbench.results.records.record import Record

LEVEL = 9  # of compression


def pack(
    sources: Sequence[Path], out: Path, *, skip_damaged: bool = False, anonymiser: Anonymiser | None = None
) -> tuple[int, tuple[Problem, ...]]:
    """Pack every run of some sources into one file; the same runs give the same bytes.

    Args:
        sources: Output folders, archives and parquet files.
        out: The file, in place of one that is there already: NAME.tar.gz has the files of each run but for its
            checkpoint and network; NAME.parquet a row for each run, with what became of each test image, but neither
            probabilities nor example images. Trials of a tuning are in both.
        skip_damaged: Leave damaged folders out.
        anonymiser: Takes out what says who executed the runs, where and from which folders; None to keep it.

    Returns:
        How many runs are in it, and what was left out.

    Raises:
        DamagedError: If a folder is damaged or there twice, unless `skip_damaged`.
        UserError: If a source cannot be read, nothing is left to pack, the file cannot be written or its ending is
            unknown.
    """
    name = out.name.lower()
    if not name.endswith((".tar.gz", ".tgz", ".parquet")):
        raise UserError(
            f"{out} has an unknown ending. Give NAME.tar.gz for run folders without their networks, or NAME.parquet "
            "for a small table that all tables and figures can be made from."
        )
    if out.is_dir():
        raise UserError(f"{out} is a folder. Give the name of a new file.")
    if name.endswith(".parquet"):
        plainly = anonymiser is None
        runs = load_runs(sources, skip_damaged=skip_damaged, cache=plainly, anonymiser=anonymiser, as_stored=True)
        _check_any(runs.records, sources)
        make_folder(out.absolute().parent)
        shown = runs.problems if anonymiser is None else tuple(map(anonymous_problem, runs.problems))
        write_parquet(replace(runs, problems=shown), out)
        return len(runs.records) + len(runs.trial_records), _left_out(runs.problems, runs.trial_records)
    collected = collect(sources, skip_damaged=skip_damaged, cache=False, anonymiser=anonymiser)
    everything = [*collected.records, *collected.trials]
    _check_any(everything, sources)
    make_folder(out.absolute().parent)
    write_archive(everything, out, anonymous=anonymiser is not None)
    return len(everything), _left_out(collected.problems, collected.trials)


def _left_out(problems: Iterable[Problem], trials: Iterable[Record]) -> tuple[Problem, ...]:
    """Return what was left out, without the trials that are packed; parquet files of earlier versions have none."""
    packed = {trial.name for trial in trials}
    return tuple(one for one in problems if one.kind != "trial of a tuning" or one.folder not in packed)


def _check_any(records: Sequence[Record], sources: Sequence[Path]) -> None:
    if not records:
        raise UserError(
            f"Every run in {' and '.join(map(str, sources))} is damaged, so there is nothing to pack. Give the same "
            "command without --skip-damaged to see what is wrong."
        )


def write_parquet(runs: Runs, path: Path) -> None:
    """Write all runs into one file, atomically; the same runs give the same bytes.

    Args:
        runs: The runs, all of which are written, in any state.
        path: The file; its folder must exist.

    Raises:
        DamagedError: If predictions are damaged.
        UserError: If it cannot be written.
    """
    people = pa.Table.from_pandas(_for_people(runs), preserve_index=False)
    records = (*runs.records, *runs.trial_records)
    trials = pa.Table.from_pylist([_trial_row(record) for record in runs.trial_records], people.schema)
    table = pa.concat_tables([people, trials])
    parts = {"records": record_columns(records), "outcomes": outcome_columns(runs.outcomes(records))}
    for part in parts.values():
        for name in part.column_names:
            table = table.append_column(name, part[name])
    kept = _left_out(runs.problems, runs.trial_records)  # trials are told of again when they are read
    problems = [asdict(replace(one, text=_without_folders(one.text, runs.sources))) for one in kept]
    sums = {name: checksum(plain_rows(part, part.schema)) for name, part in parts.items()}
    about = {"format": FORMAT, "augbench": augbench.__version__, "problems": problems, "sha256": sums}
    table = table.replace_schema_metadata({**people.schema.metadata, METADATA: json.dumps(about).encode()})
    with atomic_write(path) as file:
        pq.write_table(table, file, compression="zstd", compression_level=LEVEL, write_page_checksum=True)


def _without_folders(text: str, sources: Sequence[Path]) -> str:
    """Name sources without the folders that they are in, which are private."""
    for path in {path for source in sources for path in (source, source.resolve()) if path.is_absolute()}:
        text = text.replace(f"{path.parent}/", "")
    return text


def _trial_row(record: Record) -> dict[str, Any]:
    """What people see of a trial of a tuning; it has no results on test images, and no other columns."""
    spec = record.spec
    row = {"folder": record.name, "method": spec.method.name, "seed": spec.seed, "identity": spec.identity}
    return row | {"state": record.state.value, "split": spec.protocol.evaluated_on}


def _for_people(runs: Runs) -> pd.DataFrame:
    """Columns of `runs` and one for each metric and number of test-time draws, such as `accuracy_8_draws`."""
    columns = [runs.runs.set_index("folder", drop=False).drop(columns="source")]  # a private path
    for (draws, metric), inside in runs.scores.groupby(["draws", "metric"]):
        name = f"{metric}_{draws}_draws" if draws else str(metric)
        columns.append(inside.set_index("folder")[["value"]].astype(float).rename(columns={"value": name}))
    return pd.concat(columns, axis=1)
