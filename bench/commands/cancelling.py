"""`augbench cancel`: runs that wait never begin, runs that go on save and stop."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.logs import RUN_HELP
from augbench.bench.commands.options import DEFAULT_OUT, Out, where
from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.common.plain_text import safe
from augbench.bench.planning.plan import counts_in_words, runs_in_words
from augbench.bench.runs.cancelling import AT_WORK, can_be_cancelled, cancel, end_at_once
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.overview import Overview, RunMonitor, SeenRun
from augbench.bench.runs.run_folder import RunState
from augbench.bench.runs.run_names import runs_named


def cancel_runs(
    runs: Annotated[list[str] | None, typer.Argument(metavar="RUN", help=f"{RUN_HELP} * stands for any.")] = None,
    out: Out = DEFAULT_OUT,
    everything: Annotated[bool, typer.Option("--all", help="All that wait or go on, wherever they are.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="End runs at once; what they have not saved is lost."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Take runs out of the queue, and have those that go on save and stop; nothing that was computed is lost."""
    overview = RunMonitor(out).snapshot()
    chosen = _chosen(overview, runs or [], everything=everything)
    at_work = any(run.state in AT_WORK for run in overview.runs)
    found = [run for run in chosen if can_be_cancelled(run.state, at_work=at_work)]
    if not found:
        typer.echo(f"Nothing to cancel: {counts_in_words(Counter(run.state for run in chosen))}")
        return
    if everything and not yes:
        _confirm(found)
    names = {folder.path.name for folder in cancel([run.folder for run in found], overview.out)}
    stopped = [run for run in found if run.name in names]
    left = _end_at_once(stopped) if force else {}
    for sentence in _what_happens(stopped, len(left), out, force=force):
        typer.echo(sentence)
    for problem in overview.damaged:
        typer.echo(f"Left out: {safe(problem)}", err=True)
    if left:
        raise UserError(_not_ended(left, out))


def _chosen(overview: Overview, names: Sequence[str], *, everything: bool) -> list[SeenRun]:
    """Find the runs that somebody wants to stop.

    Raises:
        UserError: If nothing was chosen, or what was chosen is not there.
    """
    if everything:
        return list(overview.runs)
    if not names:
        raise UserError(
            f"Say which runs: their names, or --all. In {overview.out} there are {counts_in_words(overview.counts())}"
        )
    by_name = {run.name: run for run in overview.runs}
    return [by_name[name] for name in runs_named(names, list(by_name))]


def _confirm(found: Sequence[SeenRun]) -> None:
    words = f"{counts_in_words(Counter(run.state for run in found))} Cancel all of them?"
    if not sys.stdin.isatty():
        raise UserError(f"{words} Give --yes where nobody can be asked.")
    if not typer.confirm(words):
        raise typer.Exit(1)


def _end_at_once(runs: Sequence[SeenRun]) -> dict[str, str]:
    """End those of some runs that go on; tells where each is that cannot be ended from here."""
    going = [run for run in runs if run.state is RunState.RUNNING]
    places = {run.name: end_at_once(run.folder, run.observed) for run in going}
    return {name: place for name, place in places.items() if place}


def _not_ended(places: dict[str, str], out: Path) -> str:
    listed = "; ".join(f"{name}: {safe(place)}" for name, place in places.items())
    command = to_paste("cancel", "--force", *places, *where(out))
    return (
        f"{runs_in_words(len(places))} cannot be ended from here. {listed}. Give `{command}` there, as the user who "
        "started it. Otherwise each saves and stops at the end of its present step."
    )


def _not_begun(counts: Counter[RunState]) -> int:
    """Count those that are in nobody's hands now."""
    return counts.total() - sum(counts[state] for state in AT_WORK)


def _what_happens(cancelled: Sequence[SeenRun], left: int, out: Path, *, force: bool) -> Iterator[str]:
    counts = Counter(run.state for run in cancelled)
    if count := counts[RunState.SUBMITTED]:
        yield f"{runs_in_words(count)} taken out of the queue."
    if count := _not_begun(counts):
        yield f"{runs_in_words(count)} that nobody executes now will not begin."
    if force and (count := counts[RunState.RUNNING] - left):
        yield f"{runs_in_words(count)} ended at once; what was saved before is kept."
    if not force and (count := counts[RunState.RUNNING]):
        yield f"{runs_in_words(count)} will save and stop within about 10 seconds, or at the end of the present step."
    if count := counts[RunState.UNKNOWN]:
        yield f"{runs_in_words(count)} of unknown state will save and stop, or not begin."
    again = to_paste("retry", *where(out), "--cause", Cause.CANCELLED)
    yield f"The command that placed them, or `{again}`, goes on with them."
