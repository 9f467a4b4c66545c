"""`augbench report`: everything about some runs as one page."""

from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.showing import NoCache, Probes, SkipDamaged, Sources, load, offering_to_skip


@offering_to_skip()
def report(
    sources: Sources,
    out: Annotated[Path, typer.Option("--out", help="The page to write, such as report.html.")],
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    probes: Probes = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Also show ensembles of seeds and temperatures, as `augbench calibrate` does. Takes longer.",
        ),
    ] = False,
    skip_damaged: SkipDamaged = False,
    no_cache: NoCache = False,
) -> None:
    """Write one HTML page that works offline: results, charts, images, failures, and how to reproduce everything."""
    from augbench.results.report import TITLE, check_page, write_report

    check_page(out)
    runs = load(sources, probes or (), skip_damaged=skip_damaged, cache=not no_cache)
    typer.echo(str(write_report(runs, out, title or TITLE, calibrate=calibrate)))
