"""Searching for a method's best hyperparameters, with a progress bar and a table, for `augbench tune`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer
from rich import box
from rich.table import Table

from augbench.bench.commands.interrupts import INTERRUPTED
from augbench.bench.commands.options import LaunchOptions, where
from augbench.bench.commands.placing import (
    confirm,
    place,
    say_what_would_be_placed,
    stopped_by_signals,
    tell_about,
    to_do_of,
)
from augbench.bench.commands.plain import new_console
from augbench.bench.commands.progress import launch_progress
from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.experiment.budgets import LevelName, level_named
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import load_suite
from augbench.bench.experiment.tuning_cost import SearchKind, TuningCost
from augbench.bench.launchers.launcher import LaunchRequest, launchers
from augbench.bench.launchers.ray_jobs import cluster as ray_cluster
from augbench.bench.planning.plan import Plan, PlannedRun, plan_of, runs_in_words
from augbench.bench.planning.profile import Profile, load_profile
from augbench.bench.runs.run_folder import RunState
from augbench.bench.runs.run_states import RunStates
from augbench.bench.tuning.driving import check_tuning, drive, waiting
from augbench.bench.tuning.outcome import Outcome, TrialState, outcome_of, ranked
from augbench.bench.tuning.results import (
    SECONDS_IN_AN_HOUR,
    SEEDS,
    begin_record,
    best_of,
    check_not_another,
    cost_of,
    write_record,
    write_suite,
)
from augbench.bench.tuning.stages import as_in_trial
from augbench.bench.tuning.tuning import Tuning, base_of_paper, base_of_suite

NOTHING = "–"
FEWER = "Fewer --trials cost less."


def tune_on(
    tuning: Tuning, request: LaunchRequest, seeds: Sequence[int], *, retry_failed: bool, yes: bool, dry_run: bool
) -> None:
    """Carry out the remaining trials of a tuning; print and store its outcome.

    Args:
        tuning: What is tuned.
        request: Where and how.
        seeds: Seeds of the suite that is written to run the best values.
        retry_failed: Whether failed trials start again.
        yes: Whether to start without asking, whatever the cost.
        dry_run: Whether nothing is done but to say what would be.

    Raises:
        UserError: If something is wrong before the start, or trials have not ended.
        typer.Exit: With status 130 after Ctrl-C, and with 1 if the user answers that it shall not start.
    """
    tuning.check()
    check_not_another(tuning, request.out)
    carry_out = _place_trials if tuning.search == "random" else _drive_trials
    outcomes = carry_out(tuning, request, retry_failed=retry_failed, yes=yes, dry_run=dry_run)
    if dry_run:
        return
    new_console().print(_table(tuning, outcomes))
    record = write_record(tuning, outcomes, request.out)
    if not launchers().get(request.profile.launcher).waits and _in_queue(outcomes, request.out):
        follow = to_paste("watch", *where(request.out))
        typer.echo(f"`{follow}` follows the trials; the same command as before shows the best when all have ended.")
        return
    _raise_unfinished(tuning, outcomes)
    best = best_of(outcomes)
    cost = cost_of(tuning, outcomes, best)
    written = write_suite(tuning, best, cost, request.out, seeds)
    typer.echo(f"Spent: {_hours(cost)}; all trials are in {record}.")
    typer.echo(
        f"Best: trial {best.trial.number}. `{to_paste('run', written, '--out', 'DIR')}` runs it on the test images."
    )


def _place_trials(
    tuning: Tuning, request: LaunchRequest, *, retry_failed: bool, yes: bool, dry_run: bool
) -> list[Outcome]:
    """Have any launcher execute the trials of a random search, which are runs like others."""
    values = tuning.random_values()
    found = plan_of([spec for tried in values for spec in tuning.specs(tried)], request.out)
    planned = replace(found, runs=tuple(map(as_in_trial, found.runs)))
    tell_about(planned)
    to_do = to_do_of(planned, request, retry_failed=retry_failed)
    if to_do and dry_run:
        say_what_would_be_placed(to_do, request)
    if not to_do:
        typer.echo(f"{_title(tuning)}: nothing to compute, in {request.out}.")
    elif not dry_run:
        begin = partial(_begin, tuning, to_do, planned, request, yes=yes)
        place(to_do, request, title=_title(tuning), of=len(planned.runs), yes=True, begin=begin)
    return [outcome_of(tuning.trial(number, tried, request.out)) for number, tried in enumerate(values)]


def _begin(tuning: Tuning, to_do: Sequence[PlannedRun], planned: Plan, request: LaunchRequest, *, yes: bool) -> None:
    """Ask, since all trials cost about as much as the first, and record what is tuned."""
    like = tuning.specs(tuning.initial)[0]
    if not yes:
        asked, known = (
            [replace(run, spec=like.with_seed(run.spec.seed)) for run in some] for some in (to_do, planned.runs)
        )
        confirm(asked, request, hint=FEWER, known=Plan(tuple(known)))
    begin_record(tuning, request.out)


def _drive_trials(
    tuning: Tuning, request: LaunchRequest, *, retry_failed: bool, yes: bool, dry_run: bool
) -> list[Outcome]:
    """Have Ray Tune choose and place the trials."""
    check_tuning(tuning, request)
    left = waiting(tuning, request.out, retry_failed=retry_failed)
    if left and not yes and not dry_run:
        confirm(left, request, hint=FEWER)
    runs = runs_in_words(len(left)) + " to do" if left else "nothing to compute"
    typer.echo(f"{_title(tuning)}; {runs}, in {request.out}.")
    if dry_run:
        return []
    begin_record(tuning, request.out)
    return drive_with_bar(tuning, request, retry_failed=retry_failed)


def _in_queue(outcomes: Sequence[Outcome], out: Path) -> bool:
    states = RunStates(out)
    runs = [folder for one in outcomes for folder in one.trial.folders]
    return any(states.of(folder).state in (RunState.SUBMITTED, RunState.RUNNING) for folder in runs)


def base_and_seeds(
    method: str, dataset: str, network: str | None, budget: str | None, suite: str | None
) -> tuple[RunSpec, Sequence[int]]:
    """Return what is tuned, and the seeds for running the best values."""
    level = level_named(budget)
    if suite is None:
        return base_of_paper(method, dataset, network, level or LevelName.PAPER), SEEDS
    if network is not None:
        raise UserError("--network and --suite exclude each other: the suite gives the network.")
    chosen = load_suite(suite).at_level(level)
    seeds = dict.fromkeys(spec.seed for spec in chosen.specs() if spec.dataset.name == dataset)
    return base_of_suite(chosen, method, dataset), tuple(seeds)


def tuning_request(out: Path, search: SearchKind, launch: LaunchOptions) -> LaunchRequest:
    """Say where and how; on this machine, Ray gives each trial a GPU unless the profile says otherwise.

    Raises:
        UserError: If the profile is wrong, or the launcher cannot do the search.
    """
    if launch.launcher not in (None, "ray") and search != "random":
        raise UserError(f"--search {search} is done by Ray alone. Give --launcher ray, or --search random.")
    profile = load_profile(launch.profile)
    if launch.launcher is None and (search != "random" or _names_a_ray_cluster(profile)):
        launch = replace(launch, launcher="ray")
    request = launch.request(out, profile=profile)
    chosen = request.profile
    given = chosen.resources.gpus is not None or chosen.ray.address is not None
    if chosen.launcher != "ray" or request.settings.device == "cpu" or given:
        return request
    ray_cluster.require_ray(chosen.ray)
    if not ray_cluster.own_node(chosen.ray).gpus:
        return request
    resources = chosen.resources.model_copy(update={"gpus": 1.0})
    return replace(request, profile=chosen.model_copy(update={"resources": resources}))


def _names_a_ray_cluster(profile: Profile) -> bool:
    """Whether a profile of an earlier version, where only Ray could tune, names a cluster and no launcher."""
    return profile.ray.address is not None and "launcher" not in profile.model_fields_set


def _title(tuning: Tuning) -> str:
    base = tuning.base
    return (
        f"Tuning {base.learner_label} on the validation images of {base.dataset.label}, {base.network.label}, "
        f"{base.budget.epochs} epochs: {tuning.trials} trials, {tuning.search}"
    )


def drive_with_bar(tuning: Tuning, request: LaunchRequest, *, retry_failed: bool) -> list[Outcome]:
    """Have Ray Tune carry out a search, with a progress bar.

    Raises:
        typer.Exit: With status 130 after Ctrl-C.
    """
    try:
        with stopped_by_signals(), launch_progress(new_console(), tuning.trials) as progress:
            return drive(tuning, request, progress.show, retry_failed=retry_failed)
    except KeyboardInterrupt:
        typer.echo("Stopped; every run is saved. The same command resumes.")
        raise typer.Exit(INTERRUPTED) from None


def _table(tuning: Tuning, outcomes: Sequence[Outcome]) -> Table:
    """Show the trials, the best first."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Accuracy on the validation images", title_justify="left")
    for heading in ("trial", "accuracy (%)", *tuning.ranges, "epochs", "hours", "state"):
        table.add_column(heading, overflow="fold", justify="left" if heading == "state" else "right")
    for one in ranked(outcomes):
        accuracy = NOTHING if one.accuracy is None else f"{100 * one.accuracy:.2f}"
        values = [str(one.trial.values[name]) for name in tuning.ranges]
        # never summed over devices
        hours = " + ".join(f"{seconds / SECONDS_IN_AN_HOUR:.3g}" for seconds in one.spent.by_device.values()) or NOTHING
        table.add_row(str(one.trial.number), accuracy, *values, str(one.epochs), hours, one.state.value)
    table.caption = "Trial 0 has the default values."
    return table


def _hours(cost: TuningCost) -> str:
    return " and ".join(
        f"{seconds / SECONDS_IN_AN_HOUR:.3g} hours on {device}" for device, seconds in cost.seconds.items()
    )


def _raise_unfinished(tuning: Tuning, outcomes: Sequence[Outcome]) -> None:
    """Raise UserError while trials can still get a result: the best values are unknown until then."""
    unfinished = [one for one in outcomes if one.state is TrialState.UNFINISHED]
    missing = tuning.trials - len(outcomes)
    if unfinished or missing:
        reasons = " ".join(dict.fromkeys(one.reason for one in unfinished if one.reason)) or "no reason was recorded."
        raise UserError(
            f"{len(unfinished) + missing} of {tuning.trials} trials have not ended: {reasons} The same command resumes "
            "them."
        )
