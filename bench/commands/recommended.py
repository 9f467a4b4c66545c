"""The steps of `augbench recommend`: prepare, measure, run, advise."""

import time
from dataclasses import dataclass
from pathlib import Path

import typer

from augbench.bench.commands.executing import execute
from augbench.bench.commands.measuring import measure_unknown
from augbench.bench.commands.own_data import prepare_with_bar, print_prepared
from augbench.bench.commands.own_options import OwnOptions
from augbench.bench.commands.placing import raise_unfinished
from augbench.bench.commands.plain import tell_notes
from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.common.files import write_text
from augbench.bench.data.own.preparing import PreparedOwn
from augbench.bench.data.own.settings import existing, kind_of
from augbench.bench.data.own.stored import name_of
from augbench.bench.experiment.catalogues import networks
from augbench.bench.launchers.launcher import LaunchRequest
from augbench.bench.planning.estimates import groups_of
from augbench.bench.planning.plan import Plan, make_plan
from augbench.bench.planning.short_budget import LEAST_SEEDS, LearnerCost, fitting, least_minutes
from augbench.bench.planning.short_comparison import (
    MORE_FILE,
    MORE_SEEDS,
    Asked,
    ShortComparison,
    check_enough,
    check_same,
    network_for,
    read_comparison,
    write_comparison,
)
from augbench.bench.runs.output_folder import check_output_folder
from augbench.bench.training.provenance import choose_device, describe_device
from augbench.results.export.choosing import Wanted, lowest_seed
from augbench.results.export.describing import policy_of
from augbench.results.export.evidence import evidence
from augbench.results.export.files import policy_text, write_policy
from augbench.results.model.frame import load_runs
from augbench.results.report import write_report
from augbench.results.studies.advice_files import Commands, write_advice

EPOCHS_TO_MEASURE = 32  # whatever they are: only seconds for each epoch are read


@dataclass(frozen=True)
class Request:
    """What a user asks for.

    Attributes:
        path: The images.
        minutes: How long everything may take.
        network: Network to train; None for the one of the suite.
        launch: Where and how runs are executed.
        retry_failed: Whether failed runs start again.
        started: When the command was given, on the monotonic clock.
        own: How the images are prepared.
        words: The words of the command after `augbench`, to give it again.
    """

    path: Path
    minutes: float
    network: str | None
    launch: LaunchRequest
    retry_failed: bool
    started: float
    own: OwnOptions
    words: tuple[str, ...]


def run_recommendation(request: Request) -> None:
    """Do every step that is not done yet, and print the advice.

    Raises:
        UserError: If anything about the images, options or folder is wrong, or runs have no result.
        typer.Exit: With status 130 after Ctrl-C.
    """
    out = request.launch.out
    check_output_folder(out)
    known = read_comparison(out)
    if request.network is not None:
        networks().get(request.network)
    prepared = _prepare(request)
    asked = Asked(prepared.prepared, request.minutes, request.network or network_for(prepared.report.side))
    if known is not None:
        check_same(known, asked, out)
    comparison = known or _planned(asked, prepared, request)
    ended = execute(comparison.suite(), request.launch, retry_failed=request.retry_failed).plan
    if len(ended.unfinished()) < len(ended.runs):
        typer.echo(f"\n{_advise(comparison, request)}")
    raise_unfinished(ended, out)


def _prepare(request: Request) -> PreparedOwn:
    """Prepare the images, and say what was found unless the same had been prepared before."""
    kind = kind_of(existing(request.path))
    made = prepare_with_bar(kind, request.path, request.own, request.launch.settings.data)
    if not made.was_there:
        print_prepared(made)
    return made


def _planned(asked: Asked, prepared: PreparedOwn, request: Request) -> ShortComparison:
    """Measure what a run of each learner costs here, and keep the budget that fits.

    Raises:
        UserError: If there are too few images, or not even an epoch of each learner fits.
    """
    report, launch = prepared.report, request.launch
    counts = [(one.train + one.held_out, one.test) for one in report.classes]
    train, test = (sum(numbers) for numbers in zip(*counts, strict=True))
    check_enough(train, test, len(counts), prepared.prepared)
    start = ShortComparison(**vars(asked), epochs=EPOCHS_TO_MEASURE, seeds=LEAST_SEEDS)
    costs = _measured(start, launch)
    budget, workers = start.budget, launch.settings.workers
    spent = time.monotonic() - request.started
    fits = fitting(costs, budget, 60 * request.minutes - spent, workers)
    if fits is None:
        least = least_minutes(costs, budget, spent, workers)
        raise UserError(
            f"--minutes {request.minutes:g} is too short: one epoch of each learner with {LEAST_SEEDS} seeds on "
            f"{train} images of {report.side}×{report.side} pixels takes about {least} here. Give --minutes {least} or "
            "more; smaller images (--side) take less."
        )
    comparison = start.model_copy(update={"epochs": fits.epochs, "seeds": fits.seeds})
    write_comparison(launch.out, comparison)
    return comparison


def _measured(start: ShortComparison, launch: LaunchRequest) -> list[LearnerCost]:
    """Time some steps of each learner, unless that was done before."""
    suite, device = start.suite(), choose_device(launch.settings.device)
    first = Plan(tuple(run for run in make_plan(suite, launch.out).runs if run.spec.seed == 0))
    here = describe_device(device)
    groups = groups_of(first, launch.out, launch.profile, here)
    measure_unknown(groups, launch.profile, device, launch.settings.data, launch.out)
    known = [(group.spec, group.estimate) for group in groups_of(first, launch.out, launch.profile, here)]
    costs = [LearnerCost.estimated(spec, estimate.seconds) for spec, estimate in known if estimate is not None]
    if len(costs) < len(known):
        names = ", ".join(spec.method.name for spec, estimate in known if estimate is None)
        tell_notes([f"The budget does not count {names}, which could not be measured."])
    if not costs:
        raise UserError("No learner could be measured, for the reasons above; nothing was started.")
    return costs


def _advise(comparison: ShortComparison, request: Request) -> str:
    """Write the advice, the report and the suite with more seeds beside the runs; returns the advice in words."""
    out = request.launch.out
    runs = load_runs(out)
    write_text(out / MORE_FILE, comparison.text(MORE_SEEDS * runs.runs["seed"].nunique()))
    commands = Commands(to_paste("run", out / MORE_FILE, "--out", out), to_paste(*request.words))

    def export(label: str, path: Path) -> None:
        chosen = lowest_seed(runs, Wanted(method=label))
        policy = policy_of(chosen.record, lambda: request.launch.settings.data)
        write_policy(path, policy_text(policy, "torchvision", evidence(chosen)))

    _, text = write_advice(out, runs, comparison, commands, export)
    write_report(runs, out / "report.html", f"Which augmentation for {name_of(comparison.prepared)}?")
    return text
