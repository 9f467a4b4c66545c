"""Runs without a result: why, what helps, and the command that retries them."""

from collections.abc import Mapping
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
OUT = "OUT"  # in commands, for the unknown output folder of runs that come from a file
_MEANING: Mapping[str, str] = {
    RunState.PLANNED: "They have not been started.",
    RunState.RUNNING: "They were running when this page was made.",
    RunState.SUBMITTED: "They were in a queue when this page was made.",
}


@dataclass(frozen=True)
class FailedGroup:
    """Runs that lack a result for one cause.

    Attributes:
        title: The cause and how many runs.
        meaning: What it means.
        what_helps: What to do about it.
        reasons: Recorded reasons, the most frequent first, with their numbers.
        command: Retries them; empty if nothing can be retried now.
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
    """Group runs that have ended without a result by cause and source, others by their state."""
    without = runs.runs[runs.runs["state"] != RunState.DONE.value]
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
        meaning=MEANING[known] if known else _MEANING.get(cause, "Their state was unknown when this page was made."),
        what_helps=WHAT_HELPS[known] if known else "",
        reasons=tuple(counted_alike(reason for reason in inside["reason"] if reason)[:MOST_REASONS]),
        command=_command(cause, source, str(commands.get(inside["folder"].iloc[0]) or "")),
        folder_is_known=Path(source).is_dir(),
        grid=plain_grid(f"failed-{number}", f"Runs: {cause}", "runs", headings, rows),
    )


def _command(cause: str, source: str, placed_by: str) -> str:
    """Write the command that retries runs, launched as the first of them was."""
    if cause in (RunState.RUNNING, RunState.SUBMITTED, RunState.UNKNOWN, Cause.STOPPED_EARLY):
        return ""
    chosen = state_in_words(RunState.PLANNED) if cause == RunState.PLANNED else cause
    out = source if Path(source).is_dir() else OUT
    return to_paste("retry", "--out", out, "--cause", chosen, *placing_options(placed_by))
