"""`augbench data`: prepare data sets once, and verify them."""

from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.options import DEFAULT_DATA, Data

app = typer.Typer(help="Prepare data sets once, which may download them, and verify them.", no_args_is_help=True)


@app.command("prepare")
def prepare(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Data sets.")] = None,
    suite: Annotated[str | None, typer.Option(help="Suite, to prepare every data set that it needs.")] = None,
    data: Data = DEFAULT_DATA,
    given: Annotated[
        Path | None, typer.Option("--from", help="Folder with files that were downloaded elsewhere.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Download nothing.")] = False,
) -> None:
    """Turn published files into arrays below --data, and download missing files; prepared data sets are kept."""
    from augbench.bench.commands.preparing import prepare_datasets

    prepare_datasets(names or [], suite, data, given, offline=offline)


@app.command("verify")
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="Data sets; all that are prepared by default.")
    ] = None,
    data: Data = DEFAULT_DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare every byte of prepared data sets with their manifests; exit status 2 if one is damaged."""
    from augbench.bench.commands.preparing import verify_datasets

    verify_datasets(names or [], data, as_json=as_json)
