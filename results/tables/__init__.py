"""One file for each table, and what writes them all."""

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from augbench.bench.common.errors import UserError, check_known
from augbench.bench.common.files import make_folder, write_text
from augbench.results.model.corruptions import BENCHMARKS
from augbench.results.model.frame import Runs
from augbench.results.model.table import Cell, Column, Row, Table, mean_cell
from augbench.results.published import load_published
from augbench.results.tables.by_learner import (
    ablation_tables,
    accuracy_tables,
    calibration_tables,
    detailed_tables,
    svhn_tables,
)
from augbench.results.tables.comparison import comparison_table
from augbench.results.tables.corruptions import corruptions_tables
from augbench.results.tables.differences import differences_table, has_differences
from augbench.results.tables.formats import to_csv, to_html, to_latex, to_markdown
from augbench.results.tables.outside import outside_tables
from augbench.results.tables.published import published_tables
from augbench.results.tables.recovery import coordinate_table, has_planted, recovery_table
from augbench.results.tables.tidy import tidy_table

__all__ = [
    "FORMATS",
    "NAMES",
    "Cell",
    "Column",
    "Format",
    "Row",
    "Table",
    "all_tables",
    "comparison_table",
    "differences_table",
    "mean_cell",
    "tidy_table",
    "write_table",
    "write_tables",
]

Format = Literal["md", "tex", "csv", "html"]
FORMATS: tuple[Format, ...] = get_args(Format)


def write_tables(
    runs: Runs,
    out: Path,
    *,
    names: Sequence[str] = (),
    published: bool = True,
    published_files: Sequence[Path] = (),
    formats: Sequence[Format] = FORMATS,
) -> list[Path]:
    """Write a file in each format for each table that the runs have data for; returns the files.

    Args:
        runs: What to compare.
        out: Folder, made if need be.
        names: Which tables, of `NAMES`; none for all of them.
        published: Whether to put published numbers beside ours, in a table of their own.
        published_files: CSV files with more of them.
        formats: Endings of the files.

    Raises:
        UserError: If no run is finished, a named table would be empty, a format is unknown, or the folder cannot be
            written to.
    """
    check_known("format", formats, FORMATS)
    tables = all_tables(runs, names=names, published=published, published_files=published_files)
    return _write(tables, out, formats)


def write_table(table: Table, out: Path, formats: Sequence[Format] = FORMATS) -> list[Path]:
    """Write one table, such as one of your own, in some formats; returns the files.

    Args:
        table: Its name is that of the files.
        out: Folder, made if need be.
        formats: Endings of the files.

    Raises:
        UserError: If a format is unknown or the folder cannot be written to.
    """
    check_known("format", formats, FORMATS)
    return _write({table.name: [table]}, out, formats)


def _write(files: Mapping[str, Sequence[Table]], out: Path, formats: Sequence[Format]) -> list[Path]:
    contents = {f"{name}.{ending}": _content(tables, ending) for name, tables in files.items() for ending in formats}
    make_folder(out)
    for name, content in contents.items():
        write_text(out / name, content)
    return [out / name for name in contents]


def all_tables(
    runs: Runs,
    *,
    names: Sequence[str] = (),
    without: Container[str] = (),
    published: bool = True,
    published_files: Sequence[Path] = (),
) -> dict[str, list[Table]]:
    """Make every table that the runs have data for, by name of the file.

    Args:
        runs: What to compare.
        names: Which tables, of `NAMES`; none for all of them.
        without: Which of them not to make.
        published: Whether to make the table of published numbers.
        published_files: CSV files with more of them.

    Raises:
        UserError: If no run is finished, a named table would be empty, or a file of published numbers cannot be read.
    """
    check_known("table", names, NAMES)
    load_published(published_files)  # a wrong file is reported whichever tables are made
    runs.finished()
    makers = {**_MAKERS, "published": lambda given: published_tables(given, published_files)} if published else _MAKERS
    files = {name: make(runs) for name, make in makers.items() if (not names or name in names) and name not in without}
    if empty := [name for name in names if not files.get(name)]:
        given = f"These runs have no data for the table {' and '.join(empty)}."
        raise UserError(f"{given} Without --table, every table that they have data for is written.")
    return {name: tables for name, tables in files.items() if tables}


_MAKERS: Mapping[str, Callable[[Runs], list[Table]]] = {
    "comparison": lambda runs: [comparison_table(runs)],
    "accuracy": accuracy_tables,
    "accuracy-detailed": detailed_tables,
    "ablation": ablation_tables,
    "svhn": svhn_tables,
    "recovery": lambda runs: [recovery_table(runs), coordinate_table(runs)] if has_planted(runs) else [],
    "calibration": calibration_tables,
    **{name: partial(corruptions_tables, name=name) for name in BENCHMARKS},
    "ood": outside_tables,
    "differences": lambda runs: [differences_table(runs)] if has_differences(runs) else [],
}
NAMES = (*_MAKERS, "published")
"""Names of the tables."""


def _content(tables: Sequence[Table], ending: Format) -> str:
    """Write some tables into one file; the CSV file has the last of them, which is complete."""
    if ending == "md":
        return "\n".join(map(to_markdown, tables))
    if ending == "tex":
        return "\n".join(map(to_latex, tables))
    return to_html(tables) if ending == "html" else to_csv(tables[-1])
