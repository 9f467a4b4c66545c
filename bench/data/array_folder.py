"""Folders of arrays on disk: written once with a manifest, checked, and mapped into memory."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from augbench.bench.common.errors import UnfitMachineError, UserError, to_paste
from augbench.bench.common.files import flush_folder, flush_to_disk, read_json
from augbench.bench.common.locks import exclusive
from augbench.bench.data.downloads import ProgressCallback, disk_errors
from augbench.bench.data.own.settings import OWN

MANIFEST = "manifest.json"
ORIGINALS = "originals"  # folder of corrupted images as they were published, below that of prepared data sets


class ArrayFile(BaseModel):
    """The file of an array."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shape: tuple[int, ...]
    dtype: str
    size: int = Field(description="bytes")
    sha256: str


class Manifest(BaseModel):
    """The content of a folder of arrays."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    version: int
    checksum: str
    classes: int
    provenance: str
    prepared: str = Field(description="time")
    arrays: dict[str, ArrayFile] = {}
    class_names: tuple[str, ...] = Field((), description="of a data set of one's own, in the order of the labels")

    @property
    def size(self) -> int:
        """Size of all arrays in bytes."""
        return sum(entry.size for entry in self.arrays.values())


class DamagedDataError(UnfitMachineError):
    """A folder of arrays is not as it was written; `what` says what is wrong."""

    def __init__(self, folder: Path, what: str) -> None:
        super().__init__(f"The prepared data set in {folder} is damaged: {what}. Prepare it again: {again(folder)}.")
        self.what = what


def again(folder: Path) -> str:
    """Name the command that replaces a damaged folder, as a clause."""
    if folder.parent.name == ORIGINALS:
        command = to_paste("data", "prepare", folder.name, "FOLDER", "--data", folder.parent.parent.parent)
        return f"`{command}` replaces it, with the folder of the published arrays"
    if folder.parent.name != OWN:
        command = to_paste("data", "prepare", folder.name.rpartition("-v")[0], "--data", folder.parent.parent)
        return f"`{command}` replaces it"
    name, root = folder.name.rpartition("-")[0], folder.parent.parent.parent
    return (
        f"`{to_paste('data', 'prepare')} KIND PATH {to_paste('--name', name, '--data', root).partition(' ')[2]}`, with "
        "the options of the first time, replaces it"
    )


@contextmanager
def alone(parent: Path, name: str, progress: ProgressCallback) -> Iterator[None]:
    """Let only one process at a time prepare the data set `name` below `parent`; leftovers of killed ones go.

    Raises:
        RetryableError: If the disk is full, or a file cannot be read or written.
    """
    waiting = f"Another process prepares {name} at the moment; waiting for it."
    with disk_errors(parent):
        parent.mkdir(parents=True, exist_ok=True)
        with exclusive(parent / f".{name}.lock", lambda: progress.message(waiting)):
            for left in parent.glob(f".{name}.*.tmp"):  # by a process that was killed
                shutil.rmtree(left, ignore_errors=True)  # it may be somebody else's, and does no harm
            yield


@contextmanager
def work_folder(parent: Path, name: str) -> Iterator[Path]:
    """Make a temporary folder, which only `alone` and this function know."""
    work = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".tmp", dir=parent))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def put_in_place(result: Path, folder: Path) -> None:
    """Rename a finished folder, and delete the damaged one in its place.

    Raises:
        UserError: If that is a symbolic link.
    """
    refuse_link(folder)
    if folder.exists():
        shutil.rmtree(folder)
    result.rename(folder)
    flush_folder(folder.parent)


def refuse_link(folder: Path) -> None:
    """Make sure that a damaged folder is no symbolic link.

    Raises:
        UserError: If it is: what it points to is perhaps somebody else's.
    """
    if folder.is_symlink():
        raise UserError(
            f"{folder} is a symbolic link to {folder.readlink()}, where the data set is damaged or missing. Delete "
            "the link, then give the same command again; what it points to is left as it is."
        )


def write_arrays(folder: Path, manifest: Manifest, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write arrays and their manifest, which lacks the entries of the arrays, into an empty folder, and flush them.

    Raises:
        OSError: If a file cannot be written.
    """
    for name, array in arrays.items():
        write_array(folder, name, array)
    entries = {name: array_file(folder, name) for name in arrays}
    write_manifest(folder, manifest.model_copy(update={"arrays": entries}))


