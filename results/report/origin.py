"""Where the numbers come from: machines, versions, and the commands that reproduce them."""

import shlex
from typing import Any

import pandas as pd

from augbench.bench.common.errors import to_paste
from augbench.bench.runs.run_folder import RunState
from augbench.results.model.frame import Runs
from augbench.results.records.contents import Code
from augbench.results.report.grid import Grid, plain_grid
from augbench.results.report.units import done

_ENVIRONMENT = (
    ("host", "Machine"),
    ("device", "Device"),
    ("augbench", "augbench"),
    ("code", "Code"),
    ("python", "Python"),
    ("packages", "Packages"),
    ("plugins", "Plug-ins"),
    ("threads", "Threads"),
    ("platform", "Platform"),
)


def environment_grid(runs: Runs) -> Grid | None:
    """Make a table of the environments in which runs were executed; None if nothing is known of them."""
    attempts = runs.environments
    if attempts.empty:
        return None
    code = [
        Code(commit=commit, dirty=dirty is True).label if isinstance(commit, str) and commit else ""
        for commit, dirty in zip(attempts["commit"], attempts["dirty"], strict=True)
    ]
    known = attempts.assign(code=code)
    columns = [column for column, _ in _ENVIRONMENT if known[column].notna().any() and (known[column] != "").any()]
    shown = known.assign(**{column: known[column].map(_text) for column in columns})
    groups = shown.groupby(columns, sort=False)
    rows = [[*inside[columns].iloc[0], inside["folder"].nunique(), len(inside)] for _, inside in groups]
    headings = [heading for column, heading in _ENVIRONMENT if column in columns]
    title = "Machines and versions, by attempt"
    return plain_grid("environments", title, "environments", [*headings, "Runs", "Attempts"], rows)


def _text(value: Any) -> str:
    if value is None or pd.isna(value):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def commits(runs: Runs) -> list[tuple[str, int]]:
    """Commands that check out the code of finished runs, with the number of runs of each commit."""
    groups = done(runs).groupby("commit", sort=False)
    return [(shlex.join(["git", "checkout", str(commit)]), len(inside)) for commit, inside in groups]


def run_commands(runs: Runs) -> list[tuple[str, int]]:
    """The commands that executed the runs, with the number of runs of each.

    They are quoted so that a shell reads each as a single command of plain words, whoever wrote the records.
    """
    attempts = runs.environments
    known = attempts[attempts["command"].notna() & (attempts["command"] != "")]
    counts = known.groupby("command", sort=False)["folder"].nunique()
    return [(_as_plain_words(str(command)), int(count)) for command, count in counts.items()]


def _as_plain_words(command: str) -> str:
    try:
        return shlex.join(shlex.split(command))
    except ValueError:  # a quotation mark without a second one
        return shlex.quote(command)


def result_commands(runs: Runs, *, calibrate: bool) -> list[str]:
    """Commands that make the tables and figures (if a run is finished) and the page again from the same records."""
    given = [word for source in runs.sources for word in ("--from", str(source))]
    probes = [word for folder in runs.probes for word in ("--probes", str(folder))]
    results = (("tables", "tables"), ("figures", "figures")) if RunState.DONE in runs.states else ()
    tables = [to_paste(command, *given, *probes, "--out", out) for command, out in results]
    return [*tables, to_paste("report", *given, *probes, *["--calibrate"] * calibrate, "--out", "report.html")]
