"""What `augbench plan` shows: tables of runs and hours, and sentences on the remaining cost."""

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from augbench.bench.commands.plain import new_console
from augbench.bench.commands.screen import fits
from augbench.bench.experiment.base import base_in_words
from augbench.bench.experiment.labels import label_runs
from augbench.bench.planning.estimates import Estimate, Group, Hours, Source, in_all, left, longest_jobs
from augbench.bench.planning.plan import Plan, runs_in_words, state_in_words
from augbench.bench.runs.run_folder import RunState

USUAL = (RunState.DONE, RunState.RUNNING, RunState.FAILED)

Columns = dict[str, list[RunState]]
"""By heading, states whose runs are counted."""


def print_runs(planned: Plan) -> None:
    """Print every run with its state."""
    table = Table()
    based = any(run.spec.budget.base for run in planned.runs)
    for heading in ("method", "data set", "network", "epochs", *["base"] * based, "seed", "state"):
        table.add_column(heading, overflow="fold")
    for run in planned.runs:
        spec = run.spec
        row = [spec.learner_label, spec.dataset.label, spec.network.label, str(spec.budget.epochs)]
        table.add_row(*row, *[base_in_words(spec.budget.base)] * based, str(spec.seed), run.state)
    new_console().print(table)


def print_sums(console: Console, groups: list[Group]) -> None:
    """Print one table, or two if it is too wide: one of run counts, one of costs."""
    known = any(group.estimate for group in groups)
    whole = _table(groups, _state_columns(groups), cost=known)
    if fits(console, whole):
        return console.print(whole)
    every_state = _table(groups, _state_columns(groups), cost=False)
    console.print(every_state if fits(console, every_state) else _table(groups, _few_columns(groups), cost=False))
    if known:
        console.print(_table(groups, {}, cost=True))


