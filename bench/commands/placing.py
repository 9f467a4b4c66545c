"""Having runs placed, with a question before and progress bars: what several commands share."""

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer
from rich.console import Console

from augbench.bench.commands.interrupts import INTERRUPTED
from augbench.bench.commands.options import where
from augbench.bench.commands.progress import launch_progress
from augbench.bench.commands.streams import kept_going
from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.common.plain_text import safe
from augbench.bench.experiment.suite import Suite
from augbench.bench.launchers.launcher import EndedAtOnce, Launcher, LaunchRequest, launchers
from augbench.bench.launchers.local import Local
from augbench.bench.launching.launch import launch, little_room, prepare_launch
from augbench.bench.planning.changed_plugins import changed_plugins
from augbench.bench.planning.estimates import cost_to_confirm
from augbench.bench.planning.plan import Plan, PlannedRun, make_plan, runs_in_words
from augbench.bench.planning.recorded_tuning import record_tuning
from augbench.bench.runs.cancelling import SECONDS_TO_STOP, wait_until_stopped
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.run_states import RunStates, RunStatus
from augbench.bench.training.provenance import choose_device, describe_device

MOST_REASONS = 3
ESTIMATES = "`augbench plan` shows the estimates, --dry-run what would be placed where."
PLACED = (RunState.DONE, RunState.SUBMITTED, RunState.RUNNING)


def execute(suite: Suite, request: LaunchRequest, *, retry_failed: bool, yes: bool = True) -> Plan:
    """Launch what is left of a suite with progress bars and say what happened.

    Raises:
        UserError: If something is wrong before the start.
        typer.Exit: With status 130 after Ctrl-C, and with 1 if the question whether to start is answered with no.
    """
    before = _settled_plan(suite, request)
    record_tuning(suite, before)
    tell_of_damage(before)
    tell_of_changed_plugins(before)
    to_do = _to_do(before, request, retry_failed=retry_failed)
    if not to_do:
        typer.echo(f"Nothing to compute in {request.out}: {before.summary()}")
        return before
    try:
        place(to_do, request, title=suite.title, of=len(before.runs), yes=yes)
    finally:  # also after Ctrl-C, since other commands may go on with the runs
        record_tuning(suite, before)
    after = make_plan(suite, request.out)
    typer.echo(after.summary())
    return after


def _settled_plan(suite: Suite, request: LaunchRequest) -> Plan:
    """Plan what is left; where the launcher takes no turns with others, wait for runs that are being cancelled."""
    planned = make_plan(suite, request.out)
    running = [run.folder for run in planned.runs if run.state is RunState.RUNNING]
    if launchers().get(request.profile.launcher).waits or not wait_until_stopped(running, _say_that_runs_stop):
        return planned
    return make_plan(suite, request.out)


def _say_that_runs_stop(count: int) -> None:
    typer.echo(f"{runs_in_words(count)} that were cancelled have not stopped yet: waiting up to {SECONDS_TO_STOP:g} s.")


def place(runs: Sequence[PlannedRun], request: LaunchRequest, *, title: str, of: int, yes: bool) -> None:
    """Check, ask if it costs much, and have runs placed, with progress bars.

    Raises:
        UserError: If something is wrong before the start.
        typer.Exit: With status 130 after Ctrl-C, and with 1 if the question whether to start is answered with no.
    """
    launcher = _prepared(runs, request)
    if not yes:
        confirm(runs, request)
    max_parallel = f", at most {request.settings.workers} at a time" if launcher.name == Local.name else ""
    typer.echo(f"{title}: {len(runs)} of {runs_in_words(of)} to do{max_parallel}, in {request.out}.")
    console = Console()
    try:
        with stopped_by_signals(), kept_going(), launch_progress(console, len(runs)) as progress:
            launch(runs, request, launcher, progress.show)
    except EndedAtOnce as ended:
        typer.echo(_after_end_at_once(ended.runs))
        raise typer.Exit(INTERRUPTED) from None
    except KeyboardInterrupt:
        typer.echo(_after_interrupt(launcher))
        raise typer.Exit(INTERRUPTED) from None


