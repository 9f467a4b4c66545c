"""`augbench tables` and `augbench figures`: from runs alone."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from augbench.bench.commands.interrupts import ended_by_ctrl_c
from augbench.bench.common.errors import UserError, check_known
from augbench.bench.common.plain_text import safe
from augbench.bench.runs.run_folder import DamagedError, RunState

if TYPE_CHECKING:  # pandas and seaborn take a second to import, which other commands need not wait for
    from augbench.results.model.frame import Runs

Sources = Annotated[
    list[Path],
    typer.Option(
        "--from",
        help="Folder that `augbench run` or `augbench demo` wrote to, or a .tar.gz or .parquet file that "
        "`augbench archive` wrote; can be given several times.",
    ),
]
Target = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
SkipDamaged = Annotated[bool, typer.Option("--skip-damaged", help="Leave damaged run folders out and say which.")]
PublishedFiles = Annotated[
    list[Path] | None,
    typer.Option("--published-file", help="CSV file with more published numbers; can be given several times."),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Keep nothing in the folder `cache` of what is read, and use nothing of it.")
]


@contextmanager
def offering_to_skip() -> Iterator[None]:
    """Say of a damaged run, whenever it shows, that it can be left out."""
    try:
        yield
    except DamagedError as error:
        raise UserError(f"{error} Or leave it out with --skip-damaged.") from None


@offering_to_skip()
def tables(
    sources: Sources,
    out: Annotated[Path | None, typer.Option(help="Folder to write to. Default: show the comparison here.")] = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--table", help="A single one, such as accuracy or differences; can be given several times."),
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="md, tex, csv or html; can be given several times. Default: all of them."),
    ] = None,
    published: Annotated[bool, typer.Option(help="Write a table of published numbers beside ours as well.")] = True,
    published_files: PublishedFiles = None,
    skip_damaged: SkipDamaged = False,
    no_cache: NoCache = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every number as it was computed.")] = False,
) -> None:
    """Write every table that there is something for, as Markdown, LaTeX, CSV and HTML; or show some here."""
    with ended_by_ctrl_c():
        from augbench.results.tables import FORMATS, NAMES, write_tables

    check_known("format", formats or (), FORMATS)
    check_known("table", names or (), NAMES)
    if as_json and (out is not None or formats):
        raise UserError("--json prints tables as JSON, and --out and --format write files. Give one or the other.")
    runs = load(sources, skip_damaged=skip_damaged, cache=not no_cache)
    files = published_files or ()
    made = names or (["comparison"] if out is None else NAMES)
    if as_json:
        _print_json(runs, made, files)
    elif out is None:
        show_tables(runs, made, files)
    else:
        chosen: dict[str, Any] = {"formats": tuple(formats)} if formats else {}
        _report(write_tables(runs, out, names=names or (), published=published, published_files=files, **chosen))
    if files and not (published and "published" in made):
        typer.echo("Note: published numbers stand in the table `published`, which was not made.", err=True)


def _print_json(runs: "Runs", names: Sequence[str], published_files: Sequence[Path]) -> None:
    from augbench.results.tables import all_tables
    from augbench.results.tables.formats.json_text import to_plain

    found = all_tables(runs, names=names, published_files=published_files)
    typer.echo(json.dumps(to_plain(found), indent=1, allow_nan=False))


def show_tables(runs: "Runs", names: Sequence[str], published_files: Sequence[Path] = ()) -> None:
    """Print tables, as wide as the terminal of most people.

    Args:
        runs: What to compare.
        names: Which tables.
        published_files: CSV files with more published numbers.

    Raises:
        UserError: If no run is finished, or there is nothing for a table that is named.
    """
    from augbench.results.tables import all_tables
    from augbench.results.tables.formats import to_rich

    console = Console()
    for tables_of_file in all_tables(runs, names=names, published_files=published_files).values():
        for table in tables_of_file:
            console.print(to_rich(table))


@offering_to_skip()
def figures(
    sources: Sources,
    out: Target,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="png, pdf or svg; can be given several times. Default: all of them."),
    ] = None,
    published_files: PublishedFiles = None,
    skip_damaged: SkipDamaged = False,
    no_cache: NoCache = False,
) -> None:
    """Write every figure that there is something for, as PNG, PDF and SVG."""
    with ended_by_ctrl_c():
        from augbench.results.figures import FORMATS, write_figures

    check_known("format", formats or (), FORMATS)
    runs = load(sources, skip_damaged=skip_damaged, cache=not no_cache)
    chosen: dict[str, Any] = {"formats": tuple(formats)} if formats else {}
    _report(write_figures(runs, out, published_files=published_files or (), **chosen))


def load(sources: Sequence[Path], *, skip_damaged: bool = False, cache: bool = True) -> "Runs":
    """Read runs for a command, and say on standard error what is unfinished, left out or mixed.

    Args:
        sources: What was given with --from.
        skip_damaged: Whether damaged folders are left out.
        cache: Whether to keep what takes long to read.

    Raises:
        DamagedError: If a folder is damaged.
        UserError: If a source cannot be read.
    """
    from augbench.results.model.frame import load_runs

    runs = load_runs(sources, skip_damaged=skip_damaged, cache=cache)
    if RunState.DONE not in runs.states:  # which is one paragraph of its own
        return runs
    for problem in runs.damaged:
        typer.echo(f"Left out: {safe(problem)}", err=True)
    for warning in runs.warnings():
        typer.echo(f"Note: {safe(warning)}", err=True)
    return runs


def _report(written: Sequence[Path]) -> None:
    for path in written:
        typer.echo(str(path))
