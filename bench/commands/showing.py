"""`augbench tables` and `augbench figures`: from run folders alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from augbench.bench.errors import UserError
from augbench.bench.run_folder import DamagedError

if TYPE_CHECKING:  # pandas and seaborn take a second to import, which other commands need not wait for
    from augbench.results.frame import Runs

Source = Annotated[Path, typer.Option("--from", help="Folder that `augbench run` or `augbench demo` wrote to.")]
Target = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
SkipDamaged = Annotated[bool, typer.Option("--skip-damaged", help="Leave damaged run folders out and say which.")]


def tables(source: Source, out: Target, skip_damaged: SkipDamaged = False) -> None:
    """Write the comparison, and what was recovered of planted symmetries, as Markdown, CSV and LaTeX."""
    from augbench.results.tables import write_tables

    runs = _load(source, skip_damaged=skip_damaged)
    _report(write_tables(runs, out), runs.damaged)


def figures(source: Source, out: Target, skip_damaged: SkipDamaged = False) -> None:
    """Write every figure as PNG and PDF."""
    from augbench.results.figures import write_figures

    runs = _load(source, skip_damaged=skip_damaged)
    _report(write_figures(runs, out), runs.damaged)


def _load(source: Path, *, skip_damaged: bool) -> "Runs":
    from augbench.results.frame import load_runs

    try:
        return load_runs(source, skip_damaged=skip_damaged)
    except DamagedError as error:
        raise UserError(f"{error} Or leave it out with --skip-damaged.") from None


def _report(written: list[Path], damaged: tuple[str, ...]) -> None:
    for problem in damaged:
        typer.echo(f"Left out: {problem}", err=True)
    for path in written:
        typer.echo(str(path))
