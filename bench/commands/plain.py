"""How commands print: JSON, lines of any text, what they leave out, and times."""

import json
import sys
from collections.abc import Iterable

import typer
from rich.console import Console

from augbench.bench.common.errors import UserError
from augbench.bench.common.plain_text import safe


def print_json(content: object) -> None:
    """Print JSON on standard output."""
    typer.echo(json.dumps(content, indent=1, allow_nan=False))


def new_console(*, errors: bool = False) -> Console:
    """Make a console that shows text as it stands: labels, folders and classes may look like rich's markup or emoji."""
    return Console(stderr=errors, markup=False, emoji=False)


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print text as it stands, unwrapped, above whatever moves on the console."""
    console.print(safe(text), style=style, highlight=False, soft_wrap=True)


def tell_left_out(problems: Iterable[object]) -> None:
    """Say on standard error which runs are left out, and why."""
    for problem in problems:
        typer.echo(f"Left out: {safe(str(problem))}", err=True)


def tell_notes(sentences: Iterable[str]) -> None:
    """Print notes on standard error."""
    for sentence in sentences:
        typer.echo(f"Note: {safe(sentence)}", err=True)


def ask(question: str, without_terminal: str) -> None:
    """Ask a question on the terminal.

    Raises:
        UserError: With the other text, if there is no terminal to ask on.
        typer.Exit: With status 1 if the answer is no.
    """
    if not sys.stdin.isatty():
        raise UserError(without_terminal)
    if not typer.confirm(question):
        raise typer.Exit(1)


def in_one_line(text: str, most: int = 400) -> str:
    """Show a text in one line, cut off if it is very long."""
    line = safe(" ".join(text.split()))
    return line if len(line) <= most else line[:most] + "…"


def duration(seconds: float) -> str:
    """Write a duration with its two largest units."""
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if minutes < 1:
        return f"{seconds:.0f} s"
    if hours < 1:
        return f"{minutes} min"
    if days < 1:
        return f"{hours} h {minutes % 60} min"
    return f"{days} d {hours % 24} h"
