"""`augbench probe`: how accuracy changes as one transform of the test images grows."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, DecimalException
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from augbench.bench.commands.corruptions import CORRUPTED, probe_corruptions
from augbench.bench.commands.options import DEFAULT_DATA, Data, Device, data_folder
from augbench.bench.commands.outside import OUTSIDE, check_against, probe_outside
from augbench.bench.commands.overlap import OVERLAP, probe_overlaps
from augbench.bench.commands.plain import new_console
from augbench.bench.commands.screen import progress_bars
from augbench.bench.common.errors import UserError, one_of, shortened
from augbench.bench.common.files import make_folder
from augbench.bench.experiment.catalogues import datasets
from augbench.bench.training.probe_kinds import KINDS, ProbeKind
from augbench.bench.training.provenance import choose_device

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from augbench.results.studies.probes import FinishedRun


OF_OWN_IMAGES = (OUTSIDE, OVERLAP)
WITHOUT_VALUES = (*CORRUPTED, *OF_OWN_IMAGES)
MOST_VALUES = 1000
MOST_DRAWS = 1024


def probe(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or output folders with all their finished runs.")],
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    kind: Annotated[
        list[str],
        typer.Option(
            help=f"Changes of the test images: {', '.join(KINDS)}; {', '.join(CORRUPTED)}, as in CIFAR-10-C and "
            f"CIFAR-10-C̄; {OVERLAP}, distances of learners to these; {OUTSIDE}, images of other data sets. Can be "
            "repeated."
        ),
    ] = ["rotation"],  # noqa: B006 - typer copies it
    values: Annotated[
        list[str] | None,
        typer.Option(
            help="Degrees, factors or shear coefficients, as from:to:step (-90:90:15) or 0,10,20; once per --kind. "
            "Default: the full circle, half to double, or -1 to 1."
        ),
    ] = None,
    draws: Annotated[int, typer.Option(help="Test-time draws from each run's own policy; 0: none.")] = 0,
    on: Annotated[
        str | None,
        typer.Option(
            help="Data set whose test images are transformed. Default: each run's own. Data sets that rotate their "
            "images, such as rotmnist, give the unrotated ones."
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Data set with other classes, for --kind {OUTSIDE}; one of your own by the name that preparing it "
            "has printed. Can be repeated."
        ),
    ] = None,
    data: Data = DEFAULT_DATA,
    device: Device = "auto",
) -> None:
    """Measure finished runs on rotated, scaled, sheared or corrupted test images, or against those of other data."""
    from augbench.results.studies.probes import finished_runs

    corrupted, asked = [name for name in kind if name in CORRUPTED], _asked(kind, values or [])
    check_against(kind, against or [])
    _check_images(kind, draws, on)
    root, here = data_folder(data), choose_device(device)
    found, console = finished_runs(runs), new_console()
    make_folder(out)
    for name in corrupted:
        probe_corruptions(console, found, name, out, draws=draws, data_root=root, device=here, on=on)
    if against:
        probe_outside(console, found, against, out, data_root=root, device=here)
    if OVERLAP in kind:
        probe_overlaps(console, found, out, data_root=root, device=here)
    if asked:
        _probe_transforms(console, found, asked, out, draws=draws, data_root=root, device=here, on=on)


def _check_images(kinds: Sequence[str], draws: int, on: str | None) -> None:
    """Check which images are asked for.

    Raises:
        UserError: If the draws are out of range, a kind is given what it does not take, or there is no such data set.
    """
    if not 0 <= draws <= MOST_DRAWS:
        raise UserError(f"--draws must be from 0 to {MOST_DRAWS}, not {draws}.")
    if (own := [name for name in kinds if name in OF_OWN_IMAGES]) and (draws or on is not None):
        raise UserError(
            f"--kind {own[0]} takes neither --draws nor --on: it is about the run's own test images, without test-time "
            "draws. Omit them, or give the other kinds in a command of their own."
        )
    if on is not None:
        datasets().get(on)


def _probe_transforms(
    console: Console,
    runs: "list[FinishedRun]",
    asked: Mapping[str, Sequence[float]],
    out: Path,
    *,
    draws: int,
    data_root: Path,
    device: "torch.device",
    on: str | None,
) -> None:
    """Measure runs on transformed test images, show the tables and write the files; arguments as `probe_runs`."""
    from augbench.results.studies.probes import probe_runs, summarise_probe, write_probe

    with_identity = {name: sorted({*taken, KINDS[name].identity}) for name, taken in asked.items()}
    with progress_bars(console) as progress:
        task = progress.add_task("transforms", total=len(runs) * sum(map(len, with_identity.values())))
        frame = probe_runs(
            runs,
            with_identity,
            draws=draws,
            data_root=data_root,
            device=device,
            on=on,
            after_each=lambda: progress.advance(task),
        )
    for name, taken in asked.items():
        for table in _tables(summarise_probe(frame, KINDS[name], taken), KINDS[name], draws, on):
            console.print(table)
        for path in write_probe(frame[(frame["kind"] == name) & frame["value"].isin(taken)], KINDS[name], out):
            typer.echo(str(path))


def _asked(kinds: Sequence[str], texts: Sequence[str]) -> dict[str, list[float]]:
    """Return the values by name of the kind, without kinds that have none.

    Raises:
        UserError: If a kind is unknown or given twice, or values do not fit it.
    """
    for name in kinds:
        if name not in (*KINDS, *WITHOUT_VALUES):
            raise UserError(f"--kind: {one_of('kind of transforms', name, (*KINDS, *WITHOUT_VALUES))}")
    if len(set(kinds)) < len(kinds):
        raise UserError(f"--kind {' --kind '.join(kinds)} names a kind twice. Give it once, with all its values.")
    if texts and (without := [name for name in kinds if name in WITHOUT_VALUES]):
        reason = ": every corruption has the severities 1 to 5" if without[0] in CORRUPTED else ""
        raise UserError(
            f"--kind {without[0]} takes no --values{reason}. Omit --values, or give the other kinds in a command of "
            "their own."
        )
    if not texts:
        return {name: list(KINDS[name].usual) for name in kinds if name not in WITHOUT_VALUES}
    if len(texts) != len(kinds):
        raise UserError(
            f"--values is given {len(texts)} times for these kinds: {', '.join(kinds)}. Give --values once for each "
            "--kind, in the same order, or not at all."
        )
    return {name: read_values(text, KINDS[name]) for name, text in zip(kinds, texts, strict=True)}


def read_values(text: str, kind: ProbeKind) -> list[float]:
    """Read the parameters of transforms.

    Args:
        text: Numbers and ranges `from:to:step`, separated by commas; a range includes its end if a step meets it.
        kind: The kind of transform.

    Returns:
        The numbers, each once, ascending.

    Raises:
        UserError: If they cannot be read, are too many, or are out of the kind's range.
    """
    numbers: set[float] = set()
    for part in text.split(","):
        numbers |= set(_numbers(part, text, kind))
        if len(numbers) > MOST_VALUES:
            raise _too_many(text)
    return sorted(numbers)


def _numbers(part: str, text: str, kind: ProbeKind) -> list[float]:
    """Read a number or a range, in decimal numbers: ten steps of 0.1 make exactly 1."""
    try:
        ends = [Decimal(number) for number in part.split(":")]
    except DecimalException:
        raise _unreadable(text, f"{shortened(part)!r} is no number and no range") from None
    if len(ends) not in (1, 3):
        raise _unreadable(text, f"{shortened(part)!r} is no number and no range")
    for number in ends[:2]:
        if not (number.is_finite() and kind.lowest <= float(number) <= kind.highest):
            raise UserError(
                f"--values {shortened(text)!r}: {number} is out of range for {kind.name}. Give {kind.unit} from "
                f"{kind.lowest:g} to {kind.highest:g}."
            )
    if len(ends) == 1:
        return [float(ends[0])]
    first, last, step = ends
    if not (step.is_finite() and step > 0 and first <= last):
        raise _unreadable(text, f"{shortened(part)!r} needs a positive step and a first number up to the second")
    if step > last - first:  # it may even be too large to be multiplied
        return [float(first)]
    if (last - first) > step * MOST_VALUES:
        raise _too_many(text)
    return [float(first + index * step) for index in range(int((last - first) / step) + 1)]


def _unreadable(text: str, reason: str) -> UserError:
    return UserError(
        f"--values {shortened(text)!r} cannot be read: {reason}. Give numbers such as 0,10,20, or from:to:step with a "
        "positive step, such as -90:90:15."
    )


def _too_many(text: str) -> UserError:
    return UserError(
        f"--values {shortened(text)!r} has more than {MOST_VALUES} values. Choose a larger step or a smaller range."
    )


def _tables(summary: "pd.DataFrame", kind: ProbeKind, draws: int, on: str | None) -> Iterator[Table]:
    """Make the tables of accuracies in percent: one for each data set, with a row for each learner."""
    sign = "°" if kind.unit == "degrees" else ""
    details = f", averaged over {draws} test-time draws where there is a policy" if draws else ""
    details += f", on the test images of {on}" if on else ""
    for comparison, rows in summary.groupby("comparison", sort=False):
        table = Table(title=f"{comparison}, {kind.name}: accuracy (%){details}", title_justify="left")
        table.add_column("method", overflow="fold")
        for heading in ("seeds", "at identity", "mean", "worst", "at"):
            table.add_column(heading, justify="right")
        for row in rows.to_dict("records"):
            percents = [f"{100 * row[name]:.1f}" for name in ("identity", "mean", "worst")]
            table.add_row(row["label"], str(row["seeds"]), *percents, f"{row['worst_value']:g}{sign}")
        yield table
