"""Prepares data sets of one's own: reads, splits, brings into shape, writes and reports.

`prepare_own` is what commands call.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import write_json, write_text
from augbench.bench.common.plain_text import safe
from augbench.bench.common.wording import FEW_NAMES, counted, few_names
from augbench.bench.data.array_folder import (
    DamagedDataError,
    GrowingArray,
    Manifest,
    alone,
    array_file,
    check_arrays,
    map_arrays,
    put_in_place,
    work_folder,
    write_array,
    write_manifest,
)
from augbench.bench.data.dataset_checks import UnusableDataError, check_loaded
from augbench.bench.data.downloads import ProgressCallback, check_space
from augbench.bench.data.own.arrays import read_arrays
from augbench.bench.data.own.contact_sheet import SHEET, draw_sheet
from augbench.bench.data.own.examples import HELD_OUT, TEST, TRAIN, Examples, Unreadable
from augbench.bench.data.own.images import read_images
from augbench.bench.data.own.pixels import Recipe, read_all
from augbench.bench.data.own.report import REPORT, Report, Seen, make_report
from augbench.bench.data.own.settings import (
    DEFAULT_SIDE,
    TEST_SHARE,
    Kind,
    OwnSettings,
    existing,
    name_from,
)
from augbench.bench.data.own.splitting import grouped_test_mask, stratified_test_mask
from augbench.bench.data.own.stored import DIGITS, VERSION, content_checksum, own_folder, read_own_manifest
from augbench.bench.data.own.table import read_table
from augbench.bench.data.prepared import image_data

READERS: Mapping[Kind, Callable[[Path, OwnSettings], Examples]] = {
    "images": read_images,
    "arrays": read_arrays,
    "table": read_table,
}
IMAGES = {False: "train_images", True: "test_images"}


@dataclass(frozen=True)
class PreparedOwn:
    """A data set of one's own that is prepared.

    Attributes:
        prepared: Its name and the start of its checksum, such as `pets-1f3a9c0b2d4e`: the option of the data set `own`.
        folder: Where it is.
        report: What was found while it was prepared.
        was_there: Whether the same had been prepared before.
    """

    prepared: str
    folder: Path
    report: Report
    was_there: bool

    @property
    def sheet(self) -> Path:
        """The picture of a few images of each class."""
        return self.folder / SHEET

    @property
    def line(self) -> str:
        """What names it in a suite."""
        return f'{{ name = "own", options = {{ prepared = "{self.prepared}" }} }}'


def prepare_own(
    kind: Kind,
    path: Path,
    settings: OwnSettings,
    root: Path,
    progress: ProgressCallback,
    *,
    taken: Collection[str],
) -> PreparedOwn:
    """Turn images into a prepared data set below the folder of data sets.

    A kill at any moment leaves nothing that looks finished. If another process prepares a data set of the same name,
    this one waits for it.

    Args:
        kind: What `path` is: a folder of images, an archive of arrays, or a table.
        path: Where the images are; nothing is written there.
        settings: What the user chooses.
        root: Folder of data sets.
        progress: Is told how many images are read, in place of bytes.
        taken: Names of published data sets, which this one cannot have.

    Raises:
        UserError: If a setting is wrong, there are no usable images, some cannot be read, or the disk is full.
    """
    settings.check(kind)
    source = existing(path)
    name = settings.name or name_from(source)
    if name in taken:
        raise UserError(f"{name} is the name of a data set that augbench knows. Give another one with --name.")
    examples = _split(READERS[kind](source, settings), settings)
    recipe = _recipe(examples, settings)
    parent = own_folder(root)
    with alone(parent, name, progress), work_folder(parent, name) as work:
        result = work / "result"
        result.mkdir()
        check_space(parent, len(examples) * recipe.channels * recipe.side**2)
        seen, bad = _write_images(examples, recipe, result, progress)
        bad = [*examples.unreadable, *bad]
        if bad and not settings.skip_damaged:
            raise _unreadable(bad, parent / f"{name}-unreadable.txt", len(examples) + len(examples.unreadable))
        _check_complete(examples, seen)
        report = make_report(kind, str(source), _chosen(settings), examples, seen, recipe, bad=bad)
        manifest = _write_rest(name, source, examples, seen, report, result)
        prepared = f"{name}-{manifest.checksum.partition(':')[2][:DIGITS]}"
        was_there = _is_sound(prepared, root)
        if not was_there:
            put_in_place(result, parent / prepared)
        return PreparedOwn(prepared, parent / prepared, report, was_there)


def _split(examples: Examples, settings: OwnSettings) -> Examples:
    """Choose test images among those to train on, unless some are set apart already."""
    if (examples.parts == TEST).any():
        if settings.test_share is not None or examples.groups is not None:
            given = "--test-share" if settings.test_share is not None else "The option for groups"
            raise UserError(f"{given} has no use here: test images are set apart already. Leave it out.")
        _check_tested_classes(examples)
        return examples
    share, parts = settings.test_share or TEST_SHARE, examples.parts.copy()
    if examples.groups is None:
        choice = np.flatnonzero(parts == TRAIN)
        chosen = stratified_test_mask(examples.labels[choice], share, settings.seed)
    else:  # a group with held-out images stays whole
        choice = np.flatnonzero(~np.isin(examples.groups, examples.groups[parts == HELD_OUT]))
        chosen = grouped_test_mask(examples.labels[choice], examples.groups[choice], share, settings.seed)
    if not chosen.any():
        raise UserError("No class has two training images, so that none is left to test on. Add images.")
    parts[choice[chosen]] = TEST
    return replace(examples, parts=parts)


def _check_tested_classes(examples: Examples) -> None:
    trained = np.unique(examples.labels[examples.parts != TEST])
    unknown = np.setdiff1d(examples.labels, trained)
    if len(unknown):
        names = [examples.class_names[label] for label in unknown]
        raise UserError(
            f"There are test images, but no training image, of {few_names(names)}. A network cannot learn such a "
            "class. Correct the names, add training images, or leave it out with --leave-out."
        )


def _recipe(examples: Examples, settings: OwnSettings) -> Recipe:
    channels = 1 if settings.grey else examples.channels or 3
    return Recipe(settings.side or examples.side or DEFAULT_SIDE, settings.fit, channels)


def _write_images(
    examples: Examples, recipe: Recipe, folder: Path, progress: ProgressCallback
) -> tuple[Seen, list[Unreadable]]:
    """Read all images and write them as they come, those to train on and those to test on."""
    row = (recipe.channels, recipe.side, recipe.side)
    files = {tested: GrowingArray(folder, name, row) for tested, name in IMAGES.items()}
    seen, bad = Seen.of(len(examples)), []
    with closing(files[False]), closing(files[True]), closing(read_all(examples.contents(), recipe)) as ready:
        for index, pixels in enumerate(ready):
            if isinstance(pixels, str):
                bad.append(Unreadable(examples.name_of(index), pixels))
            else:
                files[bool(examples.parts[index] == TEST)].append(pixels.values)
                seen.note(index, pixels)
            progress.progress("Reading images", index + 1, len(examples))
    return seen, bad


def _unreadable(bad: list[Unreadable], full_list: Path, count: int) -> UserError:
    named = few_names([str(one) for one in bad])
    where = ""
    if len(bad) > FEW_NAMES:
        write_text(full_list, "".join(f"{safe(str(one))}\n" for one in bad))
        where = f" {full_list} lists all."
    return UserError(
        f"{counted(len(bad), 'image')} of {count:,} cannot be used: {named}.{where} Mend or delete them, or add "
        "--skip-damaged to go on without them. Nothing was prepared."
    )


def _check_complete(examples: Examples, seen: Seen) -> None:
    """Make sure that the images that could be read suffice."""
    parts, labels = examples.parts[seen.ready], examples.labels[seen.ready]
    lost = np.setdiff1d(np.arange(len(examples.class_names)), labels[parts != TEST])
    if len(lost):
        names = few_names([examples.class_names[label] for label in lost])
        raise UserError(
            f"No training image can be read of {names}. Add images, or leave the class out with --leave-out."
        )
    if not (parts == TEST).any():
        raise UserError("No test image can be read. Add images, or choose a larger --test-share.")


def _write_rest(name: str, source: Path, examples: Examples, seen: Seen, report: Report, folder: Path) -> Manifest:
    """Write labels, report, picture and, last, the manifest."""
    parts, labels = examples.parts[seen.ready], examples.labels[seen.ready]
    training = parts != TEST
    arrays: dict[str, NDArray[np.generic]] = {"train_labels": labels[training], "test_labels": labels[~training]}
    if (parts == HELD_OUT).any():
        arrays["held_out"] = parts[training] == HELD_OUT
    for array_name, array in arrays.items():
        write_array(folder, array_name, array)
    names = (*IMAGES.values(), *arrays)
    entries = {each: array_file(folder, each) for each in names}
    manifest = Manifest(
        name=name,
        version=VERSION,
        checksum=content_checksum(examples.class_names, entries),
        classes=len(examples.class_names),
        provenance=f"{name}, prepared from images of one's own",
        prepared=datetime.now(UTC).isoformat(timespec="seconds"),
        arrays=entries,
        class_names=examples.class_names,
    )
    data = image_data(map_arrays(folder, manifest), manifest.classes, manifest.provenance)
    try:
        check_loaded(name, data)
    except UnusableDataError as error:
        raise UserError(f"{source} cannot be used: {error.what}.") from None
    draw_sheet(data.train.images.numpy(), data.train.labels.numpy(), examples.class_names, folder / SHEET)
    write_json(folder / REPORT, report.model_dump(mode="json"))
    write_manifest(folder, manifest)
    return manifest


def _chosen(settings: OwnSettings) -> dict[str, str]:
    values = {entry.name: (getattr(settings, entry.name), entry.default) for entry in fields(settings)}
    return {key: str(value) for key, (value, default) in values.items() if value != default}


def _is_sound(prepared: str, root: Path) -> bool:
    folder = own_folder(root) / prepared
    if not folder.exists():
        return False
    try:
        read_own_manifest(prepared, root)
        check_arrays(folder)
    except DamagedDataError:
        return False
    return (folder / SHEET).is_file() and (folder / REPORT).is_file()
