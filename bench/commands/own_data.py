"""Prepares a data set of one's own with a progress bar, and says what was found, for `augbench data prepare`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from augbench.bench.commands.interrupts import INTERRUPTED
from augbench.bench.commands.options import data_folder
from augbench.bench.commands.own_options import OwnOptions
from augbench.bench.commands.plain import new_console
from augbench.bench.commands.preparing import BarsForProgress
from augbench.bench.commands.screen import progress_bars
from augbench.bench.common.errors import UserError, shortened
from augbench.bench.common.plain_text import safe
from augbench.bench.data.own.preparing import PreparedOwn, prepare_own
from augbench.bench.data.own.settings import Kind
from augbench.bench.experiment.catalogues import datasets

if TYPE_CHECKING:
    from augbench.bench.data.own.report import Report

MOST_CLASSES = 20  # in the table of a report
PARTS = ("train", "held_out", "test")


def prepare_own_data(kind: str, paths: Sequence[str], options: OwnOptions, data: Path) -> None:
    """Prepare a data set of one's own, print what was found, and the line for suites.

    Raises:
        UserError: If there is not one path, or it cannot be prepared.
        typer.Exit: With status 130 after Ctrl-C.
    """
    if len(paths) != 1:
        raise UserError(
            f"`augbench data prepare {kind}` needs one path after it, as in `augbench data prepare {kind} PATH`; "
            f"{len(paths) or 'none'} given."
        )
    print_prepared(prepare_with_bar(cast(Kind, kind), Path(paths[0]), options, data))


def prepare_with_bar(kind: Kind, path: Path, options: OwnOptions, data: Path) -> PreparedOwn:
    """Prepare a data set of one's own with a progress bar.

    Raises:
        UserError: If it cannot be prepared.
        typer.Exit: With status 130 after Ctrl-C.
    """
    console = new_console(errors=True)
    taken = [entry.name for entry in datasets()]
    try:
        with progress_bars(console) as bars:
            progress = BarsForProgress(console, bars)
            return prepare_own(kind, path, options.settings(), data_folder(data), progress, taken=taken)
    except KeyboardInterrupt:
        console.print("Stopped. Nothing was prepared.")
        raise typer.Exit(INTERRUPTED) from None


def print_prepared(made: PreparedOwn) -> None:
    """Print what was found, where things are, and how to go on."""
    console = new_console()
    console.print(_table(made.report))
    for sentence in made.report.sentences():
        _print(console, sentence)
    was_there = " (it was there already)" if made.was_there else ""
    _print(console, f"Prepared in {made.folder}{was_there}. Look at {made.sheet}: a few images of each class.")
    _print(console, "In a suite:")
    _print(console, f"datasets = [{made.line}]")


def _print(console: Console, text: str) -> None:
    console.print(safe(text), highlight=False, soft_wrap=True)


def _table(report: "Report") -> Table:
    parts = [part for part in PARTS if part != "held_out" or any(one.held_out for one in report.classes)]
    table = Table("class", *(part.replace("_", " ") for part in parts))
    for column in table.columns[1:]:
        column.justify = "right"
    for one in report.classes[:MOST_CLASSES]:
        name = Text(shortened(" ".join(safe(one.name).split())))
        table.add_row(name, *(f"{getattr(one, part):,}" for part in parts))
    if more := report.classes[MOST_CLASSES:]:
        table.add_row(f"and {len(more):,} more", *(f"{sum(getattr(one, part) for one in more):,}" for part in parts))
    return table
