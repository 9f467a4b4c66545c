"""Entry point of the command `augbench`."""

import sys

import typer
from rich.console import Console

import augbench
from augbench.bench.commands import demo, listing, running, showing
from augbench.bench.errors import UserError

app = typer.Typer(
    name="augbench",
    help="Compare methods that learn data augmentations, all in one augmentation space.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("demo")(demo.demo)
app.command("list")(listing.list_registered)
app.command("plan")(running.plan)
app.command("run")(running.run)
app.command("tables")(showing.tables)
app.command("figures")(showing.figures)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(augbench.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def main() -> None:
    """Run the command line; a mistake of the user ends in one paragraph and exit status 2."""
    try:
        app()
    except UserError as error:
        Console(stderr=True).print(f"Error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
