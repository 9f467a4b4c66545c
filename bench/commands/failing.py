"""`augbench failures` and `augbench retry`: which runs have no result, why, and how to get one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from augbench.bench.commands.interrupts import INTERRUPTED
from augbench.bench.commands.options import DEFAULT_OUT, RUN_HELP, LaunchOptions, Out, where
from augbench.bench.commands.plain import in_one_line, print_json, tell_left_out
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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with every run and its traceback.")] = False,
) -> None:
    """Show runs that ended without a result, grouped by cause: why, what helps, and the command to retry them."""
    overview = RunMonitor(out).snapshot()
    groups = group_failures([failure_of(run.folder, run.observed) for run in overview.without_result()])
    if as_json:
        print_json(_as_json(overview, groups))
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
    tell_left_out(overview.damaged)


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
            yield f"     last line of its job: {in_one_line(failure.last_words)}"
    if len(group.failures) > MOST_RUNS:
        yield f"   … and {len(group.failures) - MOST_RUNS} more"
    yield f"   What helps: {WHAT_HELPS[group.cause]}"
    also = sum(len(other.failures) for other in groups if other is not group and _choice(other) == _choice(group))
    others = f" (with {runs_in_words(also)} of another group)" if also else ""
    yield f"   To retry{others}: {retry_command(group, out)}"


def _circumstances(failure: Failure) -> str:
    step = f"step {failure.step:,} of {failure.steps:,}" if failure.step is not None and failure.steps else ""
    parts = [failure.host, failure.device, failure.phase, step, f"job {failure.job}" if failure.job else ""]
    return safe(", ".join(part for part in (*parts, _local_time(failure.time)) if part)) or "never executed"


def _local_time(text: str) -> str:
    """Write a recorded time in this machine's time zone, as `2026-03-01 14:05`; empty if it is none."""
    read = moment(text)
    return f"{read.astimezone():%Y-%m-%d %H:%M}" if read is not None else ""


def _choice(group: FailureGroup) -> str:
    """Return what --cause takes to retry a group."""
    return group.exception if group.cause is Cause.EXCEPTION and group.exception else str(group.cause)


def retry_command(group: FailureGroup, out: Path) -> str:
    """Write the command that places the runs of a group again, with the options that placed them first."""
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
    runs: Annotated[list[str] | None, typer.Argument(metavar="RUN", help=f"{RUN_HELP} * matches any text.")] = None,
    out: Out = DEFAULT_OUT,
    causes: Annotated[
        list[str] | None,
        typer.Option(
            "--cause",
            help="Runs with this cause or exception (see `augbench failures`), or `missing`: never started.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All runs that ended without a result.")] = False,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Discard saved progress; failed runs start over anyway.")
    ] = False,
    *,
    launch: LaunchOptions,
) -> None:
    """Place runs again that ended without a result: failed ones start over, others resume."""
    from augbench.bench.commands.placing import place, say_what_would_be_placed

    request = launch.request(out, from_scratch=from_scratch)
    overview = RunMonitor(out).snapshot()
    tell_left_out(overview.damaged)
    to_do = list(_planned(_chosen(overview, runs or [], causes or [], everything=everything)))
    if not to_do:
        raise UserError(f"None of the runs can be placed again. {_what_there_is(overview)}")
    if launch.dry_run:
        say_what_would_be_placed(to_do, request)
        return
    try:
        place(to_do, request, title="Again", of=len(overview.runs), yes=launch.yes)
    except typer.Exit as ended:
        if ended.exit_code == INTERRUPTED:
            command = to_paste("retry", *where(out), "--cause", Cause.CANCELLED, "--cause", MISSING)
            typer.echo(f"The causes of these runs have changed: `{command}` resumes them.")
        raise
    _say_how_it_went(to_do, request)


def _chosen(overview: Overview, names: Sequence[str], causes: Sequence[str], *, everything: bool) -> list[SeenRun]:
    """Find the chosen runs.

    Raises:
        UserError: If nothing was chosen, or the choice matches no run.
    """
    without = overview.without_result()
    missing = overview.in_state(RunState.PLANNED)
    if everything:
        return [run for run in without if run.observed.cause is not Cause.STOPPED_EARLY]  # for good, unless asked for
    if not names and not causes:
        raise UserError(f"Name the runs, or give --cause or --all. {_what_there_is(overview)}")
    by_name = {run.name: run for run in overview.runs}
    chosen = {name: by_name[name] for name in runs_named(names, list(by_name))}
    failed = {run.name: failure_of(run.folder, run.observed) for run in without} if causes else {}
    for cause in causes:
        found = [name for name, failure in failed.items() if cause in (failure.cause, failure.exception)]
        found += [run.name for run in missing if cause == MISSING]
        if not found and cause not in (*Cause, MISSING):
            there = {str(word) for one in failed.values() for word in (one.cause, one.exception) if word}
            raise UserError(one_of("cause", cause, there or set(map(str, Cause))))
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
        RunState.RUNNING: "is running",
        RunState.SUBMITTED: "waits in the queue",
    }.get(state, "has an unknown state and may be running")


def _what_there_is(overview: Overview) -> str:
    """Count the runs that can be placed again, by cause."""
    counts = Counter(str(run.observed.cause or Cause.KILLED) for run in overview.without_result())
    if not counts:
        return f"In {overview.out}, no run has ended without a result: {counts_in_words(overview.counts())}"
    choices = ", ".join(f"{count} {cause}" for cause, count in counts.most_common())
    return f"In {overview.out} there are {choices}: `{to_paste('failures', *where(overview.out))}` shows them."


def _planned(runs: Iterable[SeenRun]) -> Iterator[PlannedRun]:
    """Read what the runs are; damaged folders are reported and left out."""
    for run in runs:
        try:
            yield PlannedRun(run.folder.read_spec(), run.folder, run.state)
        except DamagedError as error:
            tell_left_out([error])


def _say_how_it_went(placed: Sequence[PlannedRun], request: LaunchRequest) -> None:
    """Count the runs by their present state.

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
        typer.echo(f"`{to_paste('watch', *where(request.out))}` follows the runs.")
