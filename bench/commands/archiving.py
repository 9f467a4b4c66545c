"""`augbench archive`: runs packed for sharing."""

from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.interrupts import ended_by_ctrl_c
from augbench.bench.commands.showing import SkipDamaged, Sources, offering_to_skip
from augbench.bench.plain_text import safe


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
    skip_damaged: SkipDamaged = False,
) -> None:
    """Pack runs into one file that `--from` of other commands reads."""
    with ended_by_ctrl_c():
        from augbench.results.records.packing import pack
        from augbench.results.records.problems import left_out
        from augbench.results.wording import counted

    count, problems = pack(sources, out, skip_damaged=skip_damaged)
    for problem in problems:
        if problem.kind == "damaged":
            typer.echo(f"Left out: {safe(problem.text)}", err=True)
    for sentence in left_out(problems):
        typer.echo(f"Note: {safe(sentence)}", err=True)
    typer.echo(f"{out}: {counted(count, 'run')}, {out.stat().st_size / 1e6:.1f} MB")
