"""Folders of arrays on disk: written once with a manifest, checked, and mapped into memory."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from augbench.bench.common.errors import UnfitMachineError, to_paste
from augbench.bench.common.files import flush_to_disk, read_json

MANIFEST = "manifest.json"


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

    @property
    def size(self) -> int:
        """Size of all arrays in bytes."""
        return sum(entry.size for entry in self.arrays.values())


class DamagedDataError(UnfitMachineError):
    """A folder of arrays is not as it was written; `what` says what is wrong."""

    def __init__(self, folder: Path, what: str) -> None:
        again = to_paste("data", "prepare", folder.name.rpartition("-v")[0], "--data", folder.parent.parent)
        super().__init__(
            f"The prepared data set in {folder} is damaged: {what}. Prepare it again: `{again}` replaces it."
        )
        self.what = what


def write_arrays(folder: Path, manifest: Manifest, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write arrays and their manifest, which lacks the entries of the arrays, into an empty folder, and flush them.

    Raises:
        OSError: If a file cannot be written.
    """
    entries = {name: _write_array(array, _file(folder, name)) for name, array in arrays.items()}
    with (folder / MANIFEST).open("wb") as file:
        file.write(manifest.model_copy(update={"arrays": entries}).model_dump_json(indent=1).encode())
        flush_to_disk(file)


def _write_array(array: NDArray[np.generic], path: Path) -> ArrayFile:
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
        flush_to_disk(file)
    return ArrayFile(shape=array.shape, dtype=array.dtype.name, size=path.stat().st_size, sha256=_sha256(path))


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