def _table(groups: list[Group], columns: Columns, *, cost: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for heading in ("method", "data set"):
        table.add_column(heading, overflow="fold")
    unit = hours_unit(groups)
    for heading in [*columns] + [f"{unit}\nleft", f"{unit}\nin all"] * cost:
        table.add_column(heading, justify="right", no_wrap=True)
    if cost:
        table.add_column("from", no_wrap=True)
    for group, label in zip(groups, label_runs([group.spec for group in groups]), strict=True):
        counts = [str(sum(group.states[state] for state in states)) for states in columns.values()]
        table.add_row(label.label, label.comparison, *counts, *_cost_cells(group) * cost)
    return table


def _state_columns(groups: list[Group]) -> Columns:
    """Make the columns of run counts: the usual states, others if they occur, missing runs last."""
    there = {state for group in groups for state in group.states}
    others = [state for state in RunState if state in there and state not in (*USUAL, RunState.PLANNED)]
    return {"runs": [*RunState], **{state_in_words(state): [state] for state in (*USUAL, *others, RunState.PLANNED)}}


def _few_columns(groups: list[Group]) -> Columns:
    """Make the same columns with the unusual states in one; the sentence below the table counts each."""
    columns = _state_columns(groups)
    usual = {heading: columns.pop(heading) for heading in ("runs", *USUAL)}
    missing = columns.pop(state_in_words(RunState.PLANNED))
    others = [state for states in columns.values() for state in states]
    return {**usual, "other": others, state_in_words(RunState.PLANNED): missing}


def _cost_cells(group: Group) -> tuple[str, ...]:
    estimate = group.estimate
    if estimate is None:
        return ("unknown" if group.to_do else "0", "unknown", "")
    sign = "≥ " if estimate.search_unknown else ""
    hours = estimate.known_hours * (group.gpus if estimate.gpu else 1)
    cells = [f"{sign}{hours_text(runs * hours)}" if runs else "0" for runs in (group.to_do, group.states.total())]
    noun = "run" if estimate.source is Source.RUNS else "step"
    return (*cells, f"{estimate.count} {noun}{'s' * (estimate.count > 1)}")


def hours_unit(groups: Iterable[Group]) -> str:
    """Name the unit of the hours of some groups."""
    kinds = {group.estimate.gpu for group in groups if group.estimate is not None}
    return "GPU-hours" if kinds == {True} else "hours"


def hours_text(hours: float) -> str:
    """Write hours with two significant digits, or as a whole number."""
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"


def cost_lines(groups: list[Group]) -> list[str]:
    """Say in sentences what the remaining and all runs cost, by device and method, and where the numbers come from."""
    gpu = {group.estimate.device: group.estimate.gpu for group in groups if group.estimate}
    if not gpu:
        return ["Cost: unknown, since no such run has finished here; --calibrate times some training steps."]
    failed = sum(group.states[RunState.FAILED] for group in groups)
    without = f" Excludes {runs_in_words(failed)} that failed." if failed else ""
    lines = [f"Left: {_sum_in_words(left(groups), gpu)}{without}", f"In all: {_sum_in_words(in_all(groups), gpu)}"]
    methods = _by_method(groups)
    if 1 < len(methods) < len(groups) and any(group.to_do for group in groups):
        parts = [f"{name} {_short_sum(left(own))}" for name, own in methods.items()]
        lines.append(f"Left by method, in {hours_unit(groups)}: {', '.join(parts)}.")
    return lines + _origins([group.estimate for group in groups if group.estimate])


def _sum_in_words(hours: Hours, gpu: dict[str, bool]) -> str:
    devices = hours.by_device.items()
    parts = [
        f"{hours_text(number)} {'GPU-hours' if gpu[device] else 'hours'} on {device}" for device, number in devices
    ]
    known = f"{' + '.join(parts)} for {runs_in_words(hours.runs)}" if parts else ""
    return f"{_with_unknown(known, hours) or 'nothing'}."


def _short_sum(hours: Hours) -> str:
    several = len(hours.by_device) > 1
    parts = [hours_text(number) + (f" on {device}" if several else "") for device, number in hours.by_device.items()]
    return _with_unknown(" + ".join(parts), hours) or "0"


def _with_unknown(known: str, hours: Hours) -> str:
    unknown = f"{runs_in_words(hours.unknown)} of unknown cost" if hours.unknown else ""
    return " + ".join(filter(None, (known, unknown)))


def _by_method(groups: Iterable[Group]) -> dict[str, list[Group]]:
    methods: dict[str, list[Group]] = {}
    for group in groups:
        methods.setdefault(group.spec.method.name, []).append(group)
    return methods


def _origins(estimates: list[Estimate]) -> list[str]:
    """Explain the column `from`."""
    sentences = []
    for source, text in (
        (Source.RUNS, "runs: the mean of that many finished runs that differ only in their seed, on"),
        (Source.STEPS, "steps: computed from that many training steps, timed on"),
    ):
        devices = dict.fromkeys(estimate.device for estimate in estimates if estimate.source is source)
        if devices:
            sentences.append(f"{text} {' or '.join(devices)}.")
    if any(estimate.search_unknown for estimate in estimates):
        sentences.append("≥: training and evaluation only; the length of the search before them is unknown.")
    if any(estimate.too_high for estimate in estimates):
        sentences.append("If a whole batch takes seconds, a part of one was timed; such hours are upper estimates.")
    return [" ".join(["From", *sentences])]


def about_jobs(groups: list[Group]) -> list[str]:
    """Compare the longest run, and longer-than-allowed runs of other methods, with the time limit of a job."""
    known = [(group, group.estimate) for group in groups if group.estimate]
    own = [pair for pair in known[1:] if pair[0].searches]  # something may have to be done about these
    rest = [
        f"{group.spec.method.name} on {group.spec.dataset.called} ({hours_text(estimate.known_hours)} h)"
        for group, estimate in known[1:]
        if not group.searches
    ]
    lines = [f"Longest job: {_about_job(*pair)}" for pair in known[:1]]
    lines += [f"Also: {_about_job(*pair)}" for pair in own]
    resumed = "Longer than their limit, so they are saved, requeued and resumed"
    return lines + ([f"{resumed}: {', '.join(rest)}."] if rest else [])


def _about_job(group: Group, estimate: Estimate) -> str:
    """Compare a run with the time limit of a job."""
    hours = estimate.known_hours
    least = "at least " if estimate.search_unknown else ""
    start = f"{group.spec.method.name} on {group.spec.dataset.called}, {least}{hours_text(hours)} h, "
    if group.limit_minutes is None:
        return f"{start}without a time limit."
    limit = group.limit_minutes / 60
    start += f"{'longer than' if hours > limit else 'within'} its limit of {hours_text(limit)} h"
    times = math.ceil(hours / limit) - 1
    again = f"it is saved, requeued and resumed about {'once' if times == 1 else f'{times} times'}"
    if estimate.search_unknown:
        return f"{start}; its search adds to this, is not saved midway and must fit into the limit."
    if hours <= limit:
        return f"{start}."
    search = estimate.seconds.get("search", 0) / 3600
    if search > limit:
        where = f"`time` of [methods.{group.spec.method.name}] in the profile"
        return f"{start}: its search of {hours_text(search)} h is not saved midway and does not fit; raise {where}."
    if group.searches:
        return f"{start}: its search of {hours_text(search)} h is not saved midway, but fits; {again}."
    return f"{start}: {again}."


def plan_as_json(planned: Plan, groups: list[Group]) -> dict[str, Any]:
    """Return runs, groups and their costs for JSON."""
    longest = longest_jobs(groups)
    return {
        "runs": [
            {"folder": str(run.folder.path), "state": run.state, "spec": run.spec.model_dump(mode="json")}
            for run in planned.runs
        ],
        "damaged": list(planned.damaged),
        "groups": [_group_as_json(group) for group in groups],
        "methods": {name: _cost_as_json(own) for name, own in _by_method(groups).items()},
        "total": {
            "runs": len(planned.runs),
            "states": planned.counts(),
            **_cost_as_json(groups),
            "longest_job": _group_as_json(longest[0]) if longest else None,
        },
    }


def _group_as_json(group: Group) -> dict[str, Any]:
    estimate, spec = group.estimate, group.spec
    return {
        "method": spec.learner_label,
        "dataset": spec.dataset.label,
        "network": spec.network.label,
        "epochs": spec.budget.epochs,
        "base": base_in_words(spec.budget.base),
        "kind": spec.configuration,
        "runs": group.states.total(),
        "states": dict(group.states),
        "to_do": group.to_do,
        "gpus": group.gpus,
        "limit_minutes": group.limit_minutes,
        "device_hours_of_a_run": group.device_hours,
        "estimate": estimate and asdict(estimate),
    }


def _cost_as_json(groups: Iterable[Group]) -> dict[str, Any]:
    counted = list(groups)
    return {"left": hours_as_json(left(counted)), "in_all": hours_as_json(in_all(counted))}


def hours_as_json(hours: Hours) -> dict[str, Any]:
    """Return device hours for JSON."""
    return {"device_hours": dict(hours.by_device), "runs": hours.runs, "unknown_runs": hours.unknown}
