"""What `augbench probe --kind ood` computes and shows."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from augbench.bench.commands.screen import progress_bars
from augbench.bench.common.errors import UserError
from augbench.bench.experiment.catalogues import datasets

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from augbench.results.studies.probes import FinishedRun

OUTSIDE = "ood"
"""The kind, beside those of transforms."""


def check_against(kinds: Sequence[str], against: Sequence[str]) -> None:
    """Check what was given with --against.

    Raises:
        UserError: If the kind `ood` lacks it, another kind has it, or there is no such data set.
    """
    from augbench.bench.data.own.stored import PREPARED  # imports torch, which --help need not wait for

    if OUTSIDE not in kinds:
        if against:
            raise UserError(f"--against names data sets for --kind {OUTSIDE}. Add --kind {OUTSIDE}, or omit --against.")
        return
    if not against:
        raise UserError(
            f"--kind {OUTSIDE} needs --against DATASET: a data set with other classes, and images of the same size and "
            "channels, such as --against fashionmnist for digits or --against svhn for cifar10."
        )
    for name in against:
        if not PREPARED.fullmatch(name):
            datasets().get(name)
    if len(set(against)) < len(against):
        raise UserError(f"--against names a data set twice: {', '.join(against)}. Give each once.")


def probe_outside(
    console: Console,
    runs: "list[FinishedRun]",
    against: Sequence[str],
    out: Path,
    *,
    data_root: Path,
    device: "torch.device",
) -> None:
    """Score runs on images of other data sets, show the tables and write the file; arguments as `probe_ood`."""
    from augbench.results.model.csv_text import write_csv
    from augbench.results.model.outside import PROBE_FILE
    from augbench.results.studies.ood_probe import probe_ood

    with progress_bars(console) as progress:
        task = progress.add_task(OUTSIDE, total=len(runs) * len(against))
        frame = probe_ood(runs, against, data_root=data_root, device=device, after_each=lambda: progress.advance(task))
    for table in _tables(frame):
        console.print(table)
    typer.echo(str(write_csv(frame, out / PROBE_FILE)))


def _tables(frame: "pd.DataFrame") -> Iterator[Table]:
    """Make a table for each data set and other one, with a row for each learner: mean ± deviation over seeds."""
    from augbench.results.model.outside import MEASURES, SCORES
    from augbench.results.model.table import mean_cell

    for (comparison, against), rows in frame.groupby(["comparison", "against"], sort=False):
        title = f"{comparison} against images of {against}"
        table = Table(title=title, title_justify="left")
        table.add_column("method", overflow="fold")
        table.add_column("seeds", justify="right")
        for score in SCORES:
            for measure in MEASURES:
                table.add_column(f"{measure.upper()} of {score} (%)", justify="right")
        for label, inside in rows.groupby("label", sort=False):
            by_score = {score: inside[inside["score"] == score] for score in SCORES}
            cells = [mean_cell(by_score[score][measure], 100, 1).text for score in SCORES for measure in MEASURES]
            table.add_row(str(label), str(inside["seed"].nunique()), *cells)
        yield table
