"""`augbench run`."""

import typer

from augbench.bench.commands.options import (
    DEFAULT_OUT,
    BudgetLevel,
    LaunchOptions,
    Out,
    RetryFailed,
    SuiteName,
    where,
)
from augbench.bench.common.errors import to_paste
from augbench.bench.experiment.budgets import level_named
from augbench.bench.experiment.suite import load_suite
from augbench.bench.runs.run_folder import RunState


def run(
    suite: SuiteName,
    out: Out = DEFAULT_OUT,
    budget: BudgetLevel = None,
    retry_failed: RetryFailed = False,
    *,
    launch: LaunchOptions,
) -> None:
    """Execute every run of a suite that has no result yet; after an interruption, the same command resumes."""
    from augbench.bench.commands.placing import execute, raise_unfinished, say_what_would_be_done

    request = launch.request(out)
    chosen = load_suite(suite).at_level(level_named(budget))
    if launch.dry_run:
        say_what_would_be_done(chosen, request, retry_failed=retry_failed)
        return
    ended = execute(chosen, request, retry_failed=retry_failed, yes=launch.yes)
    raise_unfinished(ended, out)
    if any(run.state in (RunState.SUBMITTED, RunState.RUNNING) for run in ended.runs):
        follow, show = (to_paste(name, *where(out)) for name in ("watch", "status"))
        typer.echo(f"`{follow}` follows the runs; `{show}` shows them once.")
    else:
        tables, figures = (to_paste(name, "--from", out, "--out", "DIR") for name in ("tables", "figures"))
        typer.echo(f"`{tables}` and `{figures}` show the results.")
