"""Prepares and verifies data sets with progress bars, for `augbench data`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import DownloadColumn, Progress, TaskID, TransferSpeedColumn
from rich.table import Table

from augbench.bench.commands.interrupts import INTERRUPTED
from augbench.bench.commands.options import data_folder
from augbench.bench.commands.screen import progress_bars, waiting
from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.data.array_folder import DamagedDataError, read_manifest
from augbench.bench.data.dataset import DatasetOptions, DatasetSource
from augbench.bench.data.dataset_checks import UnusableDataError, load_checked
from augbench.bench.data.downloads import ProgressCallback, RemoteFile, disk_errors, megabytes
from augbench.bench.data.prepared import FOLDER, NotPreparedError, PreparedSource
from augbench.bench.data.source_files import FileResolver, MissingFilesError
from augbench.bench.experiment.catalogues import dataset_and_options, datasets
from augbench.bench.experiment.suite import load_suite
from augbench.bench.registry.plugins import explaining


def prepare_datasets(names: list[str], suite: str | None, data: Path, given: Path | None, *, offline: bool) -> None:
    """Prepare data sets, and those that a suite needs, unless they are prepared already.

    Published files come from the folders `data` and `given`, or are downloaded to `data`.

    Raises:
        UserError: If there is no such data set or suite, or files are missing.
        typer.Exit: With status 130 after Ctrl-C.
    """
    if given is not None and not given.is_dir():
        raise UserError(f"--from {given} is not a folder. Give the folder that the files are in.")
    console = Console(stderr=True)
    sources = _named(names) | _of_suite(suite)
    if not sources:
        raise UserError("Name the data sets to prepare, or give --suite. `augbench list datasets` shows all.")
    try:
        with progress_bars(console, DownloadColumn(), TransferSpeedColumn()) as bars:
            resolver = FileResolver(data_folder(data), given, offline, _Progress(console, bars))
            _prepare(list(sources.values()), resolver, console)
    except KeyboardInterrupt:
        console.print("Stopped. The same command continues from here.")
        raise typer.Exit(INTERRUPTED) from None


def _prepare(sources: list[DatasetSource], resolver: FileResolver, console: Console) -> None:
    missing: list[RemoteFile] = []
    for source in sources:
        way_on = "Correct its `read`, then give the same command again."
        try:
            with explaining(f"The data set {source.name!r} cannot be prepared", way_on):
                folder = source.prepare(resolver)
        except MissingFilesError as error:
            missing += error.files
            continue
        said = f"ready in {folder}" if folder else "nothing to prepare: it comes with a package"
        console.print(f"{source.name}: {said}", markup=False, highlight=False, soft_wrap=True)
    if missing:  # of all data sets at once, so that one goes only once to where there is a network
        raise MissingFilesError(missing, resolver)


def _named(names: list[str]) -> dict[str, DatasetSource]:
    sources = {name: datasets().get(name)() for name in names}
    for source in sources.values():
        if source.base(source.options_type()) is not None:
            raise UserError(
                f"The data set {source.name!r} is made from another one whenever it is loaded. Prepare that one: "
                "`augbench data prepare NAME`, or everything that a suite needs: `augbench data prepare --suite SUITE`."
            )
    return sources


def _of_suite(suite: str | None) -> dict[str, DatasetSource]:
    if suite is None:
        return {}
    needed = {}
    for component in (spec.dataset for spec in load_suite(suite).specs()):
        made: tuple[DatasetSource, DatasetOptions] | None = dataset_and_options(component.name, component.all_settings)
        while made is not None:
            source, options = made
            made = source.base(options)
        needed[source.name] = source
    return needed


class _Progress(ProgressCallback):
    """Shows a bar for each download, and prints messages."""

    def __init__(self, console: Console, bars: Progress) -> None:
        self.console = console
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}

    def progress(self, what: str, done: int, total: int | None) -> None:
        if what not in self.tasks:
            self.tasks[what] = self.bars.add_task(what)
        self.bars.update(self.tasks[what], completed=done, total=total)

    def message(self, text: str) -> None:
        self.console.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Verified:
    """A prepared data set after all its bytes were compared with the manifest.

    Attributes:
        problem: What is damaged; empty if nothing is. The attributes below are only known if nothing is.
        train: Number of training images.
        test: Number of test images.
        shape: Channels, height and width of an image.
        mean: Mean of each channel of the training images, in [0, 1].
        deviation: Standard deviation of each channel of the training images, in [0, 1].
        size: Size on disk in bytes.
    """

    name: str
    folder: str
    problem: str = ""
    train: int = 0
    test: int = 0
    shape: tuple[int, ...] = ()
    classes: int = 0
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    size: int = 0


def verify_datasets(names: list[str], data: Path, *, as_json: bool) -> None:
    """Compare prepared data sets, by default all, with their manifests, and print what there is.

    Raises:
        UserError: If one is damaged, or nothing is prepared.
    """
    root = data_folder(data)
    with disk_errors(root):
        sources = _prepared(names, root)
        with waiting("Verifying …"):
            found = [_verified(source, root) for source in sources]
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=1))
    else:
        console = Console()
        console.print(_table(found))
        for one in found:
            console.print(f"{one.name}: {one.folder}", markup=False, highlight=False, soft_wrap=True)
    wrong = [one for one in found if one.problem]
    if wrong:
        problems = ". ".join(f"{one.name}: {one.problem}" for one in wrong)
        again = to_paste("data", "prepare", *(one.name for one in wrong), "--data", root)
        raise UserError(
            f"{len(wrong)} of {len(found)} prepared data sets damaged. {problems}. Prepare again: `{again}`."
        )


def _prepared(names: list[str], root: Path) -> list[PreparedSource]:
    """Return the named data sets, or all that are prepared."""
    if not names:
        return _all_prepared(root)
    named = [datasets().get(name)() for name in dict.fromkeys(names)]
    wanted = [source for source in named if isinstance(source, PreparedSource)]
    if len(wanted) < len(named):
        others = [source.name for source in named if source not in wanted]
        raise UserError(f"Nothing is prepared for {', '.join(others)}, so there is nothing to verify.")
    absent = [source for source in wanted if not source.folder(root).exists()]
    if absent:
        raise NotPreparedError(absent, root)
    return wanted


def _all_prepared(root: Path) -> list[PreparedSource]:
    kinds = [entry.target for entry in datasets() if issubclass(entry.target, PreparedSource)]
    found = [source for source in (kind() for kind in kinds) if source.folder(root).exists()]
    if found:
        return found
    unknown = sorted(path.name for path in (root / FOLDER).glob("[!.]*-v*"))
    others = f" It has {', '.join(unknown)}, of unknown data sets. Is a --plugin missing?" if unknown else ""
    raise UserError(
        f"No known data set is prepared in {root / FOLDER}.{others} Prepare one: `augbench data prepare NAME`."
    )


def _verified(source: PreparedSource, root: Path) -> Verified:
    folder, options = source.folder(root), source.options_type()
    try:
        source.check(options, root)
        data = load_checked(source, options, root)
    except (DamagedDataError, UnusableDataError) as error:
        return Verified(source.name, str(folder), error.what)
    mean, deviation = (tuple(values.tolist()) for values in data.mean_and_deviation)
    return Verified(
        source.name,
        str(folder),
        train=len(data.train),
        test=len(data.test),
        shape=tuple(data.train.images.shape[1:]),
        classes=data.classes,
        mean=mean,
        deviation=deviation,
        size=read_manifest(folder).size,
    )


def _table(found: list[Verified]) -> Table:
    headings = ("data set", "train", "test", "shape", "classes", "mean", "deviation", "size", "")
    table = Table(*headings, padding=0)
    table.columns[0].no_wrap = table.columns[3].no_wrap = True
    for one in found:
        if one.problem:
            table.add_row(one.name, *[""] * 7, "[bold red]damaged")
            continue
        mean, deviation = (" ".join(f"{value:.4f}" for value in values) for values in (one.mean, one.deviation))
        shape = "×".join(map(str, one.shape))
        counts = f"{one.train:,}", f"{one.test:,}"
        table.add_row(one.name, *counts, shape, str(one.classes), mean, deviation, megabytes(one.size), "[green]ok")
    return table
