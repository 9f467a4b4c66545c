"""Searching for a method's best hyperparameters, with a progress bar and a table, for `augbench tune`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from augbench.bench.commands.interrupts import INTERRUPTED
from augbench.bench.commands.options import LaunchOptions
from augbench.bench.commands.placing import confirm, stopped_by_signals
from augbench.bench.commands.progress import launch_progress
from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.experiment.budgets import LevelName, level_named
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import load_suite
from augbench.bench.experiment.tuning_cost import TuningCost
from augbench.bench.launchers.launcher import LaunchRequest
from augbench.bench.launchers.ray_jobs import cluster as ray_cluster
from augbench.bench.planning.plan import runs_in_words
from augbench.bench.tuning.driving import check_tuning, drive, waiting
from augbench.bench.tuning.outcome import Outcome, TrialState, ranked
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
from augbench.bench.tuning.tuning import Tuning, base_of_paper, base_of_suite

NOTHING = "–"


def tune_on(tuning: Tuning, request: LaunchRequest, seeds: Sequence[int], *, retry_failed: bool, yes: bool) -> None:
    """Carry out the remaining trials of a tuning; print and store its outcome.

    Args:
        tuning: What is tuned.
        request: Where and how.
        seeds: Seeds of the suite that is written to run the best values.
        retry_failed: Whether failed trials start again.
        yes: Whether to start without asking, whatever the cost.

    Raises:
        UserError: If something is wrong before the start, or trials have not ended.
        typer.Exit: With status 130 after Ctrl-C, and with 1 if the user answers that it shall not start.
    """
    check_tuning(tuning, request)
    check_not_another(tuning, request.out)
    left = waiting(tuning, request.out, retry_failed=retry_failed)
    if left and not yes:
        confirm(left, request, hint="Fewer --trials cost less.")
    typer.echo(_title(tuning, len(left), request.out))
    begin_record(tuning, request.out)
    outcomes = _drive(tuning, request, retry_failed=retry_failed)
    cost = cost_of(tuning, outcomes)
    Console().print(_table(tuning, outcomes))
    record = write_record(tuning, outcomes, request.out)
    _raise_unfinished(tuning, outcomes)
    best = best_of(outcomes)
    written = write_suite(tuning, best, cost, request.out, seeds)
    typer.echo(f"Spent: {_hours(cost)}; all trials are in {record}.")
    typer.echo(
        f"Best: trial {best.trial.number}. `{to_paste('run', written, '--out', 'DIR')}` runs it on the test images."
    )


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


def tuning_request(out: Path, profile: str | None, device: str | None, data: Path) -> LaunchRequest:
    """Say where and how; on this machine, each trial gets a GPU unless the profile says otherwise."""
    request = LaunchOptions(profile, "ray", device=device, data=data).request(out)
    chosen = request.profile
    if request.settings.device == "cpu" or chosen.resources.gpus is not None or chosen.ray.address is not None:
        return request
    if not ray_cluster.own_node(chosen.ray).gpus:
        return request
    resources = chosen.resources.model_copy(update={"gpus": 1.0})
    return replace(request, profile=chosen.model_copy(update={"resources": resources}))


def _title(tuning: Tuning, left: int, out: Path) -> str:
    base = tuning.base
    runs = runs_in_words(left) + " to do" if left else "nothing to compute"
    return (
        f"Tuning {base.method.name} on the validation images of {base.dataset.label}, {base.network.label}, "
        f"{base.budget.epochs} epochs: {tuning.trials} trials, {tuning.search}; {runs}, in {out}."
    )


def _drive(tuning: Tuning, request: LaunchRequest, *, retry_failed: bool) -> list[Outcome]:
    try:
        with stopped_by_signals(), launch_progress(Console(), tuning.trials) as progress:
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
