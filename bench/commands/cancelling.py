"""`augbench cancel`: waiting runs never start, running ones save and stop."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.options import DEFAULT_OUT, RUN_HELP, Out, where
from augbench.bench.commands.plain import ask, tell_left_out
from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.common.plain_text import safe
from augbench.bench.common.wording import counted
from augbench.bench.planning.plan import counts_in_words, runs_in_words
from augbench.bench.runs.cancelling import AT_WORK, can_be_cancelled, cancel, cancel_followers, end_at_once
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.overview import Overview, RunMonitor, SeenRun
from augbench.bench.runs.run_folder import RunState
from augbench.bench.runs.run_names import runs_named
from augbench.bench.runs.slurm_client import SlurmError


def cancel_runs(
    runs: Annotated[list[str] | None, typer.Argument(metavar="RUN", help=f"{RUN_HELP} * matches any text.")] = None,
    out: Out = DEFAULT_OUT,
    everything: Annotated[bool, typer.Option("--all", help="All waiting and running runs, wherever they are.")] = False,
    force: Annotated[bool, typer.Option("--force", help="End runs at once; unsaved work is lost.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Cancel without asking.")] = False,
) -> None:
    """Take waiting runs out of the queue; running ones save and stop. Nothing that was computed is lost."""
    overview = RunMonitor(out).snapshot()
    chosen = _chosen(overview, runs or [], everything=everything)
    at_work = any(run.state in AT_WORK for run in overview.runs)
    found = [run for run in chosen if can_be_cancelled(run.state, at_work=at_work)]
    if not found and not (everything and overview.followers):
        typer.echo(f"Nothing to cancel: {counts_in_words(Counter(run.state for run in chosen))}")
        return
    if everything and not yes:
        words = counts_in_words(Counter(run.state for run in found))
        ask(f"{words} Cancel all of them?", f"{words} There is no terminal to ask on; give --yes to cancel them.")
    problem = _cancel_followers(overview.out) if everything else None  # first: they begin when runs leave the queue
    names = {folder.path.name for folder in cancel([run.folder for run in found], overview.out)}
    stopped = [run for run in found if run.name in names]
    left = _end_at_once(stopped) if force else {}
    for sentence in _what_happens(stopped, len(left), out, force=force):
        typer.echo(sentence)
    tell_left_out(overview.damaged)
    if left:
        raise UserError(_not_ended(left, out))
    if problem is not None:
        raise problem


def _cancel_followers(out: Path) -> SlurmError | None:
    """Take out of the queue what would place further runs; returns the error if Slurm does not answer."""
    try:
        count = cancel_followers(out)
    except SlurmError as error:
        return error
    if count:
        typer.echo(f"{counted(count, 'job')} that would have placed further runs taken out of the queue.")
    return None


def _chosen(overview: Overview, names: Sequence[str], *, everything: bool) -> list[SeenRun]:
    """Find the chosen runs.

    Raises:
        UserError: If nothing was chosen, or a name matches no run.
    """
    if everything:
        return list(overview.runs)
    if not names:
        raise UserError(
            f"Name the runs, or give --all. In {overview.out} there are {counts_in_words(overview.counts())}"
        )
    by_name = {run.name: run for run in overview.runs}
    return [by_name[name] for name in runs_named(names, list(by_name))]


def _end_at_once(runs: Sequence[SeenRun]) -> dict[str, str]:
    """End the running ones; return where each is that cannot be ended from here, by name."""
    going = [run for run in runs if run.state is RunState.RUNNING]
    places = {run.name: end_at_once(run.folder, run.observed) for run in going}
    return {name: place for name, place in places.items() if place}


def _not_ended(places: dict[str, str], out: Path) -> str:
    listed = "; ".join(f"{name}: {safe(place)}" for name, place in places.items())
    command = to_paste("cancel", "--force", *places, *where(out))
    return (
        f"{runs_in_words(len(places))} cannot be ended from here. {listed}. Give `{command}` there, as the user who "
        "started the run. Otherwise it saves and stops after its current step."
    )


def _what_happens(cancelled: Sequence[SeenRun], left: int, out: Path, *, force: bool) -> Iterator[str]:
    counts = Counter(run.state for run in cancelled)
    if count := counts[RunState.SUBMITTED]:
        yield f"{runs_in_words(count)} taken out of the queue."
    if count := counts.total() - sum(counts[state] for state in AT_WORK):
        yield f"{runs_in_words(count)} not executed at the moment will not start."
    if force and (count := counts[RunState.RUNNING] - left):
        yield f"{runs_in_words(count)} ended at once; what was saved before is kept."
    if not force and (count := counts[RunState.RUNNING]):
        yield f"{runs_in_words(count)} will save and stop within about 10 seconds, or after the current step."
    if count := counts[RunState.UNKNOWN]:
        yield f"{runs_in_words(count)} of unknown state will save and stop, or not start."
    again = to_paste("retry", *where(out), "--cause", Cause.CANCELLED)
    yield f"The command that placed them, or `{again}`, resumes them."
