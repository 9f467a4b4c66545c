"""Data sets that are prepared once, as arrays that all processes map into memory."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from augbench.bench.common.errors import UnfitMachineError, UserError, to_paste
from augbench.bench.data.array_folder import (
    MANIFEST,
    DamagedDataError,
    Manifest,
    alone,
    check_arrays,
    map_arrays,
    put_in_place,
    read_manifest,
    refuse_link,
    work_folder,
    write_arrays,
)
from augbench.bench.data.dataset import DatasetOptions, DatasetSource, ImageData, Split, class_balanced_subset
from augbench.bench.data.dataset_checks import (
    NamedArray,
    UnusableDataError,
    check_arrays_fit,
    check_instance,
    check_loaded,
)
from augbench.bench.data.downloads import check_space, disk_errors
from augbench.bench.data.source_files import FileResolver, SourceFile

FOLDER = "prepared"  # below the folder of data sets
SUBSET_SEED = 0


@dataclass(frozen=True)
class Arrays:
    """The arrays of a data set.

    Attributes:
        train_images: uint8; (N, C, H, W).
        train_labels: int64; (N,).
        test_images: uint8; (M, C, H, W).
        test_labels: int64; (M,).
        held_out: Which training images the publishers hold out for validation; None if they do not say; bool; (N,).
        upright_test_images: Test images before the data set transformed them; None if it does not; uint8;
            (M, C, S, S) with S a multiple of H.
    """

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]
    held_out: NDArray[np.bool_] | None = None
    upright_test_images: NDArray[np.uint8] | None = None

    def by_name(self) -> dict[str, NDArray[np.generic]]:
        """Return the arrays that are not None."""
        return {name: array for name, array in vars(self).items() if array is not None}


REQUIRED = frozenset(entry.name for entry in fields(Arrays) if entry.default is MISSING)
"""Names of the arrays that every data set has."""


class PreparedOptions(DatasetOptions):
    """Options of every prepared data set."""

    train_images: int | None = Field(
        None,
        ge=1,
        description="training images, chosen by a fixed seed, class shares kept but no class lost; all by default",
    )


class PreparedSource(DatasetSource):
    """A data set that `augbench data prepare` turns into arrays below the folder of data sets.

    Attributes:
        classes: Number of classes.
        checksum: `combined_md5(sources())`, written out if computing it would import something slow.
        required: Names of the arrays without which a prepared folder counts as damaged.
    """

    classes: ClassVar[int]
    required: ClassVar[frozenset[str]] = REQUIRED
    options_type: ClassVar[type[DatasetOptions]] = PreparedOptions

    @classmethod
    @abstractmethod
    def sources(cls) -> tuple[SourceFile, ...]:
        """Return the files that it is read from."""

    @abstractmethod
    def read(self, files: Mapping[str, Path]) -> Arrays:
        """Read the source files.

        Args:
            files: The file of each source, by the source's `path`; their md5s have been checked.
        """

    def folder(self, root: Path) -> Path:
        """Return the folder of the arrays; its name has the version and the start of the checksum."""
        return root / FOLDER / f"{self.name}-v{self.version}-{self.checksum.partition(':')[2][:12]}"

    def prepare(self, resolver: FileResolver) -> Path:
        """Find or download the source files and write the arrays, unless they are there and sound.

        A kill at any moment leaves no folder that looks finished. If another process prepares the data set, this one
        waits for it.
        """
        folder, progress = self.folder(resolver.root), resolver.progress
        if self.is_sound(resolver.root):
            return folder  # which somebody else may have made where one must not write
        with alone(folder.parent, self.name, progress):
            if not self.is_sound(resolver.root):
                self._make(folder, resolver)
        return folder

    def _make(self, folder: Path, resolver: FileResolver) -> None:
        refuse_link(folder)
        with work_folder(folder.parent, self.name) as work:
            unpacked, result = work / "unpacked", work / "result"
            unpacked.mkdir()
            result.mkdir()
            files = resolver.provide(self.sources(), unpacked)
            resolver.progress.message(f"Preparing {self.name} …")
            arrays = self.read(files)
            check_instance(self.name, "read", "what `read` returns", arrays, Arrays)
            named = {name: NamedArray(self.name, name, value, np.ndarray) for name, value in vars(arrays).items()}
            check_arrays_fit(self.name, named, self.classes)
            check_space(folder.parent, sum(array.nbytes for array in arrays.by_name().values()))
            write_arrays(result, self._manifest(), arrays.by_name())
            put_in_place(result, folder)

    def _manifest(self) -> Manifest:
        published = dict.fromkeys(source.published.name for source in self.sources())
        return Manifest(
            name=self.name,
            version=self.version,
            checksum=self.checksum,
            classes=self.classes,
            provenance=f"{self.title}; made from {', '.join(published)}, {self.checksum}",
            prepared=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def load(self, options: DatasetOptions, root: Path) -> ImageData:
        """Map the arrays into memory, which processes share, and apply options, which may copy arrays.

        Raises:
            UserError: If the data set is not prepared, is damaged, or has too few images for the options.
        """
        return self.apply(options, self._whole(root))

    def apply(self, options: DatasetOptions, data: ImageData) -> ImageData:
        """Apply options to the data set as it was prepared."""
        return with_train_images(self.name, data, options.model_dump()["train_images"])

    def check(self, options: DatasetOptions, root: Path) -> None:
        """Make sure that the data set is prepared and sound, byte by byte."""
        self._checked(root)

    def is_sound(self, root: Path) -> bool:
        """Whether the data set is prepared, every byte of it is as it was written, and runs can use it."""
        with disk_errors(self.folder(root)):
            if not self.folder(root).exists():
                return False
        try:
            check_loaded(self.name, self._checked(root))
        except (DamagedDataError, UnusableDataError):
            return False
        return True

    def _checked(self, root: Path) -> ImageData:
        data = self._whole(root)
        with disk_errors(self.folder(root)):
            check_arrays(self.folder(root))
        return data

    def _whole(self, root: Path) -> ImageData:
        folder = self.folder(root)
        with disk_errors(folder):
            if not folder.exists():
                raise NotPreparedError([self], root)
            manifest = read_manifest(folder)
            if (manifest.name, manifest.version, manifest.checksum) != (self.name, self.version, self.checksum):
                raise DamagedDataError(folder, f"{MANIFEST} is that of another data set or version")
            if not manifest.arrays.keys() >= self.required:
                raise DamagedDataError(folder, f"{MANIFEST} does not have all arrays")
            arrays = map_arrays(folder, manifest)
        return image_data(arrays, self.classes, manifest.provenance)


def image_data(arrays: Mapping[str, Tensor], classes: int, provenance: str) -> ImageData:
    """Make a data set of arrays with the names in `Arrays`."""
    train = Split(arrays["train_images"], arrays["train_labels"])
    test = Split(arrays["test_images"], arrays["test_labels"])
    before = arrays.get("upright_test_images")
    upright = None if before is None else Split(before, test.labels)
    return ImageData(train, test, classes, provenance, held_out=arrays.get("held_out"), upright_test=upright)


def with_train_images(name: str, data: ImageData, count: int | None) -> ImageData:
    """Choose a number of training images; None leaves all.

    Raises:
        UserError: If there are fewer, or it is less than the number of classes.
    """
    if count is None:
        return data
    chosen = _chosen(name, "train", data.train, data.classes, count)
    held_out = None if data.held_out is None else data.held_out[chosen]
    return replace(data, train=data.train.subset(chosen), held_out=held_out)


def with_test_images(name: str, data: ImageData, count: int | None) -> ImageData:
    """Choose a number of test images, of data whose test images are not transformed; None leaves all.

    Raises:
        UserError: If there are fewer, or it is less than the number of classes.
    """
    if count is None:
        return data
    return replace(data, test=data.test.subset(_chosen(name, "test", data.test, data.classes, count)))


def _chosen(name: str, kind: str, images: Split, classes: int, count: int) -> Tensor:
    if not classes <= count <= len(images):
        which = "training" if kind == "train" else kind
        raise UserError(
            f"{kind}_images = {count} does not fit the data set {name!r}, which has {len(images)} {which} images "
            f"of {classes} classes. Choose a number from {classes} to {len(images)}, or leave it out."
        )
    return class_balanced_subset(images.labels, count, SUBSET_SEED)


class NotPreparedError(UnfitMachineError):
    """Data sets, `sources`, have not been prepared in `root`; one paragraph says how to prepare all of them."""

    def __init__(self, sources: Sequence[PreparedSource], root: Path) -> None:
        self.sources = tuple({source.name: source for source in sources}.values())
        self.root = root
        *others, last = (source.name for source in self.sources)
        s, are, them = ("s", "are", "them") if others else ("", "is", "it")
        names = f"{', '.join(others)} and {last}" if others else last
        command = to_paste("data", "prepare", *others, last, "--data", root)
        super().__init__(
            f"The data set{s} {names} {are} not prepared in {root}.{self._other_versions()} Prepare {them} once: "
            f"`{command}`. {self._needed_files()} Then repeat this command."
        )

    def _needed_files(self) -> str:
        missing = [file for source in self.sources for file in FileResolver(self.root).missing(source.sources())]
        if not missing:
            return "The published files are there."
        files = [f"{file.name} (md5 {file.md5}) as {self.root / file.path}" for file in dict.fromkeys(missing)]
        return (
            f"Without a network here, first get {', '.join(files)}, or put all files into one folder and add --from "
            "FOLDER to that command."
        )

    def _other_versions(self) -> str:
        found = [path.name for source in self.sources for path in (self.root / FOLDER).glob(f"{source.name}-v*")]
        return f" {', '.join(found)} of another version of augbench cannot be used." if found else ""
