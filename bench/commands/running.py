"""`augbench plan` and `augbench run`."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from augbench.bench.budgets import level_named
from augbench.bench.changed_plugins import changed_plugins
from augbench.bench.commands.options import DEFAULT_DATA, Data, Device, RetryFailed, Workers, placement
from augbench.bench.commands.progress import launch_progress
from augbench.bench.errors import UserError
from augbench.bench.launchers.launcher import Placement
from augbench.bench.launching import launch, reason_unfinished
from augbench.bench.plan import Plan, PlannedRun, make_plan
from augbench.bench.run_folder import RunState
from augbench.bench.suite import Suite, load_suite

SuiteName = Annotated[str, typer.Argument(help="Name of a built-in suite or path of a .toml file.")]
BudgetLevel = Annotated[
    str | None,
    typer.Option(
        "--budget", metavar="LEVEL", help="paper, quick or smoke, for suites of the paper: see `augbench list budgets`."
    ),
]
Out = Annotated[Path, typer.Option(help="Output folder; runs go to OUT/runs.")]


def plan(
    suite: SuiteName,
    out: Out = Path("augbench-runs"),
    budget: BudgetLevel = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every run of a suite with its state."""
    planned = make_plan(load_suite(suite).at_level(level_named(budget)), out)
    _tell_of_changed_plugins(planned)
    if as_json:
        typer.echo(json.dumps([_as_json(run) for run in planned.runs], indent=1))
        return
    table = Table()
    for heading in ("method", "data set", "network", "epochs", "seed", "state"):
        table.add_column(heading, overflow="fold")
    for run in planned.runs:
        spec = run.spec
        row = (spec.method.label, spec.dataset.label, spec.network.label, str(spec.budget.epochs), str(spec.seed))
        table.add_row(*row, run.state)
    Console().print(table)
    typer.echo(f"In {out}: {_counted(planned)}")


def run(
    suite: SuiteName,
    out: Out = Path("augbench-runs"),
    budget: BudgetLevel = None,
    launcher: Annotated[str, typer.Option(help="How runs are placed: see `augbench list launchers`.")] = "local",
    workers: Workers = None,
    device: Device = "auto",
    data: Data = DEFAULT_DATA,
    retry_failed: RetryFailed = False,
) -> None:
    """Execute every run of a suite that has no result yet; the same command again goes on where it was."""
    where = placement(workers, device, data)
    ended = execute(load_suite(suite).at_level(level_named(budget)), out, launcher, where, retry_failed=retry_failed)
    raise_unfinished(ended)
    typer.echo(f"`augbench tables --from {out} --out DIR` and `augbench figures --from {out} --out DIR` show them.")


def execute(suite: Suite, out: Path, launcher: str, where: Placement, *, retry_failed: bool) -> Plan:
    """Launch a suite with progress bars and say what happened.

    Raises:
        UserError: If something is wrong before the start.
        typer.Exit: With status 130 after Ctrl-C.
    """
    console = Console()
    before = make_plan(suite, out)
    _tell_of_changed_plugins(before)
    to_do = before.to_do(retry_failed=retry_failed)
    if not to_do:
        typer.echo(f"Nothing to compute in {out}: {_counted(before)}")
        return before
    typer.echo(
        f"{suite.title}: {len(to_do)} of {_runs(len(before.runs))} to do, at most {where.workers} at a time, in {out}."
    )
    try:
        with _stopped_by_signals(), launch_progress(console, len(to_do)) as progress:
            launch(to_do, out, launcher, where, progress.show)
    except KeyboardInterrupt:
        typer.echo("Stopped; every run is saved. The same command goes on from here.")
        raise typer.Exit(130) from None
    after = make_plan(suite, out)
    typer.echo(_counted(after))
    return after


def _tell_of_changed_plugins(planned: Plan) -> None:
    for sentence in changed_plugins(planned.runs):
        typer.echo(f"Note: {sentence}", err=True)


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Take SIGTERM and SIGHUP like Ctrl-C for the length of the block."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _as_json(run: PlannedRun) -> dict[str, Any]:
    return {"folder": str(run.folder.path), "state": run.state, "spec": run.spec.model_dump(mode="json")}


def _counted(planned: Plan) -> str:
    counts = planned.counts()
    states = [f"{counts[state]} {state}" for state in RunState if state in counts]
    return f"{_runs(len(planned.runs))}: {', '.join(states)}."


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def raise_unfinished(planned: Plan) -> None:
    """Raise UserError with the reason of every run that has no result, if there are any."""
    unfinished = planned.unfinished()
    if unfinished:
        reasons = " ".join(reason_unfinished(run) for run in unfinished)
        raise UserError(
            f"{len(unfinished)} of {_runs(len(planned.runs))} without a result; the others are not affected. {reasons} "
            "The same command goes on with those that did not fail; --retry-failed starts failed ones again."
        )
