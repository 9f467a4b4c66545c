"""`augbench compare`: a method of one's own beside runs of the same suite."""

from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.options import AsJson
from augbench.bench.commands.plain import new_console, print_json, print_line
from augbench.bench.commands.showing import SkipDamaged, offering_to_skip


@offering_to_skip()
def compare(
    mine: Annotated[
        list[Path],
        typer.Argument(metavar="MINE…", help="Output folder with your method's runs, or a file of `augbench archive`."),
    ],
    ours: Annotated[
        list[Path], typer.Option("--with", help="The same, with what it is compared with. Can be repeated.")
    ],
    skip_damaged: SkipDamaged = False,
    as_json: AsJson = False,
) -> None:
    """Say which methods yours is better or worse than, in runs of the same suite, with the tests of the tables."""
    from augbench.results.studies.own_method import stand
    from augbench.results.tables.formats import to_rich
    from augbench.results.tables.formats.json_text import to_plain

    found = stand(mine, ours, skip_damaged=skip_damaged)
    if as_json:
        tables = to_plain({"differences": [one.table for one in found]})
        print_json({"standings": [one.sentences for one in found], "tables": tables})
        return
    console = new_console()
    for one in found:
        console.print(to_rich(one.table))
        for sentence in one.sentences:
            print_line(console, sentence)
