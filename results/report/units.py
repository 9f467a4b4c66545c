"""The unit of time that a page has throughout, so that its columns can be compared and sorted."""

from dataclasses import dataclass

from augbench.results.model.costs import SECONDS_IN_AN_HOUR
from augbench.results.model.frame import Runs

SHORT = 1000  # seconds of the longest training, up to which they say more than hours


@dataclass(frozen=True)
class TimeUnit:
    """A unit of time.

    Attributes:
        name: "s" or "h".
        factor: What to multiply seconds by.
        digits: Decimals.
    """

    name: str
    factor: float
    digits: int


def time_unit(runs: Runs) -> TimeUnit:
    """Choose seconds for runs of minutes, and hours for longer ones."""
    longest = runs.runs["seconds_training"].astype(float).max()
    if longest > SHORT:
        return TimeUnit("h", 1 / SECONDS_IN_AN_HOUR, 2)
    return TimeUnit("s", 1.0, 1)
