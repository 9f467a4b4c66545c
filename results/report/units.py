"""Common to all parts of a page: its finished runs, and one unit of time, so that columns can be compared."""

from dataclasses import dataclass

import pandas as pd

from augbench.bench.runs.run_folder import RunState
from augbench.results.model.costs import SECONDS_IN_AN_HOUR
from augbench.results.model.frame import Runs

SHORT = 1000  # seconds of the longest training, up to which seconds tell more than hours


@dataclass(frozen=True)
class TimeUnit:
    """A unit of time: "s" or "h", the factor that turns seconds into it, and decimals."""

    name: str
    factor: float
    digits: int


def time_unit(runs: Runs) -> TimeUnit:
    """Choose seconds for runs of minutes, and hours for longer ones."""
    longest = runs.runs["seconds_training"].astype(float).max()
    return TimeUnit("h", 1 / SECONDS_IN_AN_HOUR, 2) if longest > SHORT else TimeUnit("s", 1.0, 1)


def done(runs: Runs) -> pd.DataFrame:
    """Rows of the finished runs, of which there may be none."""
    return runs.runs[runs.runs["state"] == RunState.DONE.value]
