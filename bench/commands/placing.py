"""Placing runs, with a question before and progress bars: what several commands share."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer

from augbench.bench.commands.interrupts import INTERRUPTED
from augbench.bench.commands.options import where
from augbench.bench.commands.plain import ask, new_console, tell_left_out, tell_notes
from augbench.bench.commands.progress import launch_progress
from augbench.bench.commands.streams import kept_going
from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.launchers.launcher import EndedAtOnce, Launcher, LaunchRequest, launchers
from augbench.bench.launchers.local import Local
from augbench.bench.launching.launch import launch, little_room, prepare_launch
from augbench.bench.planning.bases import about_bases
from augbench.bench.planning.changed_plugins import changed_plugins
from augbench.bench.planning.estimates import cost_to_confirm
from augbench.bench.planning.plan import Plan, PlannedRun, runs_in_words
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.run_states import RunStates, RunStatus
from augbench.bench.training.provenance import choose_device, describe_device

MOST_REASONS = 3
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ESTIMATES = "`augbench plan` shows the estimates; --dry-run shows what would be placed where."
PLACED = (RunState.DONE, RunState.SUBMITTED, RunState.RUNNING)


def place(
    runs: Sequence[PlannedRun],
    request: LaunchRequest,
    *,
    title: str,
    of: int,
    yes: bool,
    begin: Callable[[], object] = lambda: None,
) -> None:
    """Check runs, ask if they cost much, and have them placed, with progress bars.

    Args:
        runs: The runs.
        request: Where and how.
        title: What they are part of.
        of: How many runs that has.
        yes: Whether to start without asking.
        begin: Called when everything is checked and answered, before the first run is placed.

    Raises:
        UserError: If something is wrong before the start.
        typer.Exit: With status 130 after Ctrl-C, and with 1 if the user answers that it shall not start.
    """
    launcher = _prepared(runs, request)
    if not yes:
        confirm(runs, request)
    begin()
    max_parallel = f", at most {request.settings.workers} at a time" if launcher.name == Local.name else ""
    typer.echo(f"{title}: {len(runs)} of {runs_in_words(of)} to do{max_parallel}, in {request.out}.")
    console = new_console()
    try:
        with stopped_by_signals(), kept_going(), launch_progress(console, len(runs)) as progress:
            launch(runs, request, launcher, progress.show)
    except EndedAtOnce as ended:
        typer.echo(_after_end_at_once(ended.runs))
        raise typer.Exit(INTERRUPTED) from None
    except KeyboardInterrupt:
        submitting = "Stopped while submitting. Submitted runs continue; the same command submits the rest."
        typer.echo("Stopped; every run is saved. The same command resumes." if launcher.waits else submitting)
        raise typer.Exit(INTERRUPTED) from None


def _after_end_at_once(runs: Sequence[RunFolder]) -> str:
    """Say what is lost of runs that were ended before they could save."""
    lost = ", ".join(f"{run.path.name} ({_last_saved(run.checkpoint)})" for run in runs)
    words = f"Work since the last save is lost: {lost}. " if lost else ""
    return f"Stopped. {words}The same command resumes from what is saved."


def _last_saved(checkpoint: Path) -> str:
    try:
        return f"saved {max(0.0, time.time() - checkpoint.stat().st_mtime):.0f} s ago"
    except OSError:
        return "never saved"


def to_do_of(planned: Plan, request: LaunchRequest, *, retry_failed: bool) -> tuple[PlannedRun, ...]:
    """Return the runs to place, as `placeable`, and say which ones of unknown state are left out.

    Raises:
        UserError: If only runs of unknown state are left.
    """
    to_do = placeable(planned, request, retry_failed=retry_failed)
    unknown = [run for run in planned.runs if run.state is RunState.UNKNOWN]
    if unknown and not to_do:
        raise UserError(_why_unknown(unknown, request))
    if unknown:
        tell_left_out([_why_unknown(unknown, request)])
    return to_do


def placeable(planned: Plan, request: LaunchRequest, *, retry_failed: bool) -> tuple[PlannedRun, ...]:
    """Return the runs to place: none that run or wait in a queue already, or may do so."""
    # a launcher that waits takes turns with whoever executes the runs now
    waits = launchers().get(request.profile.launcher).waits
    placed = {RunState.SUBMITTED, RunState.UNKNOWN} | (set() if waits else {RunState.RUNNING})
    return tuple(run for run in planned.to_do(retry_failed=retry_failed) if run.state not in placed)


def _why_unknown(unknown: Sequence[PlannedRun], request: LaunchRequest) -> str:
    """Say why runs of unknown state are not placed, and what helps."""
    first = unknown[0].folder
    known = RunStates(request.out).of(first)
    submission = known.submission
    gone = " Have its owner make the folder readable for you, or choose another folder with --out."
    if submission is not None:
        gone = f" If its job is gone for good, delete {submission.folder} and place it again."
    return (
        f"The state of {runs_in_words(len(unknown))} in {request.out} is unknown, so they might be placed twice. "
        f"{first.path.name}: {known.reason.rstrip('.')}.{gone}"
    )


def confirm(
    runs: Sequence[PlannedRun], request: LaunchRequest, hint: str = ESTIMATES, known: Plan | None = None
) -> None:
    """Ask whether to start, if the runs cost more than the profile allows without asking.

    Args:
        runs: The runs to place.
        request: Where and how.
        hint: A sentence on how to learn more or spend less, if there is no terminal to ask on.
        known: A larger plan that they are of, whose finished runs tell what they cost, too.

    Raises:
        UserError: If there is no terminal to ask on.
        typer.Exit: With status 1 if the answer is no.
    """
    limits = request.profile.confirm
    here = describe_device(choose_device("auto"))
    cost = cost_to_confirm(runs, request.out, request.profile, here, known)
    if cost.known <= limits.hours and cost.unknown <= limits.runs:
        return
    words = f"{runs_in_words(len(runs))} to place: about {cost.known:.1f} device hours"
    words += f", and {cost.unknown} of unknown cost" if cost.unknown else ""
    ask(
        f"{words}. Start?",
        f"{words}. This exceeds the limit of {limits.hours:g} hours or {limits.runs} runs of unknown cost ([confirm] "
        f"of the profile). Give --yes to start anyway. {hint}",
    )


def say_what_would_be_placed(runs: Sequence[PlannedRun], request: LaunchRequest) -> None:
    """Print what a launch would do.

    Raises:
        UserError: If the checks before a launch fail.
    """
    launcher = _prepared(runs, request)
    typer.echo(f"{runs_in_words(len(runs))} would be placed by {launcher.name}:")
    for line in launcher.describe(runs, request):
        typer.echo(f"  {line}")


def _prepared(runs: Sequence[PlannedRun], request: LaunchRequest) -> Launcher:
    """Check everything that can be checked before a launch, and warn on standard error if the disk looks too full."""
    launcher = prepare_launch(runs, request)
    if sentence := little_room(runs, request.out):
        tell_notes([sentence])
    return launcher


def tell_about(planned: Plan) -> None:
    """Say on standard error which run folders are left out, what bases do, and which plug-ins have changed."""
    tell_left_out(planned.damaged)
    tell_notes(about_bases([run.spec for run in planned.runs]))
    tell_notes(changed_plugins(planned.runs))


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt in the block; one that nohup ignores stays ignored."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    heeded = [one for one in STOPPING if signal.getsignal(one) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_left_out(planned: Plan, out: Path) -> None:
    """Raise UserError if run folders were left out, which `tell_about` has named."""
    if words := _left_out(planned, out):
        raise UserError(words)


def _left_out(planned: Plan, out: Path) -> str:
    """Say how many run folders were left out; empty if none was."""
    if not planned.damaged:
        return ""
    were, folders = ("was", "its folder") if len(planned.damaged) == 1 else ("were", "their folders")
    return (
        f"{runs_in_words(len(planned.damaged))} {were} left out, since {folders} cannot be used. See above for reasons "
        f"and remedies; `{to_paste('status', *where(out))}` shows them again."
    )


def raise_unfinished(planned: Plan, out: Path) -> None:
    """Raise UserError with the reasons if runs have no result and are not on the way to one."""
    unfinished = [run for run in planned.unfinished() if run.state not in PLACED]
    if not unfinished:
        raise_left_out(planned, out)
        return
    states = RunStates(out)
    # one run for each reason: a hundred failed runs seldom have a hundred reasons
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
        f"{' '.join(reasons)}{more} `{command}` groups them by cause. The same command resumes the runs that did not "
        f"fail; --retry-failed starts failed ones again. {_left_out(planned, out)}".rstrip()
    )


def _sentence(folder: RunFolder, known: RunStatus) -> str:
    log = f" (Log: {folder.log})" if os.path.exists(folder.log) else ""  # noqa: PTH110 - also where it may not be read
    return f"{folder.path.name} {known.state}: {known.reason or 'no reason was recorded.'}{log}"


def _and_others(count: int) -> str:
    return f" So did {runs_in_words(count)} more." if count else ""
