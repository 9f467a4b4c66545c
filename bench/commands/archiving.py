"""`augbench archive`: runs packed for sharing."""

from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.plain import tell_left_out, tell_notes
from augbench.bench.commands.showing import SkipDamaged, Sources, offering_to_skip


@offering_to_skip()
def archive(
    sources: Sources,
    out: Annotated[
        Path,
        typer.Option(
            help="File to write. NAME.tar.gz: run folders without networks and checkpoints. NAME.parquet: one small "
            "table of all runs, enough for every table and figure."
        ),
    ],
    anonymous: Annotated[
        bool,
        typer.Option(
            "--anonymous",
            help="Leave out what identifies people and machines: host names, paths, commands, failure reasons, logs.",
        ),
    ] = False,
    skip_damaged: SkipDamaged = False,
) -> None:
    """Pack runs into one file that other commands read with `--from`."""
    from augbench.bench.common.wording import counted
    from augbench.results.model.packing import pack
    from augbench.results.records.anonymous import Anonymiser
    from augbench.results.records.problems import left_out

    anonymiser = Anonymiser() if anonymous else None
    count, problems = pack(sources, out, skip_damaged=skip_damaged, anonymiser=anonymiser)
    tell_left_out(problem.text for problem in problems if problem.kind == "damaged")
    tell_notes(left_out(problems))
    kept = sorted(anonymiser.remaining) if anonymiser else ()
    tell_notes(f"part of what a run is, and so not left out: {setting}." for setting in kept)
    typer.echo(f"{out}: {counted(count, 'run')}, {out.stat().st_size / 1e6:.1f} MB")
