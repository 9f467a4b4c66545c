"""Executing a suite, in stages where it is tuned: what `run`, `demo` and `recommend` share."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import typer

from augbench.bench.commands.placing import (
    confirm,
    place,
    raise_left_out,
    raise_unfinished,
    say_what_would_be_placed,
    tell_about,
    to_do_of,
)
from augbench.bench.commands.staged import stage_in_words, tell_about_tuning, tell_values
from augbench.bench.commands.tuned import drive_with_bar
from augbench.bench.common.errors import UserError
from augbench.bench.common.wording import listed
from augbench.bench.experiment.suite import Suite
from augbench.bench.launchers.launcher import LaunchRequest, launchers
from augbench.bench.planning.plan import PlannedRun, runs_in_words
from augbench.bench.planning.recorded_tuning import record_tuning
from augbench.bench.runs.cancelling import SECONDS_TO_STOP, wait_until_stopped
from augbench.bench.runs.run_folder import RunState
from augbench.bench.tuning.driving import check_tuning, waiting
from augbench.bench.tuning.outcome import TrialState
from augbench.bench.tuning.results import why_none
from augbench.bench.tuning.stage_record import check_unchanged, kept_suite, tried_before, write_stages
from augbench.bench.tuning.stages import Stages, stages_of

Again = Callable[[Path], Sequence[str]]
"""Returns the words of the command that goes on with a suite, given the path of a copy of it."""


def find_stages(suite: Suite, out: Path) -> Stages:
    """Find out how far a suite is in an output folder.

    Raises:
        UserError: If it cannot be told, or the suite was changed between its stages.
    """
    stages = stages_of(suite, out, tried_before(suite, out))
    check_unchanged(suite, stages, out)
    return stages


def execute(
    suite: Suite,
    request: LaunchRequest,
    *,
    retry_failed: bool,
    yes: bool = True,
    again: Again | None = None,
    trials: bool = True,
) -> Stages:
    """Launch the unfinished runs of a suite with progress bars, stage after stage, and say what happened.

    Args:
        suite: What to run.
        request: Where and how.
        retry_failed: Whether failed runs start again.
        yes: Whether to start without asking, whatever the cost.
        again: The command that places what follows, for launchers that do not wait.
        trials: Whether trials of tunings are placed, or only runs whose values are known.

    Raises:
        UserError: If something is wrong before the start.
        typer.Exit: With status 130 after Ctrl-C, and with 1 if the user answers that it shall not start.
    """
    stages = _settled_stages(suite, request)
    _check_search(suite, request)
    tell_about(stages.plan)
    tell_about_tuning(suite, stages)
    if not trials:
        _raise_cancelled(stages)
    seen: set[str] = set()
    placed = 0
    while to_do := _next(stages, request, seen, retry_failed=retry_failed, trials=trials):
        _place(suite, stages, to_do, request, retry_failed=retry_failed, yes=yes or placed > 0)
        seen |= {run.spec.identity for run in to_do}
        placed += len(to_do)
        stages = find_stages(suite, request.out)
        if _is_broken_off(to_do, request):
            break
    record_tuning(stages.costs | suite.tunings(), stages.plan)
    write_stages(suite, stages, request.out)
    _say_how_it_went(stages, request, placed=placed)
    if stages.waiting and again is not None and trials:
        _follow_up(suite, stages, request, again)
    return stages


def _settled_stages(suite: Suite, request: LaunchRequest) -> Stages:
    """Find the stages; unless the launcher waits for other owners itself, wait for runs that are being cancelled."""
    stages = find_stages(suite, request.out)
    running = [run.folder for run in stages.plan.runs if run.state is RunState.RUNNING]

    def say(count: int) -> None:
        typer.echo(f"{runs_in_words(count)} still stopping after `cancel`: waiting up to {SECONDS_TO_STOP:g} s.")

    if launchers().get(request.profile.launcher).waits or not wait_until_stopped(running, say):
        return stages
    return find_stages(suite, request.out)


def _check_search(suite: Suite, request: LaunchRequest) -> None:
    """Make sure that the launcher can place what the search asks for.

    Raises:
        UserError: If it cannot.
    """
    if suite.tuning and suite.tuning.search != "random" and request.profile.launcher != "ray":
        raise UserError(
            f"[tuning] of the suite asks for search = {suite.tuning.search!r}, which only the launcher ray can do, and "
            f'not {request.profile.launcher}. Write search = "random" into it, or give --launcher ray.'
        )


def _next(
    stages: Stages, request: LaunchRequest, seen: set[str], *, retry_failed: bool, trials: bool
) -> tuple[PlannedRun, ...]:
    """Return the runs to place now: not those that were placed in an earlier stage of this command."""
    left_out = seen if trials else {*seen, *(run.spec.identity for run in stages.trials)}
    unsettled = stages.unsettled(retry_failed=retry_failed)
    left = replace(unsettled, runs=tuple(run for run in unsettled.runs if run.spec.identity not in left_out))
    return to_do_of(left, request, retry_failed=retry_failed)


def _is_broken_off(runs: Sequence[PlannedRun], request: LaunchRequest) -> bool:
    """Whether runs of a stage were cancelled, or failed where the first failure stops everything."""
    if any(run.folder.cancel_request.exists() for run in runs):
        return True
    return request.fail_fast and any(run.folder.state() is RunState.FAILED for run in runs)


def _place(
    suite: Suite, stages: Stages, to_do: Sequence[PlannedRun], request: LaunchRequest, *, retry_failed: bool, yes: bool
) -> None:
    """Place the runs of a stage."""
    costs = stages.costs | suite.tunings()
    record_tuning(costs, stages.plan)
    runs = to_do
    if suite.tuning and suite.tuning.search != "random":  # Ray Tune chooses and places the trials
        of_trials = {run.spec.identity for run in stages.trials}
        runs = [run for run in to_do if run.spec.identity not in of_trials]
        if len(runs) < len(to_do):
            stages = _drive(suite, stages, request, retry_failed=retry_failed, yes=yes)
    try:
        if runs:
            title = f"{suite.title}{stage_in_words(stages)}"
            place(
                runs,
                request,
                title=title,
                of=len(stages.plan.runs),
                yes=yes,
                later=stages.waiting,
                begin=lambda: write_stages(suite, stages, request.out),
            )
    finally:  # also after Ctrl-C, since other commands may resume the runs
        record_tuning(costs, stages.plan)


def _drive(suite: Suite, stages: Stages, request: LaunchRequest, *, retry_failed: bool, yes: bool) -> Stages:
    """Have Ray Tune carry out one search after the other; returns the stages with what became of them."""
    left = [
        search
        for search in stages.searches
        if not search.ended or (retry_failed and any(one.state is TrialState.FAILED for one in search.outcomes))
    ]
    for search in left:
        check_tuning(search.tuning, request)
    if not yes:
        runs = [run for one in left for run in waiting(one.tuning, request.out, retry_failed=retry_failed)]
        confirm((*runs, *stages.waiting), request)
    write_stages(suite, stages, request.out)
    for search in left:
        typer.echo(f"Tuning {search.name}: {search.tuning.trials} trials, {search.tuning.search}.")
        outcomes = drive_with_bar(search.tuning, request, retry_failed=retry_failed)
        stages = stages.with_outcomes(search, outcomes)
        write_stages(suite, stages, request.out)
    return stages


def _raise_cancelled(stages: Stages) -> None:
    """Raise UserError if somebody has cancelled trials: then nothing is to follow by itself."""
    cancelled = sum(run.folder.cancel_request.exists() for one in stages.searches if not one.ended for run in one.runs)
    if cancelled:
        raise UserError(f"{runs_in_words(cancelled)} of trials were cancelled, so nothing follows by itself.")


def _say_how_it_went(stages: Stages, request: LaunchRequest, *, placed: int) -> None:
    summary = stages.unsettled().summary() if not stages.searches else stages.plan.summary()
    typer.echo(summary if placed else f"Nothing to compute in {request.out}: {summary}")
    tell_values(stages)


def _follow_up(suite: Suite, stages: Stages, request: LaunchRequest, again: Again) -> None:
    """Have the final runs placed when the trials have ended, where the launcher can do that by itself."""
    launcher = launchers().get(request.profile.launcher)()
    folders = [run.folder for search in stages.searches if not search.ended for run in search.runs]
    said = launcher.follow_up(again(kept_suite(suite, request.out)), folders, request)
    if said:
        typer.echo(said)


def raise_without_result(stages: Stages, out: Path) -> None:
    """Raise UserError with the reasons if runs have no result and are not on the way to one, or values are missing."""
    raise_unfinished(stages.unsettled(), out)
    if stages.without_values:
        names = listed([f"{one.name} ({why_none(one.outcomes)})" for one in stages.without_values])
        raise UserError(
            f"None of the trials of {names} has a result, so there are no values for final runs. --retry-failed starts "
            "failed trials again; `skip = true` in [tuning.methods.NAME] of the suite keeps the values of the suite."
        )


def say_what_would_be_done(suite: Suite, request: LaunchRequest, *, retry_failed: bool) -> None:
    """Print the state of a suite, and what a launch would do.

    Raises:
        UserError: If the checks before a launch fail.
    """
    stages = find_stages(suite, request.out)
    _check_search(suite, request)
    planned = stages.plan
    tell_about(planned)
    tell_about_tuning(suite, stages)
    to_do = _next(stages, request, set(), retry_failed=retry_failed, trials=True)
    typer.echo(f"In {request.out}: {planned.summary()}")
    if not to_do:
        typer.echo("Nothing would be placed.")
    else:
        say_what_would_be_placed(to_do, request)
    if stages.waiting:
        typer.echo(f"Then, with the best values of the trials: {runs_in_words(len(stages.waiting))}.")
    raise_left_out(planned, request.out)
