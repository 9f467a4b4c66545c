"""`augbench plan`: what a suite would run, what is there already, and what it costs."""

import json
from typing import Annotated

import typer
from rich.console import Console

from augbench.bench.commands.interrupts import ended_by_ctrl_c
from augbench.bench.commands.options import (
    DEFAULT_DATA,
    DEFAULT_OUT,
    BudgetLevel,
    Data,
    Out,
    ProfileName,
    SuiteName,
    data_folder,
)
from augbench.bench.experiment.budgets import level_named
from augbench.bench.experiment.suite import load_suite
from augbench.bench.planning.plan import make_plan
from augbench.bench.planning.profile import load_profile
from augbench.bench.training.provenance import choose_device, describe_device


def plan(
    suite: SuiteName,
    out: Out = DEFAULT_OUT,
    budget: BudgetLevel = None,
    profile: ProfileName = None,
    every_run: Annotated[bool, typer.Option("--runs", help="Show every run with its state instead of sums.")] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Time some training steps here of whatever nothing is known about.")
    ] = False,
    device: Annotated[str, typer.Option(help="Where to time them: auto, cpu, cuda or cuda:N.")] = "auto",
    data: Data = DEFAULT_DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how many runs of a suite are done and missing, and what is left to pay for."""
    with ended_by_ctrl_c():  # torch takes seconds to import, which `--help` need not wait for
        from augbench.bench.commands.placing import raise_left_out, tell_of_changed_plugins, tell_of_damage
        from augbench.bench.commands.planned import about_jobs, cost_lines, plan_as_json, print_runs, print_sums
        from augbench.bench.launchers.launcher import launchers
        from augbench.bench.planning.estimates import groups_of, longest_jobs

    chosen = load_profile(profile)
    launchers().get(chosen.launcher)  # as `run` would ask for it
    here = choose_device(device)
    planned = make_plan(load_suite(suite).at_level(level_named(budget)), out)
    tell_of_damage(planned)
    tell_of_changed_plugins(planned)
    groups = groups_of(planned, out, chosen, describe_device(here))
    if calibrate:
        from augbench.bench.commands.measuring import measure_unknown  # trains, which a plan need not

        measure_unknown(groups, chosen, here, data_folder(data), out)
        groups = groups_of(planned, out, chosen, describe_device(here))
    if as_json:
        typer.echo(json.dumps(plan_as_json(planned, groups), indent=1))
    elif every_run:
        print_runs(planned)
        typer.echo(f"In {out}: {planned.summary()}")
    else:
        print_sums(Console(), groups)
        typer.echo(f"In {out}: {planned.summary()}")
        for line in (*cost_lines(groups), *about_jobs(longest_jobs(groups))):
            typer.echo(line)
    raise_left_out(planned, out)
