"""`augbench verify`: are stored runs intact?"""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.options import AsJson
from augbench.bench.commands.plain import new_console, print_json, print_line
from augbench.bench.commands.screen import waiting
from augbench.bench.common.wording import counted


def verify(
    sources: Annotated[
        list[Path], typer.Argument(metavar="OUT|FILE…", help="Output folders, and files that `augbench archive` wrote.")
    ],
    as_json: AsJson = False,
) -> None:
    """Read every stored file of runs with all checks, and say which runs are good, repairable or lost."""
    from augbench.results.records.verifying import Soundness, Verdict, verify_all

    def show(verdict: Verdict) -> None:
        if not as_json and verdict.soundness is not Soundness.GOOD:
            print_line(new_console(), f"{verdict.name} {verdict.soundness}: {verdict.problem} {verdict.way_on}".strip())

    with waiting("Reading every file …"):
        verdicts = verify_all(sources, show)
    counts = Counter(verdict.soundness for verdict in verdicts)
    if as_json:
        print_json({"counts": counts, "runs": [asdict(one) for one in verdicts]})
    else:
        states = ", ".join(f"{counts[soundness]} {soundness}" for soundness in Soundness if counts[soundness])
        typer.echo(f"{counted(len(verdicts), 'run')}: {states or 'none'}.")
    if counts.total() != counts[Soundness.GOOD]:
        raise typer.Exit(1)
