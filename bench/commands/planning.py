"""`augbench plan`: what a suite would run, what is done already, and what the rest costs."""

from typing import Annotated, Any

import typer

from augbench.bench.commands.options import (
    DEFAULT_DATA,
    DEFAULT_OUT,
    AsJson,
    BudgetLevel,
    Data,
    Have,
    Out,
    ProfileName,
    Share,
    SuiteName,
    data_folder,
)
from augbench.bench.commands.plain import new_console, print_json, tell_notes
from augbench.bench.experiment.budgets import level_named
from augbench.bench.experiment.shard import shard_named
from augbench.bench.experiment.suite import load_suite
from augbench.bench.planning.profile import load_profile
from augbench.bench.training.provenance import choose_device, describe_device


def plan(
    suite: SuiteName,
    out: Out = DEFAULT_OUT,
    budget: BudgetLevel = None,
    profile: ProfileName = None,
    every_run: Annotated[bool, typer.Option("--runs", help="List every run with its state instead of totals.")] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Time a few training steps here for runs of unknown cost.")
    ] = False,
    device: Annotated[str, typer.Option(help="Device that --calibrate uses: auto, cpu, cuda or cuda:N.")] = "auto",
    data: Data = DEFAULT_DATA,
    have: Have = None,
    shard: Share = None,
    as_json: AsJson = False,
) -> None:
    """Show how many runs of a suite are done or missing, and what the missing ones will cost."""
    from augbench.bench.commands.executing import find_stages
    from augbench.bench.commands.known_runs import count_known
    from augbench.bench.commands.placing import raise_left_out, tell_about
    from augbench.bench.commands.planned import about_jobs, cost_lines, plan_as_json, print_runs, print_sums
    from augbench.bench.commands.resolution import resolution_lines, resolutions, resolutions_as_json
    from augbench.bench.commands.staged import TUNED_COSTS, stages_as_json, tell_about_tuning, tell_values
    from augbench.bench.launchers.launcher import launchers
    from augbench.bench.planning.estimates import groups_of, longest_jobs

    chosen = load_profile(profile)
    tell_notes(chosen.slurm.notes())
    launchers().get(chosen.launcher)  # a wrong name is an error here as in `run`
    here = choose_device(device)
    resolved = load_suite(suite).at_level(level_named(budget)).in_shard(shard_named(shard))
    stages = find_stages(resolved, out)
    if have:
        stages = count_known(stages, have)
    planned = stages.plan
    tell_about(planned)
    estimated = stages.for_estimates()
    groups = groups_of(estimated, out, chosen, describe_device(here))
    if calibrate:
        from augbench.bench.commands.measuring import measure_unknown  # trains, which a plan need not

        measure_unknown(groups, chosen, here, data_folder(data), out)
        groups = groups_of(estimated, out, chosen, describe_device(here))
    if as_json:
        more: dict[str, Any] = {"resolution": resolutions_as_json(resolutions(estimated, groups, out))}
        more |= {"stages": stages_as_json(stages)} if stages.searches else {}
        print_json(plan_as_json(planned, groups) | more)
    elif every_run:
        print_runs(planned)
        typer.echo(f"In {out}: {planned.summary()}")
    else:
        tell_about_tuning(resolved, stages)
        print_sums(new_console(), groups)
        tell_values(stages)
        typer.echo(f"In {out}: {estimated.summary()}")
        can_show = resolution_lines(resolutions(estimated, groups, out), groups)
        for line in (*cost_lines(groups), *can_show, *about_jobs(longest_jobs(groups))):
            typer.echo(line)
        if stages.searches:
            typer.echo(f"Tuned: {TUNED_COSTS}")
    raise_left_out(planned, out)
