"""`augbench run`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.options import (
    DEFAULT_OUT,
    BudgetLevel,
    Have,
    LaunchOptions,
    Out,
    RetryFailed,
    Share,
    SuiteName,
    data_folder,
    where,
)
from augbench.bench.common.errors import to_paste
from augbench.bench.common.files import write_text
from augbench.bench.common.user_input import user_path
from augbench.bench.experiment.budgets import level_named
from augbench.bench.experiment.shard import shard_named
from augbench.bench.experiment.suite import load_suite
from augbench.bench.planning.profile import Profile
from augbench.bench.runs.run_folder import RunState


def run(
    suite: SuiteName,
    out: Out = DEFAULT_OUT,
    budget: BudgetLevel = None,
    retry_failed: RetryFailed = False,
    no_trials: Annotated[
        bool, typer.Option("--no-trials", help="Place no trials of a tuned suite, only runs whose values are known.")
    ] = False,
    have: Have = None,
    shard: Share = None,
    *,
    launch: LaunchOptions,
) -> None:
    """Execute every run of a suite that has no result yet; after an interruption, the same command resumes."""
    from augbench.bench.commands.executing import execute, find_stages, raise_without_result, say_what_would_be_done
    from augbench.bench.commands.known_runs import count_known, take_over

    request = launch.request(out)
    chosen = load_suite(suite).at_level(level_named(budget)).in_shard(shard_named(shard))
    if launch.dry_run:
        stages = find_stages(chosen, out, retry_failed=retry_failed)
        stages = count_known(stages, have) if have else stages
        say_what_would_be_done(stages, chosen, request, retry_failed=retry_failed)
        return
    if have:
        take_over(chosen, request.out, have)
    ended = execute(
        chosen,
        request,
        retry_failed=retry_failed,
        yes=launch.yes,
        again=lambda path: words_of_the_next_stage(path, out, budget, launch, request.profile, have or (), shard),
        trials=not no_trials,
    )
    raise_without_result(ended, out)
    if any(run.state in (RunState.SUBMITTED, RunState.RUNNING) for run in ended.plan.runs):
        follow, show = (to_paste(name, *where(out)) for name in ("watch", "status"))
        typer.echo(f"`{follow}` follows the runs; `{show}` shows them once.")
    else:
        tables, figures = (to_paste(name, "--from", out, "--out", "DIR") for name in ("tables", "figures"))
        more = "; --from can be given for the folder of every other share, too" if shard else ""
        typer.echo(f"`{tables}` and `{figures}` show the results{more}.")


def words_of_the_next_stage(
    suite: Path,
    out: Path,
    budget: str | None,
    launch: LaunchOptions,
    profile: Profile,
    have: Sequence[Path] = (),
    shard: str | None = None,
) -> list[str]:
    """Return the words, after `augbench`, of the command that places the final runs when the trials have ended.

    A profile that came from standard input is written beside the suite.

    Args:
        suite: A copy of the suite.
        out: Output folder.
        budget: Level of the budget.
        launch: Where and how runs are placed now.
        profile: The profile that it names.
        have: Files whose runs count as done.
        shard: Share of the suite.
    """
    name = launch.profile
    if profile.standard_input:
        name = str(suite.with_suffix(".profile.toml"))
        write_text(Path(name), profile.standard_input)
    file = str(user_path(name).resolve()) if name is not None and name.endswith(".toml") else name
    given = {
        "--out": out.resolve(),
        "--budget": budget,
        "--shard": shard,
        "--profile": file,
        "--launcher": launch.launcher,
        "--device": launch.device,
        "--data": data_folder(launch.data).resolve(),
    }
    options = [str(word) for name, value in given.items() if value is not None for word in (name, value)]
    options += [word for file in have for word in ("--have", str(file.resolve()))]
    flags = {"--fail-fast": launch.fail_fast, "--allow-changed-code": launch.allow_changed_code}
    options += [name for name, is_given in flags.items() if is_given]
    return ["run", str(suite.resolve()), *options, "--no-trials", "--yes"]
