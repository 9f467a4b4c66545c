"""`augbench calibrate`: ensembles of seeds and temperatures, from kept probabilities."""

from pathlib import Path
from typing import Annotated, Any

import typer

from augbench.bench.commands.options import AsJson
from augbench.bench.commands.plain import new_console, print_json
from augbench.bench.commands.showing import Formats, NoCache, SkipDamaged, Sources, load, offering_to_skip
from augbench.bench.common.errors import UserError, check_known


@offering_to_skip()
def calibrate(
    sources: Sources,
    out: Annotated[Path | None, typer.Option(help="Folder to write to. Default: print the table.")] = None,
    formats: Formats = None,
    skip_damaged: SkipDamaged = False,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Compare single networks with ensembles of seeds, before and after temperature scaling, without any training."""
    from augbench.results.tables import FORMATS, write_table
    from augbench.results.tables.ensembles import ensembles_table
    from augbench.results.tables.formats import to_rich
    from augbench.results.tables.formats.json_text import to_plain

    check_known("format", formats or (), FORMATS)
    if as_json and (out is not None or formats):
        raise UserError("--json prints the table as JSON; --out and --format write files. Give one or the other.")
    table = ensembles_table(load(sources, skip_damaged=skip_damaged, cache=not no_cache))
    if as_json:
        print_json(to_plain({table.name: [table]}))
    elif out is None:
        new_console().print(to_rich(table))
    else:
        chosen: Any = formats or FORMATS
        typer.echo("\n".join(map(str, write_table(table, out, chosen))))
