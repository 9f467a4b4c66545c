"""Errors that a user can cause, each one paragraph: what is wrong, where, the valid choices, the way on."""

import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from signal import Signals

LONGEST_QUOTE = 200  # characters


class UserError(Exception):
    """A mistake in the input or the surroundings; the command line prints its text and exits with status 2."""


class RetryableError(UserError):
    """A run cannot go on here and now, but what is saved of it is whole and the same command can go on from it."""


class UnfitMachineError(RetryableError):
    """This machine lacks what the run needs, such as a GPU or a data set; the run can be executed by another one."""


class DivergedError(UserError):
    """Training produced a loss that is not a finite number."""


def end_in_words(status: int) -> str:
    """Say how a process has ended, as a predicate; `status` is negative for a signal, as `subprocess` has it."""
    return f"was killed by {Signals(-status).name}" if status < 0 else f"ended by itself with status {status}"


def one_of(kind: str, given: str, valid: Iterable[str], shown: str = "") -> str:
    """Say that `given`, or `shown` in its place, is no known `kind`, which ones are, and which one may be meant."""
    choices = sorted(valid)
    close = get_close_matches(given, choices, n=1)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    valid_ones = f"Valid choices: {', '.join(choices)}." if choices else "There are none to choose from."
    return f"There is no {kind} {shortened(shown or given)!r}.{guess} {valid_ones}"


def check_known(kind: str, given: Iterable[str], valid: Iterable[str]) -> None:
    """Make sure that only known ones were given.

    Raises:
        UserError: If one is not.
    """
    choices = tuple(valid)
    for one in given:
        if one not in choices:
            raise UserError(one_of(kind, one, choices))


def to_paste(*words: object) -> str:
    """Write a command of augbench as a shell takes it, whatever is in its paths; all messages write them so."""
    return shlex.join(["augbench", *map(str, words)])


def shortened(quote: str) -> str:
    """Cut off what is too long to be quoted."""
    return quote if len(quote) <= LONGEST_QUOTE else quote[:LONGEST_QUOTE] + "…"
