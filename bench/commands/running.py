"""`augbench run`."""

import typer

from augbench.bench.commands.interrupts import ended_by_ctrl_c
from augbench.bench.commands.options import (
    DEFAULT_DATA,
    DEFAULT_OUT,
    AllowChangedCode,
    BudgetLevel,
    Data,
    DryRun,
    FailFast,
    LaunchDevice,
    LauncherName,
    Out,
    ProfileName,
    RetryFailed,
    SuiteName,
    Workers,
    Yes,
    make_request,
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
    profile: ProfileName = None,
    launcher: LauncherName = None,
    workers: Workers = None,
    device: LaunchDevice = None,
    data: Data = DEFAULT_DATA,
    retry_failed: RetryFailed = False,
    fail_fast: FailFast = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    allow_changed_code: AllowChangedCode = False,
) -> None:
    """Execute every run of a suite that has no result yet; the same command again goes on where it was."""
    with ended_by_ctrl_c():  # torch takes seconds to import, which `--help` need not wait for
        from augbench.bench.commands.placing import execute, raise_unfinished, say_what_would_be_done

    request = make_request(
        out,
        profile,
        launcher=launcher,
        workers=workers,
        device=device,
        data=data,
        fail_fast=fail_fast,
        allow_changed_code=allow_changed_code,
    )
    chosen = load_suite(suite).at_level(level_named(budget))
    if dry_run:
        say_what_would_be_done(chosen, request, retry_failed=retry_failed)
        return
    ended = execute(chosen, request, retry_failed=retry_failed, yes=yes)
    raise_unfinished(ended, out)
    if any(run.state in (RunState.SUBMITTED, RunState.RUNNING) for run in ended.runs):
        follow, show = (to_paste(name, *where(out)) for name in ("watch", "status"))
        typer.echo(f"`{follow}` follows them; `{show}` shows them once.")
    else:
        tables, figures = (to_paste(name, "--from", out, "--out", "DIR") for name in ("tables", "figures"))
        typer.echo(f"`{tables}` and `{figures}` show them.")
