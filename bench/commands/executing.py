"""Executing a suite, in stages where it is tuned: what `run`, `demo` and `recommend` share."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import typer

from augbench.bench.commands.placing import (
    confirm,
    place,
    placeable,
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
from augbench.bench.launching.launch import prepare_launch
from augbench.bench.planning.plan import Plan, PlannedRun, runs_in_words
from augbench.bench.planning.recorded_tuning import record_tuning
from augbench.bench.runs.cancelling import SECONDS_TO_STOP, wait_until_stopped
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.tuning.driving import check_tuning, waiting
from augbench.bench.tuning.results import why_none
from augbench.bench.tuning.stage_record import check_unchanged, kept_suite, tried_before, write_stages
from augbench.bench.tuning.stages import Search, Stages, stages_of

Again = Callable[[Path], Sequence[str]]
"""Returns the words of the command that goes on with a suite, given the path of a copy of it."""


def find_stages(suite: Suite, out: Path, *, retry_failed: bool = False) -> Stages:
    """Find out how far a suite is in an output folder; failed trials that are to be tried again have not ended.

    Raises:
        UserError: If it cannot be told, or the suite was changed between its stages.
    """
    stages = stages_of(suite, out, tried_before(suite, out), retry_failed=retry_failed)
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
    stages = _settled_stages(suite, request, retry_failed=retry_failed and trials)
    _check_search(suite, request)
    tell_about(stages.plan)
    tell_about_tuning(suite, stages)
    if not trials:
        _raise_cancelled(stages)
    execution = _Execution(suite, request, retry_failed=retry_failed, yes=yes, trials=trials)
    while True:
        stages = execution.go_on(stages)
        launcher = launchers().get(request.profile.launcher)()
        if not stages.waiting or again is None or not trials or launcher.waits:
            return stages
        folders = [run.folder for search in stages.searches if not search.ended for run in search.runs]
        if said := launcher.follow_up(again(kept_suite(suite, request.out)), folders, request):
            typer.echo(said)
            return stages
        later = find_stages(suite, request.out)
        if len(later.waiting) == len(stages.waiting):
            typer.echo("Nothing follows by itself: give the same command again when the trials have ended.")
            return stages
        stages = later  # trials have ended since


def _settled_stages(suite: Suite, request: LaunchRequest, *, retry_failed: bool) -> Stages:
    """Find the stages; unless the launcher waits for other owners itself, wait for runs that are being cancelled."""
    stages = find_stages(suite, request.out, retry_failed=retry_failed)
    running = [run.folder for run in stages.plan.runs if run.state is RunState.RUNNING]

    def say(count: int) -> None:
        typer.echo(f"{runs_in_words(count)} still stopping after `cancel`: waiting up to {SECONDS_TO_STOP:g} s.")

    if launchers().get(request.profile.launcher).waits or not wait_until_stopped(running, say):
        return stages
    return find_stages(suite, request.out, retry_failed=retry_failed)


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


class _Work(NamedTuple):
    """What is placed next: runs, and searches whose trials Ray Tune chooses and places."""

    runs: tuple[PlannedRun, ...]
    searches: tuple[Search, ...] = ()


def _is_broken_off(folders: Sequence[RunFolder], request: LaunchRequest) -> bool:
    """Whether a run was cancelled, or has failed where the first failure stops everything."""
    if any(folder.cancel_request.exists() for folder in folders):
        return True
    return request.fail_fast and any(folder.state() is RunState.FAILED for folder in folders)


def _first_work(suite: Suite, stages: Stages, request: LaunchRequest, *, retry_failed: bool, trials: bool) -> _Work:
    """Return what a command places first, and say which runs of unknown state are left out.

    Raises:
        UserError: If nothing but runs of unknown state is left.
    """
    is_driven = suite.tuning is not None and suite.tuning.search != "random"
    searches = tuple(one for one in stages.searches if not one.ended) if is_driven and trials else ()
    choose = placeable if searches else to_do_of  # where searches are left, the others are told of in the end
    without = {run.spec.identity for run in stages.trials} if is_driven or not trials else set()
    return _Work(choose(_left(stages, without), request, retry_failed=retry_failed), searches)


def _left(stages: Stages, without: set[str]) -> Plan:
    """Return what is unsettled, without runs of some identities."""
    unsettled = stages.unsettled()
    return replace(unsettled, runs=tuple(run for run in unsettled.runs if run.spec.identity not in without))


class _Execution:
    """What one command does, stage after stage; arguments as for `execute`."""

    def __init__(self, suite: Suite, request: LaunchRequest, *, retry_failed: bool, yes: bool, trials: bool) -> None:
        self.suite = suite
        self.request = request
        self.retry_failed = retry_failed
        self.yes = yes
        self.trials = trials
        self.seen: set[str] | None = None  # identities of what was placed, or is for others to place; None at first

    def go_on(self, stages: Stages) -> Stages:
        """Place what can be placed until nothing is left; returns the stages with what became of it."""
        placed = False
        while any(work := self._next(stages)):
            is_broken_off = self._place(stages, work)
            placed = True
            stages = find_stages(self.suite, self.request.out)
            if is_broken_off:
                break
        record_tuning(stages.costs | self.suite.tunings(), stages.plan)
        write_stages(self.suite, stages, self.request.out)
        _say_how_it_went(stages, self.request, placed=placed)
        return stages

    def _next(self, stages: Stages) -> _Work:
        """Return what to place now: nothing that was placed before."""
        if self.seen is None:
            work = _first_work(self.suite, stages, self.request, retry_failed=self.retry_failed, trials=self.trials)
            self.seen = {run.spec.identity for run in stages.trials}
        else:
            work = _Work(placeable(_left(stages, self.seen), self.request, retry_failed=self.retry_failed))
        self.seen |= {run.spec.identity for run in work.runs}
        return work

    def _place(self, stages: Stages, work: _Work) -> bool:
        """Place something; returns whether it was broken off: cancelled, or failed where one failure stops all."""
        costs = stages.costs | self.suite.tunings()
        record_tuning(costs, stages.plan)
        try:
            if work.searches:
                stages, is_broken_off = self._drive(stages, work)
                if is_broken_off:
                    return True
            if work.runs:
                title = f"{self.suite.title}{stage_in_words(stages)}"
                begin = partial(self._begin, stages, work)
                place(work.runs, self.request, title=title, of=len(stages.plan.runs), yes=True, begin=begin)
        finally:  # also after Ctrl-C, since other commands may resume the runs
            record_tuning(costs, stages.plan)
        return _is_broken_off([run.folder for run in work.runs], self.request)

    def _begin(self, stages: Stages, work: _Work) -> None:
        """Ask once about everything, when all has been checked, and record what is about to be placed."""
        if not self.yes:
            trials = [run for one in work.searches for run in self._trials_left(one)]
            runs = stages.alike((*work.runs, *trials, *stages.waiting))
            confirm(runs, self.request, known=stages.for_estimates())
        self.yes = True
        write_stages(self.suite, stages, self.request.out)

    def _trials_left(self, search: Search) -> list[PlannedRun]:
        return waiting(search.tuning, self.request.out, retry_failed=self.retry_failed)

    def _drive(self, stages: Stages, work: _Work) -> tuple[Stages, bool]:
        """Have Ray Tune carry out one search after the other, until one is broken off; returns what became of them."""
        for search in work.searches:
            check_tuning(search.tuning, self.request)
        if work.runs:
            prepare_launch(work.runs, self.request)
        self._begin(stages, work)
        for search in work.searches:
            typer.echo(f"Tuning {search.name}: {search.tuning.trials} trials, {search.tuning.search}.")
            outcomes = drive_with_bar(search.tuning, self.request, retry_failed=self.retry_failed)
            stages = stages.with_outcomes(search, outcomes)
            write_stages(self.suite, stages, self.request.out)
            before = {run.folder.path for run in search.runs if run.state is RunState.FAILED}
            folders = [folder for one in outcomes for folder in one.trial.folders]
            if _is_broken_off([folder for folder in folders if folder.path not in before], self.request):
                return stages, True
        return stages, False


def _raise_cancelled(stages: Stages) -> None:
    """Raise UserError if somebody has cancelled trials: then nothing is to follow by itself."""
    cancelled = sum(run.folder.cancel_request.exists() for one in stages.searches if not one.ended for run in one.runs)
    if cancelled:
        raise UserError(f"{runs_in_words(cancelled)} of trials were cancelled, so nothing follows by itself.")


def _say_how_it_went(stages: Stages, request: LaunchRequest, *, placed: int) -> None:
    summary = stages.unsettled().summary() if not stages.searches else stages.plan.summary()
    typer.echo(summary if placed else f"Nothing to compute in {request.out}: {summary}")
    tell_values(stages)


def raise_without_result(stages: Stages, out: Path) -> None:
    """Raise UserError with the reasons if runs have no result and are not on the way to one, or values are missing."""
    raise_unfinished(stages.unsettled(), out)
    if stages.without_values:
        names = listed([f"{one.name} ({why_none(one.outcomes)})" for one in stages.without_values])
        raise UserError(
            f"None of the trials of {names} has a result, so there are no values for final runs. --retry-failed starts "
            "failed trials again; `skip = true` in [tuning.methods.NAME] of the suite keeps the values of the suite."
        )
    if stages.waiting and not any(run.state in (RunState.SUBMITTED, RunState.RUNNING) for run in stages.plan.runs):
        raise UserError(
            f"{runs_in_words(len(stages.waiting))} of the comparison wait for trials of "
            f"{listed([one.name for one in stages.searches if not one.ended])}, which have not ended. The same command "
            "goes on with them."
        )


def say_what_would_be_done(stages: Stages, suite: Suite, request: LaunchRequest, *, retry_failed: bool) -> None:
    """Print the state of a suite, and what a launch would do.

    Raises:
        UserError: If the checks before a launch fail.
    """
    _check_search(suite, request)
    planned = stages.plan
    tell_about(planned)
    tell_about_tuning(suite, stages)
    work = _first_work(suite, stages, request, retry_failed=retry_failed, trials=True)
    typer.echo(f"In {request.out}: {planned.summary()}")
    for search in work.searches:
        check_tuning(search.tuning, request)
        left = runs_in_words(len(waiting(search.tuning, request.out, retry_failed=retry_failed)))
        typer.echo(
            f"Ray Tune would tune {search.name}: {search.tuning.trials} trials, {search.tuning.search}; {left} to do."
        )
    if work.runs:
        say_what_would_be_placed(work.runs, request)
    if not any(work):
        typer.echo("Nothing would be placed.")
    if stages.waiting:
        typer.echo(f"Then, with the best values of the trials: {runs_in_words(len(stages.waiting))}.")
    raise_left_out(planned, request.out)
