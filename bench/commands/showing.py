"""`augbench tables` and `augbench figures`: from runs alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from augbench.bench.commands.options import AsJson
from augbench.bench.commands.plain import new_console, print_json, tell_left_out, tell_notes
from augbench.bench.common.errors import UserError, check_known
from augbench.bench.runs.run_folder import DamagedError, RunState

if TYPE_CHECKING:  # pandas and seaborn take a second to import, which other commands need not wait for
    from augbench.results.model.frame import Runs

Sources = Annotated[
    list[Path],
    typer.Option(
        "--from",
        help="Output folder of `augbench run` or `augbench demo`, or a file that `augbench archive` wrote. Can be "
        "repeated.",
    ),
]
Target = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
SkipDamaged = Annotated[bool, typer.Option("--skip-damaged", help="Leave out damaged run folders and name them.")]
PublishedFiles = Annotated[
    list[Path] | None,
    typer.Option("--published-file", help="CSV file with more published numbers. Can be repeated."),
]
Probes = Annotated[
    list[Path] | None,
    typer.Option(
        "--probes",
        help="Folder that `augbench probe` with --kind corruptions or ood has written to with --out. Can be repeated.",
    ),
]
Formats = Annotated[
    list[str] | None,
    typer.Option("--format", help="md, tex, csv or html. Can be repeated. Default: all."),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Do not read or write the folder `cache` beside the runs.")]


@contextmanager
def offering_to_skip() -> Iterator[None]:
    """Add to the error of a damaged run that it can be left out."""
    try:
        yield
    except DamagedError as error:
        raise UserError(f"{error} Or leave it out with --skip-damaged.") from None


@offering_to_skip()
def tables(
    sources: Sources,
    out: Annotated[Path | None, typer.Option(help="Folder to write to. Default: print the comparison.")] = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--table", help="One table, such as accuracy or differences. Can be repeated."),
    ] = None,
    formats: Formats = None,
    published: Annotated[bool, typer.Option(help="Also write a table of published numbers next to ours.")] = True,
    published_files: PublishedFiles = None,
    probes: Probes = None,
    skip_damaged: SkipDamaged = False,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Write every table the runs have data for, as Markdown, LaTeX, CSV and HTML; or print some here."""
    from augbench.results.tables import FORMATS, NAMES, all_tables, write_tables
    from augbench.results.tables.formats.json_text import to_plain

    check_known("format", formats or (), FORMATS)
    check_known("table", names or (), NAMES)
    if as_json and (out is not None or formats):
        raise UserError("--json prints tables as JSON; --out and --format write files. Give one or the other.")
    runs = load(sources, probes or (), skip_damaged=skip_damaged, cache=not no_cache)
    files = published_files or ()
    made = names or (["comparison"] if out is None else NAMES)
    if as_json:
        print_json(to_plain(all_tables(runs, names=made, published_files=files)))
    elif out is None:
        show_tables(runs, made, files)
    else:
        chosen: Any = formats or FORMATS
        written = write_tables(runs, out, formats=chosen, names=names or (), published=published, published_files=files)
        typer.echo("\n".join(map(str, written)))
    if files and not (published and "published" in made):
        tell_notes(["published numbers appear in the table `published`, which was not made."])


def show_tables(runs: "Runs", names: Sequence[str], published_files: Sequence[Path] = ()) -> None:
    """Print tables.

    Args:
        runs: What to compare.
        names: Which tables.
        published_files: CSV files with more published numbers.

    Raises:
        UserError: If no run is finished, or the runs have no data for a named table.
    """
    from augbench.results.tables import all_tables
    from augbench.results.tables.formats import to_rich

    console = new_console()
    for tables_of_file in all_tables(runs, names=names, published_files=published_files).values():
        for table in tables_of_file:
            console.print(to_rich(table))


@offering_to_skip()
def figures(
    sources: Sources,
    out: Target,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="png, pdf or svg. Can be repeated. Default: all."),
    ] = None,
    published_files: PublishedFiles = None,
    probes: Probes = None,
    skip_damaged: SkipDamaged = False,
    no_cache: NoCache = False,
) -> None:
    """Write every figure the runs have data for, as PNG, PDF and SVG."""
    from augbench.results.figures import FORMATS, write_figures

    check_known("format", formats or (), FORMATS)
    runs = load(sources, probes or (), skip_damaged=skip_damaged, cache=not no_cache)
    written = write_figures(runs, out, formats=formats or FORMATS, published_files=published_files or ())
    typer.echo("\n".join(map(str, written)))


def load(
    sources: Sequence[Path], probes: Sequence[Path] = (), *, skip_damaged: bool = False, cache: bool = True
) -> "Runs":
    """Read runs for a command; report unfinished, left-out and mixed-version runs on standard error.

    Args:
        sources: What was given with --from.
        probes: What was given with --probes.
        skip_damaged: Whether to leave out damaged folders.
        cache: Whether to cache what takes long to read.

    Raises:
        DamagedError: If a folder is damaged.
        UserError: If a source cannot be read, or a probe is of other runs or damaged.
    """
    from augbench.results.model.frame import load_runs
    from augbench.results.model.probe_files import with_probes

    runs = load_runs(sources, skip_damaged=skip_damaged, cache=cache)
    if RunState.DONE in runs.states:  # else an error that says it all follows
        tell_left_out(runs.damaged)
        tell_notes(runs.warnings())
    return with_probes(runs, probes)
