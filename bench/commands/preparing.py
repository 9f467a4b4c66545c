"""Prepares and verifies data sets with progress bars, for `augbench data`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import DownloadColumn, Progress, TaskID, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from augbench.bench.commands.interrupts import INTERRUPTED
from augbench.bench.commands.options import data_folder
from augbench.bench.commands.plain import new_console
from augbench.bench.commands.screen import progress_bars, waiting
from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.data.array_folder import DamagedDataError, again, read_manifest
from augbench.bench.data.dataset import DatasetOptions, DatasetSource
from augbench.bench.data.dataset_checks import UnusableDataError, load_checked
from augbench.bench.data.downloads import ProgressCallback, RemoteFile, disk_errors, megabytes
from augbench.bench.data.original_corruptions import prepare_originals
from augbench.bench.data.own.settings import OWN
from augbench.bench.data.own.stored import name_of, own_folder, prepared_own
from augbench.bench.data.prepared import FOLDER, NotPreparedError, PreparedSource
from augbench.bench.data.source_files import FileResolver, MissingFilesError
from augbench.bench.experiment.catalogues import dataset_and_options, datasets
from augbench.bench.experiment.suite import load_suite
from augbench.bench.registry.plugins import explaining

CORRUPTED_DATASET = "cifar10"  # of which corrupted test images are published


def prepare_datasets(names: list[str], suite: str | None, data: Path, given: Path | None, *, offline: bool) -> None:
    """Prepare data sets, and those that a suite needs, unless they are prepared already.

    Published files come from the folders `data` and `given`, or are downloaded to `data`.

    Raises:
        UserError: If there is no such data set or suite, or files are missing.
        typer.Exit: With status 130 after Ctrl-C.
    """
    if given is not None and not given.is_dir():
        raise UserError(f"--from {given} is not a folder. Give the folder that the files are in.")
    console = new_console(errors=True)
    root = data_folder(data)
    sources = _named(names) | _of_suite(suite, root)
    if not sources and suite is None:
        raise UserError("Name the data sets to prepare, or give --suite. `augbench list datasets` shows all.")
    try:
        with progress_bars(console, DownloadColumn(), TransferSpeedColumn()) as bars:
            resolver = FileResolver(root, given, offline, BarsForProgress(console, bars))
            _prepare(list(sources.values()), resolver, console)
    except KeyboardInterrupt:
        console.print("Stopped. The same command continues from here.")
        raise typer.Exit(INTERRUPTED) from None


def prepare_original_arrays(name: str, paths: Sequence[str], data: Path) -> None:
    """Take the published arrays of a set of corruptions of CIFAR-10.

    Raises:
        UserError: If there is not one folder, CIFAR-10 is not prepared, or the arrays do not fit.
        typer.Exit: With status 130 after Ctrl-C.
    """
    if len(paths) != 1:
        raise UserError(
            f"`augbench data prepare {name}` needs one path after it, the folder of the published arrays; "
            f"{len(paths) or 'none'} given."
        )
    console, root = Console(stderr=True), data_folder(data)
    test = load_checked(*dataset_and_options(CORRUPTED_DATASET, {}), root).test
    try:
        with progress_bars(console) as bars:
            folder = prepare_originals(name, Path(paths[0]), test, root, BarsForProgress(console, bars))
    except KeyboardInterrupt:
        console.print("Stopped. Nothing was prepared.")
        raise typer.Exit(INTERRUPTED) from None
    console.print(f"{name}: ready in {folder}", markup=False, highlight=False, soft_wrap=True)


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
        console.print(f"{source.name}: {said}", highlight=False, soft_wrap=True)
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


def _of_suite(suite: str | None, root: Path) -> dict[str, DatasetSource]:
    """Return what a suite needs; data sets of one's own must be there already."""
    if suite is None:
        return {}
    needed = {}
    for component in (spec.dataset for spec in load_suite(suite).specs()):
        made: tuple[DatasetSource, DatasetOptions] | None = dataset_and_options(component.name, component.all_settings)
        while made is not None:
            source, options = made
            made = source.base(options)
        if source.name == OWN:
            source.check(options, root)
            continue
        needed[source.name] = source
    return needed


class BarsForProgress(ProgressCallback):
    """Shows a bar for each download, and prints messages."""

    def __init__(self, console: Console, bars: Progress) -> None:
        self.console = console
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}

    def progress(self, what: str, done: int, total: int | None) -> None:
        """Move the bar of a file or of images."""
        if what not in self.tasks:
            self.tasks[what] = self.bars.add_task(what)
        self.bars.update(self.tasks[what], completed=done, total=total)

    def message(self, text: str) -> None:
        """Print a sentence."""
        self.console.print(text, style="dim", highlight=False, soft_wrap=True)


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


@dataclass(frozen=True)
class _Target:
    """A prepared data set to verify."""

    name: str
    folder: Path
    source: DatasetSource
    options: DatasetOptions


