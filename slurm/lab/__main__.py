"""`python -m augbench.slurm.lab`: start and stop a Slurm on this host."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.common.errors import UserError
from augbench.slurm.lab.cluster import Lab
from augbench.slurm.lab.configuration import Shape

app = typer.Typer(help="A real Slurm on this host, to try things out.", no_args_is_help=True, add_completion=False)

Folder = Annotated[Path, typer.Argument(help="Where everything of it lies; a short path, such as /tmp/lab.")]


@app.command()
def up(
    folder: Folder,
    nodes: Annotated[int, typer.Option(help="Number of nodes, each with two cores and 4 GB.")] = Shape.nodes,
    gpus: Annotated[int, typer.Option(help="Devices of each node that pass for GPUs.")] = Shape.gpus,
    port_base: Annotated[
        int | None, typer.Option(help="First of 200 ports on 127.0.0.1; free ones are looked for if it is left out.")
    ] = None,
    accounting: Annotated[bool, typer.Option("--accounting", help="With the database that sacct needs.")] = False,
) -> None:
    """Start it; prints the line for your shell with which Slurm's commands find it."""
    lab = Lab(folder, Shape(nodes=nodes, gpus=gpus, accounting=accounting), port_base)
    lab.start()
    for name, value in lab.environment().items():
        typer.echo(f"export {name}={shlex.quote(value)}")


@app.command()
def down(folder: Folder) -> None:
    """Stop it with all its jobs."""
    Lab(folder).stop()


def main() -> None:
    """Run the command line; a mistake of the user ends in one paragraph and exit status 2."""
    try:
        app()
    except UserError as error:
        typer.secho(f"Error: {error}", fg="red", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
