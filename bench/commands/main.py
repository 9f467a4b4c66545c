"""Entry point of the command `augbench`."""

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import augbench
from augbench.bench.commands import (
    archiving,
    bound,
    cancelling,
    checking,
    creating,
    data,
    demo,
    failing,
    following,
    listing,
    logs,
    planning,
    probing,
    reporting,
    running,
    showing,
    toy,
    tuning,
)
from augbench.bench.commands.plain import safe
from augbench.bench.errors import UserError
from augbench.bench.plugins import PLUGINS_VARIABLE, plugins_added

PLUGIN = "--plugin"

app = typer.Typer(
    name="augbench",
    help="Compare methods that learn data augmentations, all in one augmentation space.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("demo")(demo.demo)
app.command("list")(listing.list_registered)
app.command("plan")(planning.plan)
app.command("run")(running.run)
app.command("status")(following.status)
app.command("watch")(following.watch)
app.command("logs")(logs.logs)
app.command("failures")(failing.failures)
app.command("retry")(failing.retry)
app.command("cancel")(cancelling.cancel_runs)
app.command("tables")(showing.tables)
app.command("figures")(showing.figures)
app.command("report")(reporting.report)
app.command("archive")(archiving.archive)
app.add_typer(creating.app, name="new")
app.add_typer(checking.app, name="check")
app.command("bound")(bound.bound)
app.add_typer(data.app, name="data")
app.command("probe")(probing.probe)
app.command("toy")(toy.toy)
app.command("tune")(tuning.tune)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(augbench.__version__)
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    plugins: Annotated[
        list[Path] | None,
        typer.Option(
            PLUGIN,
            help="Python file with methods, data sets, networks or launchers of your own; can be given several times, "
            f"and adds to the paths in {PLUGINS_VARIABLE}.",
        ),
    ] = None,
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
) -> None:
    context.with_resource(plugins_added(plugins or []))


def main() -> None:
    """Run the command line; a mistake of the user ends in one paragraph and exit status 2."""
    try:
        app(_plugins_first(sys.argv[1:]))
    except UserError as error:
        text = safe(f"Error: {error}")  # may quote what the code of a run has said
        Console(stderr=True).print(text, style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)


def _plugins_first(arguments: Sequence[str]) -> list[str]:
    """Move `--plugin FILE` before the command, where it belongs, since one thinks of it last."""
    plugins: list[str] = []
    others: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            others += [word, *words]
        elif word == PLUGIN:
            file = list(islice(words, 1))
            if not file:
                raise UserError(f"{PLUGIN} needs a Python file after it, as in `augbench {PLUGIN} my.py …`.")
            plugins += [word, *file]
        else:
            (plugins if word.startswith(f"{PLUGIN}=") else others).append(word)
    return [*plugins, *others]
