"""`augbench verify`: is what is stored of runs whole?"""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.interrupts import ended_by_ctrl_c
from augbench.bench.common.plain_text import safe


def verify(
    sources: Annotated[
        list[Path], typer.Argument(metavar="OUT|FILE…", help="Output folders, and files that `augbench archive` wrote.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Read everything that is stored of runs with all checks, and say what is good, repairable or lost."""
    with ended_by_ctrl_c():
        from rich.console import Console

        from augbench.bench.commands.screen import waiting
        from augbench.bench.common.wording import counted
        from augbench.results.records.verifying import Soundness, Verdict, verify_all

    def show(verdict: Verdict) -> None:
        if not as_json and verdict.soundness is not Soundness.GOOD:
            text = f"{verdict.name} {verdict.soundness}: {verdict.problem} {verdict.way_on}".strip()
            Console().print(safe(text), markup=False, highlight=False, soft_wrap=True)

    with waiting("Reading every file …"):
        verdicts = verify_all(sources, show)
    counts = Counter(verdict.soundness for verdict in verdicts)
    if as_json:
        typer.echo(json.dumps({"counts": counts, "runs": [asdict(one) for one in verdicts]}, indent=1))
    else:
        states = ", ".join(f"{counts[soundness]} {soundness}" for soundness in Soundness if counts[soundness])
        typer.echo(f"{counted(len(verdicts), 'run')}: {states or 'none'}.")
    if counts.total() != counts[Soundness.GOOD]:
        raise typer.Exit(1)
