"""Errors that a user can cause, each one paragraph: what is wrong, where, valid choices, and how to go on."""

import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from signal import Signals

LONGEST_QUOTE = 200  # characters


class UserError(Exception):
    """A mistake in the input or the environment; the command line prints its text and exits with status 2."""


class RetryableError(UserError):
    """A run cannot continue here and now, but its saved state is intact and the same command can resume it."""


class UnfitMachineError(RetryableError):
    """This machine lacks what the run needs, such as a GPU or a data set; another machine can execute it."""


class DivergedError(UserError):
    """Training produced a loss that is not a finite number."""


def end_in_words(status: int) -> str:
    """Say as a predicate how a process has ended; `status` is negative for a signal, as in `subprocess`."""
    return f"was killed by {Signals(-status).name}" if status < 0 else f"ended by itself with status {status}"


def one_of(kind: str, given: str, valid: Iterable[str], shown: str = "") -> str:
    """Say that `given`, shown as `shown`, is no known `kind`, which ones are, and which one may be meant."""
    choices = sorted(valid)
    close = get_close_matches(given, choices, n=1)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    valid_ones = f"Valid choices: {', '.join(choices)}." if choices else "There are none to choose from."
    return f"There is no {kind} {shortened(shown or given)!r}.{guess} {valid_ones}"


def check_known(kind: str, given: Iterable[str], valid: Iterable[str]) -> None:
    """Check that every given name is known.

    Raises:
        UserError: If one is not.
    """
    choices = tuple(valid)
    for one in given:
        if one not in choices:
            raise UserError(one_of(kind, one, choices))


def to_paste(*words: object) -> str:
    """Write a command of augbench for a shell, with every word quoted as needed."""
    return shlex.join(["augbench", *map(str, words)])


def shortened(quote: str) -> str:
    """Cut off a text that is too long to quote."""
    return quote if len(quote) <= LONGEST_QUOTE else quote[:LONGEST_QUOTE] + "…"
