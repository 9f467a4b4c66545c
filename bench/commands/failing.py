"""`augbench failures` and `augbench retry`: which runs have no result, why, and how they get one."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from augbench.bench.commands.interrupts import INTERRUPTED, ended_by_ctrl_c
from augbench.bench.commands.logs import RUN_HELP
from augbench.bench.commands.options import (
    DEFAULT_DATA,
    DEFAULT_OUT,
    AllowChangedCode,
    Data,
    DryRun,
    FailFast,
    LaunchDevice,
    LauncherName,
    Out,
    ProfileName,
    Workers,
    Yes,
    make_request,
    where,
)
from augbench.bench.commands.plain import in_one_line
from augbench.bench.common.errors import UserError, one_of, to_paste
from augbench.bench.common.plain_text import safe
from augbench.bench.launchers.launcher import LaunchRequest
from augbench.bench.planning.plan import PlannedRun, counts_in_words, runs_in_words, state_in_words
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.failures import (
    MEANING,
    WHAT_HELPS,
    WITHOUT_RESULT,
    Failure,
    FailureGroup,
    failure_as_json,
    failure_of,
    group_failures,
    placing_options,
)
from augbench.bench.runs.overview import Overview, RunMonitor, SeenRun, moment
from augbench.bench.runs.run_folder import DamagedError, RunState
from augbench.bench.runs.run_names import runs_named

MOST_RUNS = 3
MOST_REASONS = 3
MISSING = state_in_words(RunState.PLANNED)


def failures(
    out: Out = DEFAULT_OUT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every run and its traceback.")] = False,
) -> None:
    """Show runs that have ended without a result, grouped by cause: why, what helps, and the command for it."""
    overview = RunMonitor(out).snapshot()
    groups = group_failures(_failures(overview))
    if as_json:
        typer.echo(json.dumps(_as_json(overview, groups), indent=1))
        return
    without = sum(len(group.failures) for group in groups)
    typer.echo(f"In {safe(str(overview.out))}: {counts_in_words(overview.counts())}")
    typer.echo(f"{runs_in_words(without)} ended without a result." if without else "No run ended without a result.")
    for number, group in enumerate(groups, 1):
        typer.echo("")
        for line in _lines(number, group, groups, overview.out):
            typer.echo(line)
    for reason, count in overview.reasons(RunState.UNKNOWN):
        typer.echo(f"\n{count} unknown: {in_one_line(reason)}")
    _tell_of_damaged(overview)


def _failures(overview: Overview) -> list[Failure]:
    return [failure_of(run.folder, run.observed) for run in overview.without_result()]


def _tell_of_damaged(overview: Overview) -> None:
    for problem in overview.damaged:
        typer.echo(f"Left out: {safe(problem)}", err=True)


def _lines(number: int, group: FailureGroup, groups: Sequence[FailureGroup], out: Path) -> Iterator[str]:
    exception = f" {safe(group.exception)}" if group.exception else ""
    yield f"{number}. {group.cause}{exception}: {runs_in_words(len(group.failures))}"
    yield f"   {MEANING[group.cause]}"
    reasons = group.reasons()
    for reason, count in reasons[:MOST_REASONS]:
        times = f"{count} × " if len(reasons) > 1 else ""
        yield f"   {times}{in_one_line(reason) or 'No reason was recorded.'}"
    if len(reasons) > MOST_REASONS:
        yield f"   … and {len(reasons) - MOST_REASONS} more reasons"
    for failure in group.failures[:MOST_RUNS]:
        yield f"   • {safe(failure.folder.path.name)}"
        yield f"     {_circumstances(failure)}"
        yield from (f"     {safe(str(log))}" for log in failure.logs)
        if failure.last_words:
            yield f"     last words of its job: {in_one_line(failure.last_words)}"
    if len(group.failures) > MOST_RUNS:
        yield f"   … and {len(group.failures) - MOST_RUNS} more"
    yield f"   What helps: {WHAT_HELPS[group.cause]}"
    also = sum(len(other.failures) for other in groups if other is not group and _choice(other) == _choice(group))
    others = f" (with {runs_in_words(also)} of another group)" if also else ""
    yield f"   Again{others}: {retry_command(group, out)}"


def _circumstances(failure: Failure) -> str:
    step = f"step {failure.step:,} of {failure.steps:,}" if failure.step is not None and failure.steps else ""
    parts = [failure.host, failure.device, failure.phase, step, f"job {failure.job}" if failure.job else ""]
    return safe(", ".join(part for part in (*parts, _local_time(failure.time)) if part)) or "never executed"


def _local_time(text: str) -> str:
    """Write a recorded time by the clock of this machine, as `2026-03-01 14:05`; empty if it is none."""
    read = moment(text)
    return f"{read.astimezone():%Y-%m-%d %H:%M}" if read is not None else ""


def _choice(group: FailureGroup) -> str:
    """What --cause is given to retry a group."""
    return group.exception if group.cause is Cause.EXCEPTION and group.exception else str(group.cause)


def retry_command(group: FailureGroup, out: Path) -> str:
    """Write the command that places the runs of a group again, in the way in which they were placed."""
    options = ["--cause", _choice(group), *placing_options(group.failures[0].command)]
    return safe(to_paste("retry", *where(out), *options))


def _as_json(overview: Overview, groups: Sequence[FailureGroup]) -> dict[str, Any]:
    return {
        "out": str(overview.out),
        "states": overview.counts(),
        "groups": [
            {
                "cause": group.cause,
                "exception": group.exception or None,
                "meaning": MEANING[group.cause],
                "what_helps": WHAT_HELPS[group.cause],
                "retry": retry_command(group, overview.out),
                "runs": [failure_as_json(failure) for failure in group.failures],
            }
            for group in groups
        ],
        "damaged": list(overview.damaged),
    }


def retry(
    runs: Annotated[list[str] | None, typer.Argument(metavar="RUN", help=f"{RUN_HELP} * stands for any.")] = None,
    out: Out = DEFAULT_OUT,
    causes: Annotated[
        list[str] | None,
        typer.Option(
            "--cause",
            help="All with this cause or exception, as `augbench failures` has it; `missing`: all that never began.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that have ended without a result.")] = False,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Forget what is saved of them; failed runs start anew anyhow.")
    ] = False,
    profile: ProfileName = None,
    launcher: LauncherName = None,
    workers: Workers = None,
    device: LaunchDevice = None,
    data: Data = DEFAULT_DATA,
    fail_fast: FailFast = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    allow_changed_code: AllowChangedCode = False,
) -> None:
    """Place runs again that have ended without a result: failed ones anew, others from where they were."""
    with ended_by_ctrl_c():
        from augbench.bench.commands.placing import place, say_what_would_be_placed

    request = make_request(
        out,
        profile,
        launcher=launcher,
        workers=workers,
        device=device,
        data=data,
        fail_fast=fail_fast,
        allow_changed_code=allow_changed_code,
        from_scratch=from_scratch,
    )
    overview = RunMonitor(out).snapshot()
    _tell_of_damaged(overview)
    to_do = list(_planned(_chosen(overview, runs or [], causes or [], everything=everything)))
    if not to_do:
        raise UserError(f"None of the runs can be placed again. {_what_there_is(overview)}")
    if dry_run:
        say_what_would_be_placed(to_do, request)
        return
    try:
        place(to_do, request, title="Again", of=len(overview.runs), yes=yes)
    except typer.Exit as ended:
        if ended.exit_code == INTERRUPTED:
            command = to_paste("retry", *where(out), "--cause", Cause.CANCELLED, "--cause", MISSING)
            typer.echo(f"Where they were chosen by their cause, that is another one now: `{command}`.")
        raise
    _say_how_it_went(to_do, request)


def _chosen(overview: Overview, names: Sequence[str], causes: Sequence[str], *, everything: bool) -> list[SeenRun]:
    """Find the runs that are to be placed again.

    Raises:
        UserError: If nothing was chosen, or what was chosen is not there.
    """
    without = overview.without_result()
    missing = overview.in_state(RunState.PLANNED)
    if everything:
        return [run for run in without if run.observed.cause is not Cause.STOPPED_EARLY]  # for good, unless asked for
    if not names and not causes:
        raise UserError(f"Say which runs: their names, --cause or --all. {_what_there_is(overview)}")
    by_name = {run.name: run for run in overview.runs}
    chosen = {name: by_name[name] for name in runs_named(names, list(by_name))}
    failed = {run.name: failure_of(run.folder, run.observed) for run in without} if causes else {}
    for cause in causes:
        found = [name for name, failure in failed.items() if cause in (failure.cause, failure.exception)]
        found += [run.name for run in missing if cause == MISSING]
        if not found and cause not in (*Cause, MISSING):
            raise UserError(_no_such_cause(cause, failed.values()))
        chosen |= {name: by_name[name] for name in found}
    if not chosen:
        raise UserError(f"No run ended with the cause {' or '.join(map(repr, causes))}. {_what_there_is(overview)}")
    for run in [run for run in chosen.values() if run.state not in (*WITHOUT_RESULT, RunState.PLANNED)]:
        typer.echo(f"Left alone: {safe(run.name)} {_why_left_alone(run.state)}.", err=True)
        del chosen[run.name]
    return list(chosen.values())


def _why_left_alone(state: RunState) -> str:
    return {
        RunState.DONE: "is done",
        RunState.RUNNING: "is being executed",
        RunState.SUBMITTED: "waits in the queue",
    }.get(state, "may be executed somewhere: how it stands is not known")


def _no_such_cause(cause: str, failed: Iterable[Failure]) -> str:
    there = {str(failure.cause) for failure in failed} | {f.exception for f in failed if f.exception}
    return one_of("cause", cause, there or set(map(str, Cause)))


def _what_there_is(overview: Overview) -> str:
    """Count by cause what can be placed again."""
    counts = Counter(str(run.observed.cause or Cause.KILLED) for run in overview.without_result())
    if not counts:
        return f"In {overview.out}, no run has ended without a result: {counts_in_words(overview.counts())}"
    choices = ", ".join(f"{count} {cause}" for cause, count in counts.most_common())
    return f"In {overview.out} there are {choices}: `{to_paste('failures', *where(overview.out))}` shows them."


def _planned(runs: Iterable[SeenRun]) -> Iterator[PlannedRun]:
    """Read what the runs are; a folder that is damaged is said and left out."""
    for run in runs:
        try:
            yield PlannedRun(run.folder.read_spec(), run.folder, run.state)
        except DamagedError as error:
            typer.echo(f"Left out: {safe(str(error))}", err=True)


def _say_how_it_went(placed: Sequence[PlannedRun], request: LaunchRequest) -> None:
    """Say in what states the runs are now.

    Raises:
        UserError: If some have no result again.
    """
    names = {run.folder.path.name for run in placed}
    after = RunMonitor(request.out).snapshot()
    now = [run for run in after.runs if run.name in names]
    typer.echo(counts_in_words(Counter(run.state for run in now)))
    without = [run for run in now if run.state in WITHOUT_RESULT]
    if without:
        first = without[0]
        raise UserError(
            f"{runs_in_words(len(without))} ended without a result again. {first.name} {first.state}: "
            f"{in_one_line(first.observed.reason)} `{to_paste('failures', *where(request.out))}` groups them by cause."
        )
    if any(run.state in (RunState.SUBMITTED, RunState.RUNNING) for run in now):
        typer.echo(f"`{to_paste('watch', *where(request.out))}` follows them.")
