"""`augbench data`: prepare data sets once, and verify them."""

from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.corruptions import CORRUPTED
from augbench.bench.commands.options import DEFAULT_DATA, Data
from augbench.bench.commands.own_options import OwnOptions
from augbench.bench.common.errors import UserError
from augbench.bench.data.own.settings import KINDS

app = typer.Typer(help="Prepare data sets once, which may download them, and verify them.", no_args_is_help=True)


@app.command("prepare")
def prepare(
    own: OwnOptions,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]…", help="Data sets; or images, arrays or table, and the path of a data set of your own."
        ),
    ] = None,
    suite: Annotated[str | None, typer.Option(help="Suite, to prepare every data set that it needs.")] = None,
    data: Data = DEFAULT_DATA,
    given: Annotated[
        Path | None, typer.Option("--from", help="Folder with files that were downloaded elsewhere.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Download nothing.")] = False,
) -> None:
    """Turn published files into arrays below --data, and download missing files; prepared data sets are kept.

    Images of your own: `augbench data prepare images FOLDER`, with a folder for each class; `arrays FILE.npz`; `table
    PATH`, Parquet with a column of images and one of labels. Nothing is downloaded, and nothing written beside them.

    The published arrays of CIFAR-10-C or CIFAR-10-C̄: `augbench data prepare corruptions FOLDER` or `corruptions-bar
    FOLDER`. Probes and suites with `shift` then use them for cifar10.
    """
    if names and names[0] in (*KINDS, *CORRUPTED):
        for option, value in {"--suite": suite, "--from": given, "--offline": offline or None}.items():
            if value is not None:
                raise UserError(f"{option} belongs to published data sets, not to `{names[0]}`. Leave it out.")
    if names and names[0] in KINDS:
        from augbench.bench.commands.own_data import prepare_own_data

        prepare_own_data(names[0], names[1:], own, data)
        return
    from augbench.bench.commands.preparing import prepare_datasets, prepare_original_arrays

    if names and names[0] in CORRUPTED:
        own.refuse(f"belongs to images of your own, not to `{names[0]}`. Leave it out.")
        prepare_original_arrays(names[0], names[1:], data)
        return
    own.refuse("belongs to `augbench data prepare images`, `arrays` or `table`, with a path. Leave it out.")
    prepare_datasets(names or [], suite, data, given, offline=offline)


@app.command("verify")
def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]…", help="Data sets, also of your own; all that are prepared by default."),
    ] = None,
    data: Data = DEFAULT_DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare every byte of prepared data sets with their manifests; exit status 2 if one is damaged."""
    from augbench.bench.commands.preparing import verify_datasets

    verify_datasets(names or [], data, as_json=as_json)