def _after_interrupt(launcher: Launcher) -> str:
    if launcher.waits:
        return "Stopped; every run is saved. The same command goes on from here."
    return "Stopped while submitting. What was submitted goes on; the same command submits the rest."


def _after_end_at_once(runs: Sequence[RunFolder]) -> str:
    """Say what was saved of runs that were ended before they could save."""
    lost = ", ".join(f"{run.path.name} ({_last_saved(run.checkpoint)})" for run in runs)
    words = f"What was done since the last save is lost: {lost}. " if lost else ""
    return f"Stopped. {words}The same command goes on from what is saved."


def _last_saved(checkpoint: Path) -> str:
    try:
        return f"saved {max(0.0, time.time() - checkpoint.stat().st_mtime):.0f} s ago"
    except OSError:
        return "never saved"


def _to_do(planned: Plan, request: LaunchRequest, *, retry_failed: bool) -> tuple[PlannedRun, ...]:
    """Runs to place: not those that somebody executes already, that wait in a queue, or that perhaps do.

    Raises:
        UserError: If nothing is left but runs of which it is not known whether they wait.
    """
    # a launcher that waits takes its turn with whoever executes them now
    waits = launchers().get(request.profile.launcher).waits
    placed = {RunState.SUBMITTED, RunState.UNKNOWN} | (set() if waits else {RunState.RUNNING})
    runs = planned.to_do(retry_failed=retry_failed)
    to_do = tuple(run for run in runs if run.state not in placed)
    unknown = [run for run in runs if run.state is RunState.UNKNOWN]
    if unknown and not to_do:
        raise UserError(_why_unknown(unknown, request))
    if unknown:
        typer.echo(f"Left out: {safe(_why_unknown(unknown, request))}", err=True)
    return to_do


def _why_unknown(unknown: Sequence[PlannedRun], request: LaunchRequest) -> str:
    """Say why runs are not placed of which it is not known whether they wait, and what helps."""
    first = unknown[0].folder
    known = RunStates(request.out).of(first)
    submission = known.submission
    gone = " Have its owner make the folder readable for you, or choose another folder with --out."
    if submission is not None:
        gone = f" If its job is gone for good, delete {submission.folder} and place it again."
    return (
        f"The state of {runs_in_words(len(unknown))} in {request.out} is not known, so they might be placed twice. "
        f"{first.path.name}: {known.reason.rstrip('.')}.{gone}"
    )


def confirm(runs: Sequence[PlannedRun], request: LaunchRequest, hint: str = ESTIMATES) -> None:
    """Ask whether to start, if the runs cost more than the profile allows without.

    Args:
        runs: Runs that are to be placed.
        request: Where and how.
        hint: A sentence on how to find out more or to spend less, for where nobody can be asked.

    Raises:
        UserError: If there is nobody to ask.
        typer.Exit: With status 1 if the answer is no.
    """
    limits = request.profile.confirm
    cost = cost_to_confirm(runs, request.out, request.profile, describe_device(choose_device("auto")))
    if cost.known <= limits.hours and cost.unknown <= limits.runs:
        return
    be = "is" if len(runs) == 1 else "are"
    words = f"{runs_in_words(len(runs))} {be} to be placed: about {cost.known:.1f} device hours"
    words += f", and {cost.unknown} of unknown cost" if cost.unknown else ""
    if not sys.stdin.isatty():
        raise UserError(
            f"{words}, which is above the limit of {limits.hours:g} hours or {limits.runs} runs of unknown cost "
            f"([confirm] of the profile). Give --yes to start all the same. {hint}"
        )
    if not typer.confirm(f"{words}. Start?"):
        raise typer.Exit(1)