def write_array(folder: Path, name: str, array: NDArray[np.generic]) -> None:
    """Write the file of an array, and flush it.

    Raises:
        OSError: If it cannot be written.
    """
    with _file(folder, name).open("wb") as file:
        np.save(file, array, allow_pickle=False)
        flush_to_disk(file)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a folder, and flush it.

    Raises:
        OSError: If it cannot be written.
    """
    with (folder / MANIFEST).open("wb") as file:
        file.write(manifest.model_dump_json(indent=1, exclude_defaults=True).encode())
        flush_to_disk(file)


def array_file(folder: Path, name: str) -> ArrayFile:
    """Describe the file of an array."""
    path = _file(folder, name)
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return ArrayFile(shape=array.shape, dtype=array.dtype.name, size=path.stat().st_size, sha256=_sha256(path))


class GrowingArray:
    """The file of an array of bytes that rows are appended to; `close` writes how many there are."""

    def __init__(self, folder: Path, name: str, row: tuple[int, ...]) -> None:
        self.row = row
        self.length = 0
        self._file: BinaryIO = _file(folder, name).open("wb")
        self._write_header()

    def append(self, values: NDArray[np.uint8]) -> None:
        """Append a row."""
        self._file.write(np.ascontiguousarray(values).data)
        self.length += 1

    def close(self) -> None:
        """Write the final length and flush the file."""
        with self._file:
            self._file.seek(0)
            self._write_header()
            flush_to_disk(self._file)

    def _write_header(self) -> None:
        # numpy leaves room in it for any length
        header = {"descr": "|u1", "fortran_order": False, "shape": (self.length, *self.row)}
        np.lib.format.write_array_header_1_0(self._file, header)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder of arrays.

    Raises:
        DamagedDataError: If it cannot be read.
    """
    try:
        return Manifest.model_validate(read_json(folder / MANIFEST))
    except ValidationError:
        raise DamagedDataError(folder, f"{MANIFEST} has other fields than it should have") from None
    except ValueError as error:
        raise DamagedDataError(folder, str(error)) from None


def map_arrays(folder: Path, manifest: Manifest) -> dict[str, torch.Tensor]:
    """Map the arrays of a folder into memory, so that all processes share the same pages.

    A process that writes to an array gets a page of its own. (torch warns about tensors that cannot be written to.)

    Raises:
        DamagedDataError: If a file is missing or has another size, type or shape.
    """
    return {name: _map_array(folder, name, entry) for name, entry in manifest.arrays.items()}


def _map_array(folder: Path, name: str, entry: ArrayFile) -> torch.Tensor:
    _check_size(folder, name, entry)
    try:
        array = np.load(_file(folder, name), mmap_mode="c", allow_pickle=False)
    except ValueError as error:
        raise DamagedDataError(folder, f"{name}.npy cannot be read ({error})") from None
    if (array.shape, array.dtype.name) != (entry.shape, entry.dtype):
        raise DamagedDataError(folder, f"{name}.npy has another shape or type than {MANIFEST} gives")
    return torch.from_numpy(array)


def _check_size(folder: Path, name: str, entry: ArrayFile) -> None:
    path = _file(folder, name)
    found = path.stat().st_size if path.is_file() else None
    if found != entry.size:
        problem = "is missing" if found is None else f"has {found} bytes instead of {entry.size}"
        raise DamagedDataError(folder, f"{name}.npy {problem}")


def check_arrays(folder: Path) -> None:
    """Compare every byte of every array with the manifest.

    Raises:
        DamagedDataError: If something has changed.
    """
    for name, entry in read_manifest(folder).arrays.items():
        _check_size(folder, name, entry)
        if _sha256(_file(folder, name)) != entry.sha256:
            raise DamagedDataError(folder, f"{name}.npy has changed: its sha256 is not the one in {MANIFEST}")
