"""What `augbench probe --kind corruptions` and `--kind corruptions-bar` compute and show."""

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

CORRUPTED = ("corruptions", "corruptions-bar")
"""The kinds beside those of transforms."""

MEASURES = {"accuracy": "cA (%)", "nll": "cNLL", "ece": "cCE (%)", "mce": "mCE (%)"}


def probe_corruptions(
    console: Console,
    runs: "list[FinishedRun]",
    name: str,
    out: Path,
    *,
    draws: int,
    data_root: Path,
    device: "torch.device",
    on: str | None,
) -> None:
    """Score runs on corrupted test images, show the tables and write the files; arguments as `probe_corrupted`."""
    from augbench.results.studies.corruption_probe import probe_corrupted, write_corruptions

    with progress_bars(console) as progress:
        task = progress.add_task(name, total=len(runs))
        probe = probe_corrupted(
            runs,
            name,
            draws=draws,
            data_root=data_root,
            device=device,
            on=on,
            after_each=lambda share: progress.advance(task, share),
        )
    details = f", averaged over {draws} test-time draws where there is a policy" if draws else ""
    details += f", on the test images of {on}" if on else ""
    for table in _tables(probe, details):
        console.print(table)
    for path in write_corruptions(probe, out):
        typer.echo(str(path))


def _tables(probe: "CorruptionProbe", details: str) -> Iterator[Table]:
    """Make the tables of each data set: measures and their intervals by learner, and accuracy by corruption."""
    from augbench.results.model.corruptions import summarise_corruptions

    for comparison, rows in summarise_corruptions(probe.frame, probe.right).groupby("comparison", sort=False):
        name = str(comparison)
        images, kind = rows[["images", "corruptions"]].iloc[0]
        yield _summary_table(f"{name}, {images} {kind}{details}", rows)
        if (repeated := rows[rows["seeds"] > 1]).size:
            yield _interval_table(f"{name}: 95 % intervals{details}", repeated)
        yield _corruption_table(
            f"{name}: accuracy (%) over severities 1 to 5{details}",
            probe.frame[probe.frame["comparison"] == comparison],
        )


def _summary_table(title: str, rows: "pd.DataFrame") -> Table:
    table = _table_of_methods(title, "seeds", "clean (%)", *MEASURES.values())
    for row in rows.astype(object).to_dict("records"):
        measures = (_written(measure, row[measure]) for measure in MEASURES)
        table.add_row(row["label"], str(row["seeds"]), _percent(row["clean"]), *measures)
    return table


def _interval_table(title: str, rows: "pd.DataFrame") -> Table:
    table = _table_of_methods(title, *MEASURES.values())
    for row in rows.to_dict("records"):
        ends = ([_written(measure, row[f"{measure}_{end}"]) for end in ("low", "high")] for measure in MEASURES)
        table.add_row(row["label"], *("…".join(dict.fromkeys(pair)) for pair in ends))
    return table


def _table_of_methods(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("method", overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _written(measure: str, value: float) -> str:
    return f"{value:.3f}" if measure == "nll" else _percent(value)


def _corruption_table(title: str, frame: "pd.DataFrame") -> Table:
    from augbench.results.model.corruptions import accuracy_by_corruption

    accuracies, extra = accuracy_by_corruption(frame), set(frame.loc[frame["extra"], "corruption"])
    table = Table(title=title, title_justify="left")
    table.add_column("corruption")
    for label in accuracies.columns:
        table.add_column(str(label), justify="right", overflow="fold")
    for name, row in accuracies.iterrows():
        table.add_row(f"{name} (extra)" if name in extra else str(name), *map(_percent, row))
    return table


def _percent(fraction: float) -> str:
    return "–" if math.isnan(fraction) else f"{100 * fraction:.1f}"