def say_what_would_be_done(suite: Suite, request: LaunchRequest, *, retry_failed: bool) -> None:
    """Say how a suite stands and what a launch would do.

    Raises:
        UserError: If something is wrong that can be known before.
    """
    planned = make_plan(suite, request.out)
    tell_of_damage(planned)
    tell_of_changed_plugins(planned)
    to_do = _to_do(planned, request, retry_failed=retry_failed)
    typer.echo(f"In {request.out}: {planned.summary()}")
    if not to_do:
        typer.echo("Nothing would be placed.")
    else:
        say_what_would_be_placed(to_do, request)
    raise_left_out(planned, request.out)


def say_what_would_be_placed(runs: Sequence[PlannedRun], request: LaunchRequest) -> None:
    """Say what a launch would do.

    Raises:
        UserError: If something is wrong that can be known before.
    """
    launcher = _prepared(runs, request)
    typer.echo(f"{runs_in_words(len(runs))} would be placed by {launcher.name}:")
    for line in launcher.describe(runs, request):
        typer.echo(f"  {line}")


def _prepared(runs: Sequence[PlannedRun], request: LaunchRequest) -> Launcher:
    """Check all that can be known before, and say on standard error where the disk looks too full."""
    launcher = prepare_launch(runs, request)
    if sentence := little_room(runs, request.out):
        typer.echo(f"Note: {sentence}", err=True)
    return launcher


def tell_of_damage(planned: Plan) -> None:
    """Say on standard error which run folders are left out, and why."""
    for problem in planned.damaged:
        typer.echo(f"Left out: {safe(problem)}", err=True)


def tell_of_changed_plugins(planned: Plan) -> None:
    """Say on standard error which plug-ins have changed since runs were made with them."""
    for sentence in changed_plugins(planned.runs):
        typer.echo(f"Note: {sentence}", err=True)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Take SIGTERM and SIGHUP like Ctrl-C for the length of the block; `nohup` has the second one ignored."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    heeded = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_left_out(planned: Plan, out: Path) -> None:
    """Raise UserError if run folders were left out, which `tell_of_damage` has named."""
    if words := _left_out(planned, out):
        raise UserError(words)


def _left_out(planned: Plan, out: Path) -> str:
    """Say how many run folders were left out; empty if none was."""
    if not planned.damaged:
        return ""
    were, folders = ("was", "its folder") if len(planned.damaged) == 1 else ("were", "their folders")
    return (
        f"{runs_in_words(len(planned.damaged))} {were} left out, since what is in {folders} cannot be used. Why, and "
        f"what to do, is said above; `{to_paste('status', *where(out))}` says it again."
    )


def raise_unfinished(planned: Plan, out: Path) -> None:
    """Raise UserError with the reasons of runs that have no result and are not on the way to one, if there are any."""
    unfinished = [run for run in planned.unfinished() if run.state not in PLACED]
    if not unfinished:
        raise_left_out(planned, out)
        return
    states = RunStates(out)
    # a reason of each sort: a hundred runs that fail have seldom a hundred reasons
    sorts = Counter[str]()
    first: dict[str, str] = {}
    for run in unfinished:
        known = states.of(run.folder)
        sorts[known.reason] += 1
        first.setdefault(known.reason, _sentence(run.folder, known))
    reasons = [first[reason] + _and_others(count - 1) for reason, count in sorts.most_common(MOST_REASONS)]
    more = f" {len(sorts) - MOST_REASONS} more reasons." if len(sorts) > MOST_REASONS else ""
    command = to_paste("failures", *where(out))
    raise UserError(
        f"{len(unfinished)} of {runs_in_words(len(planned.runs))} without a result; the others are not affected. "
        f"{' '.join(reasons)}{more} `{command}` groups them by cause. The same command goes on "
        "with those that did not fail; --retry-failed starts failed ones again."
        f" {_left_out(planned, out)}".rstrip()
    )


def _sentence(folder: RunFolder, known: RunStatus) -> str:
    log = f" (Log: {folder.log})" if os.path.exists(folder.log) else ""  # noqa: PTH110 - also where it may not be read
    return f"{folder.path.name} {known.state}: {known.reason or 'no reason was recorded.'}{log}"


def _and_others(count: int) -> str:
    return f" So did {runs_in_words(count)} more." if count else ""
