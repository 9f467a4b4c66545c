"""`augbench cancel`: runs that wait never begin, runs that go on save and stop."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.cancelling import AT_WORK, can_be_cancelled, cancel
from augbench.bench.causes import Cause
from augbench.bench.commands.logs import RUN_HELP
from augbench.bench.commands.options import DEFAULT_OUT, Out, where
from augbench.bench.errors import UserError, to_paste
from augbench.bench.overview import Overview, SeenRun, Survey
from augbench.bench.plain_text import safe
from augbench.bench.plan import counts_in_words, runs_in_words
from augbench.bench.run_folder import RunState
from augbench.bench.run_names import runs_named


def cancel_runs(
    runs: Annotated[list[str] | None, typer.Argument(metavar="RUN", help=f"{RUN_HELP} * stands for any.")] = None,
    out: Out = DEFAULT_OUT,
    everything: Annotated[bool, typer.Option("--all", help="All that wait or go on, wherever they are.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Take runs out of the queue, and have those that go on save and stop; nothing that was computed is lost."""
    overview = Survey(out).look()
    chosen = _chosen(overview, runs or [], everything=everything)
    at_work = any(run.state in AT_WORK for run in overview.runs)
    found = [run for run in chosen if can_be_cancelled(run.state, at_work=at_work)]
    if not found:
        typer.echo(f"Nothing to cancel: {counts_in_words(Counter(run.state for run in chosen))}")
        return
    if everything and not yes:
        _confirm(found)
    stopped = {folder.path.name for folder in cancel([run.folder for run in found], overview.out)}
    for sentence in _what_happens([run for run in found if run.name in stopped], out):
        typer.echo(sentence)
    for problem in overview.damaged:
        typer.echo(f"Left out: {safe(problem)}", err=True)


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


def _not_begun(counts: Counter[RunState]) -> int:
    """Count those that are in nobody's hands now."""
    return counts.total() - sum(counts[state] for state in AT_WORK)


def _what_happens(cancelled: Sequence[SeenRun], out: Path) -> Iterator[str]:
    counts = Counter(run.state for run in cancelled)
    if count := counts[RunState.SUBMITTED]:
        yield f"{runs_in_words(count)} taken out of the queue."
    if count := _not_begun(counts):
        yield f"{runs_in_words(count)} that nobody executes now will not begin."
    if count := counts[RunState.RUNNING]:
        yield f"{runs_in_words(count)} will save and stop within about 10 seconds, or at the end of the present step."
    if count := counts[RunState.UNKNOWN]:
        yield f"{runs_in_words(count)} of unknown state will save and stop, or not begin."
    again = to_paste("retry", *where(out), "--cause", Cause.CANCELLED)
    yield f"The command that placed them, or `{again}`, goes on with them."