def verify_datasets(names: list[str], data: Path, *, as_json: bool) -> None:
    """Compare prepared data sets, by default all, with their manifests, and print what there is.

    Raises:
        UserError: If one is damaged, or nothing is prepared.
    """
    root = data_folder(data)
    with disk_errors(root):
        targets = _targets(names, root)
        with waiting("Verifying …"):
            found = [_verified(target, root) for target in targets]
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=1))
    else:
        console = new_console()
        console.print(_table(found))
        for one in found:
            console.print(f"{one.name}: {one.folder}", highlight=False, soft_wrap=True)
    wrong = [(target, one) for target, one in zip(targets, found, strict=True) if one.problem]
    if wrong:
        problems = ". ".join(f"{one.name}: {one.problem}" for _, one in wrong)
        published = [one.name for target, one in wrong if target.source.name != OWN]
        ways = [f"`{to_paste('data', 'prepare', *published, '--data', root)}`"] if published else []
        ways += [again(target.folder) for target, _ in wrong if target.source.name == OWN]
        raise UserError(
            f"{len(wrong)} of {len(found)} prepared data sets damaged. {problems}. Prepare again: {'; '.join(ways)}."
        )


def _targets(names: list[str], root: Path) -> list[_Target]:
    """Return the named data sets, or all that are prepared."""
    own = [_own_target(prepared, root) for prepared in prepared_own(root)]
    if not names:
        return _all_published(root, others=bool(own)) + own
    chosen = [target for target in own if {OWN, target.name, name_of(target.name)} & set(names)]
    found = {OWN} | {name for target in chosen for name in (target.name, name_of(target.name))}
    if OWN in names and not own:
        raise UserError(f"No data set of your own is prepared in {root}. `augbench data prepare images PATH` does it.")
    return _named_targets([name for name in dict.fromkeys(names) if name not in found], root) + chosen


def _own_target(prepared: str, root: Path) -> _Target:
    source, options = dataset_and_options(OWN, {"prepared": prepared})
    return _Target(prepared, own_folder(root) / prepared, source, options)


def _named_targets(names: list[str], root: Path) -> list[_Target]:
    named = [datasets().get(name)() for name in names]
    wanted = [source for source in named if isinstance(source, PreparedSource)]
    if len(wanted) < len(named):
        others = [source.name for source in named if source not in wanted]
        raise UserError(f"Nothing is prepared for {', '.join(others)}, so there is nothing to verify.")
    absent = [source for source in wanted if not source.folder(root).exists()]
    if absent:
        raise NotPreparedError(absent, root)
    return [_target(source, root) for source in wanted]


def _target(source: PreparedSource, root: Path) -> _Target:
    return _Target(source.name, source.folder(root), source, source.options_type())


def _all_published(root: Path, *, others: bool) -> list[_Target]:
    kinds = [entry.target for entry in datasets() if issubclass(entry.target, PreparedSource)]
    found = [source for source in (kind() for kind in kinds) if source.folder(root).exists()]
    if found or others:
        return [_target(source, root) for source in found]
    unknown = sorted(path.name for path in (root / FOLDER).glob("[!.]*-v*"))
    more = f" It has {', '.join(unknown)}, of unknown data sets. Is a --plugin missing?" if unknown else ""
    raise UserError(
        f"No known data set is prepared in {root / FOLDER}.{more} Prepare one: `augbench data prepare NAME`."
    )


def _verified(target: _Target, root: Path) -> Verified:
    folder = str(target.folder)
    try:
        target.source.check(target.options, root)
        data = load_checked(target.source, target.options, root)
    except (DamagedDataError, UnusableDataError) as error:
        return Verified(target.name, folder, error.what)
    mean, deviation = (tuple(values.tolist()) for values in data.mean_and_deviation)
    return Verified(
        target.name,
        folder,
        train=len(data.train),
        test=len(data.test),
        shape=tuple(data.train.images.shape[1:]),
        classes=data.classes,
        mean=mean,
        deviation=deviation,
        size=read_manifest(target.folder).size,
    )


def _table(found: list[Verified]) -> Table:
    headings = ("data set", "train", "test", "shape", "classes", "mean", "deviation", "size", "")
    table = Table(*headings, padding=0)
    table.columns[0].no_wrap = table.columns[3].no_wrap = True
    for one in found:
        if one.problem:
            table.add_row(one.name, *[""] * 7, Text("damaged", "bold red"))
            continue
        mean, deviation = (" ".join(f"{value:.4f}" for value in values) for values in (one.mean, one.deviation))
        shape = "×".join(map(str, one.shape))
        counts = f"{one.train:,}", f"{one.test:,}"
        table.add_row(
            one.name, *counts, shape, str(one.classes), mean, deviation, megabytes(one.size), Text("ok", "green")
        )
    return table
