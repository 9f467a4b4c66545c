"""`augbench bound`: the PAC-Bayes bound of SCALE for one finished run."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from augbench.bench.commands.options import DEFAULT_DATA, AsJson, Data, Device, data_folder
from augbench.bench.commands.plain import new_console, print_json
from augbench.bench.runs.run_folder import RunFolder
from augbench.bench.training.provenance import choose_device
from augbench.results.statistics.bound import Assumptions, PacBayesBound, PriorMean


def bound(
    run: Annotated[Path, typer.Argument(help="Folder OUT/runs/NAME of a finished run that learned (π, α).")],
    lipschitz: Annotated[float, typer.Option(help="Lipschitz constant L of the clipped loss in the weights.")],
    loss_range: Annotated[
        tuple[float, float], typer.Option(metavar="A B", help="Interval that the loss is clipped to.")
    ],
    delta: Annotated[float, typer.Option(help="Probability that the bound fails.")] = 0.05,
    prior_deviation: Annotated[float, typer.Option(help="Standard deviation s of the prior of the weights.")] = 1.0,
    prior_mean: Annotated[PriorMean, typer.Option(help="Mean w₀ of that prior.")] = PriorMean.INITIAL,
    prior: Annotated[float | None, typer.Option(help="β of the augmentation's prior. Default: the run's.")] = None,
    draws: Annotated[int, typer.Option(help="Transforms drawn for each training image.")] = 8,
    data: Data = DEFAULT_DATA,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Evaluate the PAC-Bayes bound of SCALE for one run, term by term, and say whether it is useful."""
    from augbench.results.studies.bound_of_run import pac_bayes_bound

    found = pac_bayes_bound(
        RunFolder(run),
        Assumptions(lipschitz, loss_range, delta, prior_deviation, prior_mean, prior),
        data=data_folder(data),
        device=choose_device(device),
        draws=draws,
    )
    if as_json:
        print_json(found.as_dict())
        return
    console = new_console()
    console.print(_table(found))
    console.print(_chosen(found), highlight=False)
    console.print(f"\n{found.summary()}", highlight=False)


def _chosen(found: PacBayesBound) -> str:
    """Name every choice in one sentence, so that the numbers can be reproduced."""
    chosen, measured = found.assumptions, found.measured
    lower, upper = chosen.loss_range
    mean = "the weights at the start" if chosen.prior_mean is PriorMean.INITIAL else "0"
    return (
        f"With L = {chosen.lipschitz:g}, [a, b] = [{lower:g}, {upper:g}], δ = {chosen.delta:g}, s = "
        f"{chosen.prior_deviation:g}, w₀ = {mean}, β = {chosen.prior:g}, {measured.draws} draws for each of n = "
        f"{measured.images:,} images, p = {measured.weights:,} weights, σ = {found.posterior_deviation:.4g}."
    )


def _table(found: PacBayesBound) -> Table:
    rows = {
        "empirical risk": ("R_TRM,n", found.empirical_risk),
        "distance of the weights": ("‖w−w₀‖²/(2s²√n)", found.distance),
        "augmentation": ("Reg(θ)/√n", found.augmentation),
        "spread of the weights": ("(p·log(s/σ) − p/2 + p·σ²/(2s²))/√n", found.spread),
        "confidence": ("log(1/δ)/√n", found.confidence),
        "concentration": ("(b−a)²/(8√n)", found.concentration),
        "smoothing": ("2L√p·σ", found.smoothing),
    }
    table = Table("term", "formula", show_footer=True)
    table.columns[0].footer = "sum"
    table.add_column("value", justify="right", footer=f"{found.total:.6g}")
    for name, (formula, value) in rows.items():
        table.add_row(name, formula, f"{value:.6g}")
    return table
