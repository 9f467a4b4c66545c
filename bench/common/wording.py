"""Numbers and names in sentences."""

from collections.abc import Sequence

FEW_NAMES = 4


def counted(count: int, noun: str) -> str:
    """Write a number with its noun: `1 run`, `12 runs`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def two_digits(number: float) -> str:
    """Write a number with two significant digits, or as a whole number: `0.40`, `2.0`, `123`."""
    return f"{number:.0f}" if number >= 10 else f"{number:#.2g}".rstrip(".")


def listed(names: Sequence[str], last: str = "and") -> str:
    """List names: `a`, `a and b`, `a, b and c`."""
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def few_names(names: Sequence[str], most: int = FEW_NAMES) -> str:
    """List the first names, and how many more there are: `a, b, c, d and 3 more`."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
