"""What moves on a terminal, such as progress bars; files and logs get none of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

from augbench.bench.commands.plain import new_console

WIDER_THAN_ANY = 10_000  # characters


def is_screen(console: Console) -> bool:
    """Whether things can move on it: never in a file, whatever FORCE_COLOR says, nor on a dumb terminal."""
    return console.is_interactive and console.file.isatty()


def fits(console: Console, part: RenderableType) -> bool:
    """Whether something is shown without folding or cutting off a word."""
    unlimited = console.options.update(max_width=WIDER_THAN_ANY)
    return Measurement.get(console, unlimited, part).maximum <= console.width


@contextmanager
def progress_bars(console: Console, *columns: ProgressColumn) -> Iterator[Progress]:
    """Show bars for the length of the block.

    Args:
        console: Where.
        columns: What stands right of a bar. Default: how many of how many, and the time so far.
    """
    shown = columns or (MofNCompleteColumn(), TimeElapsedColumn())
    before = (TextColumn("{task.description}", markup=False), BarColumn())
    with Progress(*before, *shown, console=console, transient=True, disable=not is_screen(console)) as progress:
        yield progress


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say on standard error what the user waits for, for the length of the block."""
    console = new_console(errors=True)
    if not is_screen(console):
        yield
        return
    with console.status(what):
        yield
