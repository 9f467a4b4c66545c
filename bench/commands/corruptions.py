"""What `augbench probe --kind corruptions` computes and shows."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from augbench.bench.commands.screen import progress_bars

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from augbench.results.studies.corruption_probe import CorruptionProbe
    from augbench.results.studies.probes import FinishedRun

CORRUPTED = "corruptions"
"""The kind, beside those of transforms."""


def probe_corruptions(
    console: Console,
    runs: "list[FinishedRun]",
    out: Path,
    *,
    draws: int,
    data_root: Path,
    device: "torch.device",
    on: str | None,
) -> None:
    """Score runs on corrupted test images, show the tables and write the files; arguments as `probe_corrupted`."""
    from augbench.bench.augmentation.corruptions.corrupt import CORRUPTIONS, SEVERITIES
    from augbench.results.studies.corruption_probe import probe_corrupted, write_corruptions

    with progress_bars(console) as progress:
        task = progress.add_task(CORRUPTED, total=len(runs) * len(CORRUPTIONS) * len(SEVERITIES))
        probe = probe_corrupted(
            runs,
            draws=draws,
            data_root=data_root,
            device=device,
            on=on,
            after_each=lambda: progress.advance(task),
        )
    details = f", averaged over {draws} test-time draws where there is a policy" if draws else ""
    details += f", on the test images of {on}" if on else ""
    for table in _tables(probe, details):
        console.print(table)
    for path in write_corruptions(probe, out):
        typer.echo(str(path))


def _tables(probe: "CorruptionProbe", details: str) -> Iterator[Table]:
    """Make two tables for each data set: a row for each learner, and a row for each corruption."""
    from augbench.results.studies.corruption_probe import summarise_corruptions

    for comparison, rows in summarise_corruptions(probe).groupby("comparison", sort=False):
        yield _summary_table(f"{comparison}, recomputed corruptions{details}", rows)
        yield _corruption_table(
            f"{comparison}: accuracy (%) over severities 1 to 5{details}",
            probe.frame[probe.frame["comparison"] == comparison],
        )


def _summary_table(title: str, rows: "pd.DataFrame") -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("method", overflow="fold")
    for heading in ("seeds", "clean (%)", "cA (%)", "95 % interval", "cNLL", "cCE (%)", "mCE (%)"):
        table.add_column(heading, justify="right")
    for row in rows.astype(object).to_dict("records"):
        percents = {name: _percent(row[name]) for name in ("clean", "accuracy", "low", "high", "ece", "mce")}
        interval = f"{percents['low']}…{percents['high']}" if row["seeds"] > 1 else "–"
        cells = (percents["clean"], percents["accuracy"], interval, f"{row['nll']:.3f}")
        table.add_row(row["label"], str(row["seeds"]), *cells, percents["ece"], percents["mce"])
    return table


def _corruption_table(title: str, frame: "pd.DataFrame") -> Table:
    from augbench.bench.augmentation.corruptions.corrupt import CORRUPTIONS
    from augbench.results.studies.corruption_probe import accuracy_by_corruption

    accuracies = accuracy_by_corruption(frame)
    table = Table(title=title, title_justify="left")
    table.add_column("corruption")
    for label in accuracies.columns:
        table.add_column(str(label), justify="right", overflow="fold")
    for name, row in accuracies.iterrows():
        table.add_row(f"{name} (extra)" if CORRUPTIONS[str(name)].extra else str(name), *map(_percent, row))
    return table


def _percent(fraction: float | None) -> str:
    return "–" if fraction is None or math.isnan(fraction) else f"{100 * fraction:.1f}"
