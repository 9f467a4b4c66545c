"""`augbench status` and `augbench watch`: the runs of an output folder and their progress."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from augbench.bench.commands.interrupts import INTERRUPTED
from augbench.bench.commands.options import DEFAULT_OUT, Out, where
from augbench.bench.commands.plain import duration, in_one_line, new_console, print_json, tell_left_out
from augbench.bench.commands.screen import fits, is_screen
from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.common.plain_text import safe
from augbench.bench.planning.plan import counts_in_words, runs_in_words, state_in_words
from augbench.bench.runs.failures import WITHOUT_RESULT
from augbench.bench.runs.overview import Overview, Progress, RunMonitor, SeenRun, has_just_changed, progress_of
from augbench.bench.runs.recorded_stages import progress_lines, read_stages, waiting_in
from augbench.bench.runs.run_folder import RunState

COLUMNS = (RunState.DONE, RunState.RUNNING, RunState.SUBMITTED, RunState.PLANNED, *WITHOUT_RESULT, RunState.UNKNOWN)
MOST_ROWS = 40
MOST_RUNNING = 20
LONGEST_PAUSE = 86_400  # seconds
Columns = list[tuple[str, tuple[RunState, ...]]]
FEWER_COLUMNS = (
    ("done", (RunState.DONE,)),
    ("running", (RunState.RUNNING,)),
    ("waiting", (RunState.SUBMITTED, RunState.PLANNED)),
    ("no\nresult", WITHOUT_RESULT),
    ("unknown", (RunState.UNKNOWN,)),
)


def status(
    out: Out = DEFAULT_OUT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with every run.")] = False,
) -> None:
    """Show the state of every run in a folder, and the progress of running ones."""
    overview, now = RunMonitor(out).snapshot(), datetime.now(UTC)
    if as_json:
        print_json(_as_json(overview, now))
        return
    console = new_console()
    for part in _parts(overview, now, console, MOST_ROWS, MOST_RUNNING):
        console.print(part, soft_wrap=isinstance(part, Text))
    tell_left_out(overview.damaged)


def watch(
    out: Out = DEFAULT_OUT,
    every: Annotated[float, typer.Option(help="Seconds between updates; Slurm is asked at most every 10 s.")] = 2.0,
) -> None:
    """Keep showing what `augbench status` shows until no run is left to wait for; without a terminal, each change."""
    if not 0.1 <= every <= LONGEST_PAUSE:
        raise UserError(f"--every must be from 0.1 to {LONGEST_PAUSE:,} seconds, not {every:g}.")
    console = new_console()
    monitor = RunMonitor(out)
    try:
        overview = _watch_screen(monitor, every, console) if is_screen(console) else _watch_lines(monitor, every)
    except KeyboardInterrupt:
        typer.echo(f"Stopped watching; the runs continue. `{to_paste('cancel', '--all', *where(out))}` stops them.")
        raise typer.Exit(INTERRUPTED) from None
    _say_how_it_ended(overview)


def _watch_screen(monitor: RunMonitor, every: float, console: Console) -> Overview:
    with Live(console=console, auto_refresh=False) as live:
        while True:
            overview = monitor.snapshot()
            live.update(_fitting(overview, console), refresh=True)
            if not _goes_on(overview):
                return overview
            time.sleep(every)


def _goes_on(overview: Overview) -> bool:
    """Whether there is something to wait for: also the stage of a suite that its launcher is about to place."""
    if overview.goes_on():
        return True
    return waiting_in(read_stages(overview.out)) > 0 and has_just_changed(
        [run for run in overview.runs if run.is_trial]
    )


def _stages(overview: Overview) -> Iterator[str]:
    """Say in which stage suites with `[tuning]` are."""
    yield from map(safe, progress_lines(read_stages(overview.out), {run.name: run.state for run in overview.runs}))
    if overview.followers:
        yield f"Job {', '.join(overview.followers)} places the final runs when the trials have ended."


def _fitting(overview: Overview, console: Console) -> Group:
    """Show as many running runs as fit on the screen."""
    now = datetime.now(UTC)
    for most_running in (MOST_RUNNING, 10, 5, 3, 1):
        parts = list(_parts(overview, now, console, console.height // 3, most_running))
        if sum(len(console.render_lines(part)) for part in parts) < console.height:
            break
    return Group(*parts)


def _watch_lines(monitor: RunMonitor, every: float) -> Overview:
    overview = monitor.snapshot()
    typer.echo(_counts(overview))
    shown = list(_stages(overview))
    for line in shown:
        typer.echo(line)
    while _goes_on(overview):
        before = {run.name: run.state for run in overview.runs}
        time.sleep(every)
        overview = monitor.snapshot()
        for run in overview.runs:
            if run.state != before.get(run.name):
                typer.echo(f"{datetime.now(UTC).astimezone():%H:%M:%S} {_change(run)}")
        if (stages := list(_stages(overview))) != shown:
            shown = stages
            for line in shown:
                typer.echo(line)
    typer.echo(_counts(overview))
    return overview


def _change(run: SeenRun) -> str:
    reason = f": {in_one_line(run.observed.reason)}" if run.observed.reason else ""
    return f"{safe(run.name)} {run.state}{reason}"


def _say_how_it_ended(overview: Overview) -> None:
    """Say that all runs are done.

    Raises:
        UserError: If some are not.
    """
    without, never = overview.without_result(), overview.in_state(RunState.PLANNED)
    awaited = waiting_in(read_stages(overview.out))
    if not without and not never and not overview.damaged and not awaited:
        typer.echo(f"All done: {runs_in_words(len(overview.runs))}.")
        return
    sentences = ["No run is running or waiting."]
    if without:
        command = f"`{to_paste('failures', *where(overview.out))}`"
        sentences.append(f"{runs_in_words(len(without))} ended without a result: {command} groups them by cause.")
    if never:
        sentences.append(
            f"{runs_in_words(len(never))} never started, and no launcher is left to place them. Give the same "
            "`augbench run` command again."
        )
    if awaited:
        sentences.append(
            f"{runs_in_words(awaited)} of the comparison wait for the values of trials. Give the same `augbench run` "
            "command again: it goes on from here."
        )
    raise UserError(" ".join([*sentences, *map(safe, overview.damaged)]))


def _counts(overview: Overview) -> str:
    return f"In {safe(str(overview.out))}: {counts_in_words(overview.counts())}"


def _parts(
    overview: Overview, now: datetime, console: Console, most_rows: int, most_running: int
) -> Iterator[RenderableType]:
    """Make what is shown: counts, table, running runs, reasons for waiting, and how many runs have no result."""
    yield Text(_counts(overview))
    yield from map(Text, _stages(overview))
    wide = _table(overview, most_rows, _every_state(overview))
    yield wide if fits(console, wide) else _table(overview, most_rows, _fewer_columns(overview))
    running = overview.in_state(RunState.RUNNING)
    if running:
        yield Text("Running:")
    for run in running[:most_running]:
        yield Text(f"  {safe(run.name)}")
        yield Padding(Text(_progress_in_words(progress_of(run, now))), (0, 0, 0, 4), expand=False)
    if len(running) > most_running:
        yield Text(f"  … and {len(running) - most_running} more")
    for state in (RunState.SUBMITTED, RunState.UNKNOWN):
        yield from (Text(f"{count} {state}. {in_one_line(reason)}") for reason, count in overview.reasons(state))
    if without := overview.without_result():
        command = to_paste("failures", *where(overview.out))
        yield Text(f"{runs_in_words(len(without))} ended without a result: {command}")


def _every_state(overview: Overview) -> Columns:
    there = overview.counts()
    return [(state_in_words(state).replace(" ", "\n"), (state,)) for state in COLUMNS if state in there]


def _fewer_columns(overview: Overview) -> Columns:
    there = overview.counts()
    return [(heading, states) for heading, states in FEWER_COLUMNS if any(state in there for state in states)]


def _table(overview: Overview, most_rows: int, columns: Columns) -> Table:
    table = Table()
    for heading in ("method", "data set"):
        table.add_column(heading, overflow="fold", min_width=10)
    for heading in ("runs", *(heading for heading, _ in columns)):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in overview.rows(most_rows):
        numbers = [sum(row.states.values()), *(sum(row.states.get(s, 0) for s in states) for _, states in columns)]
        cells = [Text(safe(row.method)), Text(safe(row.dataset))]
        table.add_row(*cells, *(str(number) if number else "·" for number in numbers))
    return table


def _progress_in_words(progress: Progress) -> str:
    """Say where a run is and how far, such as `node7, process 812: step 50 of 200 (25 %) 2 s ago`."""
    numbers = {"job": progress.job, "process": progress.pid}
    known = [progress.host, *(f"{name} {value}" for name, value in numbers.items() if value)]
    place = ", ".join(part for part in known if part)
    words = f"{place}: {_how_far(progress)}" if place else _how_far(progress)
    if progress.silent_seconds is not None:
        words += f" {duration(progress.silent_seconds)} ago"
    if progress.stopping:
        words += ", saves and stops"
    elif progress.left_seconds is not None:
        words += f", about {duration(progress.left_seconds)} left"
    return safe(words)


def _how_far(progress: Progress) -> str:
    if not progress.steps:
        return progress.phase or "starting"
    if progress.phase != "training":
        return progress.phase
    return f"step {progress.step:,} of {progress.steps:,} ({100 * progress.step // progress.steps} %)"


def _as_json(overview: Overview, now: datetime) -> dict[str, Any]:
    return {
        "out": str(overview.out),
        "states": overview.counts(),
        "groups": [
            {"method": row.method, "dataset": row.dataset, "states": dict(row.states)}
            for row in overview.rows(len(overview.runs))
        ],
        "running": [_progress_as_json(progress_of(run, now)) for run in overview.in_state(RunState.RUNNING)],
        "runs": [_run_as_json(run) for run in overview.runs],
        "damaged": list(overview.damaged),
        "stages": list(_stages(overview)),
    }


def _progress_as_json(progress: Progress) -> dict[str, Any]:
    return {
        "run": progress.run.name,
        "host": progress.host or None,
        "pid": progress.pid,
        "job": progress.job or None,
        "phase": progress.phase or None,
        "step": progress.step,
        "steps": progress.steps or None,
        "seconds_since_report": progress.silent_seconds,
        "seconds_left": progress.left_seconds,
        "stopping": progress.stopping,
    }


def _run_as_json(run: SeenRun) -> dict[str, Any]:
    observed = run.observed
    return {
        "run": run.name,
        "method": run.labels.label,
        "dataset": run.labels.dataset,
        "state": run.state,
        "cause": observed.cause,
        "reason": observed.reason or None,
        "job": observed.job,
    }
