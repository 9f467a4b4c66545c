"""What moves on a terminal, such as progress bars; where output goes to a file or a log, nothing of it is written."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn


def is_screen(console: Console) -> bool:
    """Whether something can move on it: not on a file, whatever FORCE_COLOR says, nor on a terminal that is dumb."""
    return console.is_interactive and console.file.isatty()


@contextmanager
def progress_bars(console: Console, *columns: ProgressColumn) -> Iterator[Progress]:
    """Show bars for the length of the block.

    Args:
        console: Where.
        columns: What stands right of a bar. Default: how many of how many, and for how long.
    """
    shown = columns or (MofNCompleteColumn(), TimeElapsedColumn())
    before = (TextColumn("{task.description}"), BarColumn())
    with Progress(*before, *shown, console=console, transient=True, disable=not is_screen(console)) as progress:
        yield progress


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say on standard error what one is waiting for, for the length of the block."""
    console = Console(stderr=True)
    if not is_screen(console):
        yield
        return
    with console.status(what):
        yield
