"""`augbench archive`: runs packed for sharing."""

from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.interrupts import ended_by_ctrl_c
from augbench.bench.commands.showing import SkipDamaged, Sources, offering_to_skip
from augbench.bench.common.plain_text import safe


@offering_to_skip()
def archive(
    sources: Sources,
    out: Annotated[
        Path,
        typer.Option(
            help="File to write: NAME.tar.gz for run folders without networks and checkpoints; NAME.parquet for a "
            "small table of all runs, from which every table and figure can be made."
        ),
    ],
    anonymous: Annotated[
        bool,
        typer.Option(
            "--anonymous",
            help="Leave out what says who executed the runs, where and from which folders: names of machines, paths, "
            "commands' own words, reasons of failures, logs.",
        ),
    ] = False,
    skip_damaged: SkipDamaged = False,
) -> None:
    """Pack runs into one file that `--from` of other commands reads."""
    with ended_by_ctrl_c():
        from augbench.bench.common.wording import counted
        from augbench.results.model.packing import pack
        from augbench.results.records.anonymous import Anonymiser
        from augbench.results.records.problems import left_out

    anonymiser = Anonymiser() if anonymous else None
    count, problems = pack(sources, out, skip_damaged=skip_damaged, anonymiser=anonymiser)
    for problem in problems:
        if problem.kind == "damaged":
            typer.echo(f"Left out: {safe(problem.text)}", err=True)
    for sentence in left_out(problems):
        typer.echo(f"Note: {safe(sentence)}", err=True)
    for setting in sorted(anonymiser.remaining) if anonymiser else ():
        typer.echo(f"Note: part of what a run is, and so not left out: {safe(setting)}.", err=True)
    typer.echo(f"{out}: {counted(count, 'run')}, {out.stat().st_size / 1e6:.1f} MB")
