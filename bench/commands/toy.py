"""`augbench toy`: why to learn an augmentation, shown on points of the plane."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from augbench.bench.commands.plain import new_console
from augbench.bench.commands.screen import progress_bars
from augbench.bench.common.errors import UserError
from augbench.bench.common.files import make_folder

if TYPE_CHECKING:
    from augbench.results.studies.toy import ToyResult, ToyRun


def toy(
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("augbench-toy"),
    seeds: Annotated[int, typer.Option(help="Trainings of each variant, with seeds 0, 1, …")] = 5,
) -> None:
    """Train on points with a planted rotation: with no augmentation, too much, and a learned amount."""
    import torch

    from augbench.results.studies.toy_files import write_toy

    if seeds < 1:
        raise UserError(f"--seeds must be at least 1, not {seeds}. Give the number of trainings of each variant.")
    make_folder(out)
    torch.set_num_threads(1)  # the network is too small for more, and sums depend on their number
    console = new_console()
    runs = _train_all(seeds, console)
    results = [run.result for run in runs]
    written = write_toy(results, {run.result.way: run for run in runs if run.result.seed == 0}, out)
    console.print(_table(results))
    for path in written:
        typer.echo(str(path))


def _train_all(seeds: int, console: Console) -> "list[ToyRun]":
    from augbench.results.studies.toy import Way, train

    runs = []
    with progress_bars(console) as progress:
        task = progress.add_task("trainings", total=seeds * len(Way))
        for seed in range(seeds):
            for way in Way:
                runs.append(train(way, seed))
                progress.advance(task)
    return runs


def _table(results: "Sequence[ToyResult]") -> Table:
    from augbench.results.studies.toy_files import harmless_summary, toy_summary

    count = len({result.seed for result in results})
    over = "1 seed" if count == 1 else f"{count} seeds, mean ± sd"
    table = Table(title=f"Points with a planted rotation of ±45° ({over})")
    table.add_column("way")
    for heading in ("test accuracy (%)", "π", "α (°)"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in toy_summary(results):
        table.add_row(*row)
    table.caption = f"Widest range that mixes no classes of the training points: {harmless_summary(results)}°"
    return table
