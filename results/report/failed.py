"""Runs without a result: why, what helps, and the command that places them again."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from augbench.bench.common.errors import to_paste
from augbench.bench.common.wording import counted
from augbench.bench.planning.plan import state_in_words
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.failures import MEANING, WHAT_HELPS, counted_alike, placing_options
from augbench.bench.runs.run_folder import RunState
from augbench.results.model.frame import Runs
from augbench.results.report.grid import Grid, plain_grid

MOST_REASONS = 5
OUT = "OUT"
"""In commands, in place of the output folder where runs come from a file."""


@dataclass(frozen=True)
class FailedGroup:
    """Runs that lack a result for one cause.

    Attributes:
        title: The cause and how many runs.
        meaning: What it means.
        what_helps: What to do about it.
        reasons: What was said, the most frequent first, with how often.
        command: Places them again; empty where nothing can be placed now.
        folder_is_known: Whether the command names their output folder.
        grid: The runs.
    """

    title: str
    meaning: str
    what_helps: str
    reasons: tuple[tuple[str, int], ...]
    command: str
    folder_is_known: bool
    grid: Grid


def failed_groups(runs: Runs) -> list[FailedGroup]:
    """Put runs that have ended without a result together by cause and source, others by their state."""
    frame = runs.runs
    without = frame[frame["state"] != RunState.DONE.value]
    causes = without["cause"].where(without["cause"] != "", without["state"])
    groups = without.groupby([causes, without["source"]], sort=False)
    commands = runs.environments.drop_duplicates("folder", keep="last").set_index("folder")["command"]
    return [
        _group(number, str(keys[0]), str(keys[1]), inside, commands) for number, (keys, inside) in enumerate(groups, 1)
    ]


def _group(number: int, cause: str, source: str, inside: pd.DataFrame, commands: "pd.Series[str]") -> FailedGroup:
    known = next((one for one in Cause if one == cause), None)
    headings = ("Method", "Data set", "Seed", "State", "Reason", "Run")
    columns = ["label", "comparison", "seed", "state", "reason", "folder"]
    rows = inside[columns].itertuples(index=False, name=None)
    return FailedGroup(
        title=f"{cause}: {counted(len(inside), 'run')}",
        meaning=MEANING[known] if known else _meaning(cause),
        what_helps=WHAT_HELPS[known] if known else "",
        reasons=tuple(counted_alike(reason for reason in inside["reason"] if reason)[:MOST_REASONS]),
        command=_command(cause, source, str(commands.get(inside["folder"].iloc[0]) or "")),
        folder_is_known=Path(source).is_dir(),
        grid=plain_grid(f"failed-{number}", f"Runs: {cause}", "runs", headings, rows),
    )


def _meaning(state: str) -> str:
    return {
        RunState.PLANNED.value: "Nothing of them was executed.",
        RunState.RUNNING.value: "They were being executed when this page was made.",
        RunState.SUBMITTED.value: "They waited in a queue when this page was made.",
    }.get(state, "How they stand was not known when this page was made.")


def _command(cause: str, source: str, placed_by: str) -> str:
    """Write the command that places runs again, in the way in which the first of them was placed."""
    if cause in (RunState.RUNNING, RunState.SUBMITTED, RunState.UNKNOWN, Cause.STOPPED_EARLY):
        return ""
    chosen = state_in_words(RunState.PLANNED) if cause == RunState.PLANNED else cause
    out = source if Path(source).is_dir() else OUT
    return to_paste("retry", "--out", out, "--cause", chosen, *placing_options(placed_by))
