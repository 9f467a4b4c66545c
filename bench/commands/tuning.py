"""`augbench tune`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.options import BudgetLevel, LaunchOptions, RetryFailed

DEFAULT_FOLDER = "augbench-tuning"


class Search(StrEnum):
    """How values are chosen."""

    RANDOM = "random"
    OPTUNA = "optuna"
    ASHA = "asha"


def tune(
    method: Annotated[str, typer.Argument(help="Method whose hyperparameters are tuned.")],
    dataset: Annotated[str, typer.Option(help="Data set; its test images stay unused.")],
    network: Annotated[str | None, typer.Option(help="Network. Default: the paper's for the data set.")] = None,
    budget: BudgetLevel = None,
    suite: Annotated[
        str | None, typer.Option(help="Suite (name or .toml file) to take network, budget and data set options from.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Settings to try; give every method the same number.")] = 20,
    search: Annotated[
        Search, typer.Option(help="random; with Ray also optuna, or asha (random values, bad ones stopped early).")
    ] = Search.RANDOM,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search, and of the first run of each trial.")] = 0,
    repeats: Annotated[int, typer.Option(help="Runs of each trial, with consecutive seeds.")] = 1,
    out: Annotated[Path | None, typer.Option(help=f"Output folder. Default: {DEFAULT_FOLDER}/METHOD-DATASET.")] = None,
    retry_failed: RetryFailed = False,
    *,
    launch: LaunchOptions,
) -> None:
    """Search for a method's best hyperparameters on validation images; the same command resumes the search."""
    from augbench.bench.commands.tuned import base_and_seeds, tune_on, tuning_request
    from augbench.bench.tuning.tuning import Tuning

    base, seeds = base_and_seeds(method, dataset, network, budget, suite)
    tuning = Tuning(base, search.value, trials, seed, repeats)
    request = tuning_request(out or Path(DEFAULT_FOLDER) / f"{method}-{dataset}", tuning.search, launch)
    tune_on(tuning, request, seeds, retry_failed=retry_failed, yes=launch.yes, dry_run=launch.dry_run)
