"""What `augbench probe --kind overlap` computes and shows."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from augbench.bench.commands.screen import progress_bars
from augbench.bench.common.wording import few_names

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from augbench.results.studies.probes import FinishedRun

OVERLAP = "overlap"
"""The kind, beside those of transforms."""


def probe_overlaps(
    console: Console, runs: "list[FinishedRun]", out: Path, *, data_root: Path, device: "torch.device"
) -> None:
    """Measure how near learners come to corruptions, show it and write the file; arguments as `probe_overlap`."""
    from augbench.results.model.csv_text import write_csv
    from augbench.results.model.overlap import PROBE_FILE
    from augbench.results.studies.overlap_probe import probe_overlap

    with progress_bars(console) as progress:
        task = progress.add_task(OVERLAP, total=len(runs))
        probe = probe_overlap(runs, data_root=data_root, device=device, after_each=lambda: progress.advance(task))
    for table in _tables(probe.frame):
        console.print(table)
    if probe.without:
        console.print(
            f"Without distances, since they mix the images of a batch: {few_names(probe.without)}.", markup=False
        )
    typer.echo(str(write_csv(probe.frame, out / PROBE_FILE)))


def _tables(frame: "pd.DataFrame") -> Iterator[Table]:
    """Make a table for each data set and set of corruptions: mean distance and the nearest corruption by learner."""
    from augbench.results.model.overlap import mean_distances, relative_distances
    from augbench.results.model.table import mean_cell

    relative = relative_distances(frame)
    means = mean_distances(relative).groupby(["comparison", "corruptions", "label"])["relative"]
    for (comparison, name), rows in relative.groupby(["comparison", "corruptions"], sort=False):
        title = f"{comparison}: smallest distance to {name}, of that of unchanged images (%)"
        table = Table(title=title, title_justify="left")
        table.add_column("method", overflow="fold")
        for heading in ("seeds", "mean", "nearest", "corruption"):
            table.add_column(heading, justify="right")
        for label, inside in rows.groupby("label", sort=False):
            by_corruption = inside.groupby("corruption")["relative"].mean()
            mean = mean_cell(means.get_group((comparison, name, label)), 100, 1).text
            nearest = f"{100 * by_corruption.min():.1f}"
            table.add_row(str(label), str(inside["seed"].nunique()), mean, nearest, str(by_corruption.idxmin()))
        yield table
