"""`augbench tune`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.commands.interrupts import ended_by_ctrl_c
from augbench.bench.commands.options import (
    DEFAULT_DATA,
    BudgetLevel,
    Data,
    LaunchDevice,
    ProfileName,
    RetryFailed,
    Yes,
)

DEFAULT_FOLDER = "augbench-tuning"


class Search(StrEnum):
    """How values are chosen."""

    RANDOM = "random"
    OPTUNA = "optuna"
    ASHA = "asha"


def tune(
    method: Annotated[str, typer.Argument(help="The method whose hyperparameters are looked for.")],
    dataset: Annotated[str, typer.Option(help="The data set; its test images are not looked at.")],
    network: Annotated[str | None, typer.Option(help="The network. Default: the paper's for the data set.")] = None,
    budget: BudgetLevel = None,
    suite: Annotated[
        str | None, typer.Option(help="Suite, name or .toml file, that network, budget and data are taken from.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Values to try; the same number for every method is fair.")] = 20,
    search: Annotated[
        Search, typer.Option(help="random, optuna, or asha: random values, bad ones stopped early.")
    ] = Search.RANDOM,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the values, and of the first run of each trial.")] = 0,
    repeats: Annotated[int, typer.Option(help="Runs of each trial, with one seed after the other.")] = 1,
    out: Annotated[Path | None, typer.Option(help=f"Output folder. Default: {DEFAULT_FOLDER}/METHOD-DATASET.")] = None,
    profile: ProfileName = None,
    device: LaunchDevice = None,
    data: Data = DEFAULT_DATA,
    retry_failed: RetryFailed = False,
    yes: Yes = False,
) -> None:
    """Look for a method's best hyperparameters on validation images; the same command again goes on where it was."""
    with ended_by_ctrl_c():  # torch takes seconds to import, which `--help` need not wait for
        from augbench.bench.commands.tuned import base_and_seeds, tune_on, tuning_request
        from augbench.bench.tuning.tuning import Tuning

    base, seeds = base_and_seeds(method, dataset, network, budget, suite)
    tuning = Tuning(base, search.value, trials, seed, repeats)
    request = tuning_request(out or Path(DEFAULT_FOLDER) / f"{method}-{dataset}", profile, device, data)
    tune_on(tuning, request, seeds, retry_failed=retry_failed, yes=yes)
