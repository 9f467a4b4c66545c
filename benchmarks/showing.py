"""Tables and progress on the terminal."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from benchmarks.rows import Goal, Row

UNITS = {"s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")), "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")), "": ((1.0, ""),)}


def tables(title: str, rows: Sequence[Row]) -> Group:
    """Build the output of a section: a table for each case."""
    return Group(Text(title, style="bold"), *(_table(case, each) for case, each in groupby(rows, key=_case)))


def _case(row: Row) -> str:
    return row.case


def _table(case: str, rows: Iterable[Row]) -> Table:
    headings = ("contestant", "median", "images/s", "ratio", "quartiles", "goal")
    found = Table(*headings, title=case, title_justify="left", box=SIMPLE_HEAD)
    for number in (1, 2):
        found.columns[number].justify = "right"
    for row in rows:
        rate = "" if row.images_per_second is None else f"{row.images_per_second:,.0f}"
        value = measured(row.value.median, row.unit)
        found.add_row(row.contestant, value, rate, *_ratio(row), verdict(row))
    return found


def _ratio(row: Row) -> tuple[str, str]:
    if row.ratio is None:
        return "", ""
    return f"{row.ratio.median:.2f} × {row.reference}", f"{row.ratio.lower:.2f} to {row.ratio.upper:.2f}"


def measured(value: float, unit: str) -> str:
    """Write seconds, bytes or a count with three digits and a unit that suits it."""
    factor, name = next((each for each in UNITS[unit] if abs(value) >= each[0]), UNITS[unit][-1])
    digits = ".3g" if abs(value) < 1000 * factor else ",.0f"
    return f"{value / factor:{digits}} {name}".rstrip()


def verdict(row: Row) -> str:
    """Tell the goal and whether it is met."""
    if row.goal is None:
        return ""
    return f"{bound(row.goal, row.ratio is None, row.unit)} {'met' if row.met else 'missed'}"


def bound(goal: Goal, absolute: bool, unit: str) -> str:
    """Write a goal, for a ratio or for an absolute value."""
    value = measured(goal.bound, unit) if absolute else f"{goal.bound:.2f}"
    return f"{'≥' if goal.at_least else '≤'} {value}"


@contextmanager
def progress_bar(console: Console, section: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show which case of a section is being measured; yields a function for `Settings.progress`."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(section, total=None)

        def tell(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{section}: {what}")

        yield tell
