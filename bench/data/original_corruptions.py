"""Corrupted test images as their authors published them: taken from a user's folder, checked, and mapped into memory.

The folder has a file NAME.npy for each corruption, uint8, (5·N, H, W, C): the N test images of a data set with severity
1, then with severity 2 and so on; and `labels.npy` with their labels, (5·N,).
"""

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from augbench.bench.augmentation.corruptions.corrupt import SETS, SEVERITIES
from augbench.bench.common.errors import UserError
from augbench.bench.common.files import UNREADABLE_ARRAYS
from augbench.bench.common.wording import few_names
from augbench.bench.data.array_folder import (
    ORIGINALS,
    Manifest,
    alone,
    array_file,
    map_arrays,
    put_in_place,
    read_manifest,
    work_folder,
    write_array,
    write_manifest,
)
from augbench.bench.data.dataset import Split
from augbench.bench.data.downloads import ProgressCallback, check_space, disk_errors
from augbench.bench.data.own.settings import existing
from augbench.bench.data.prepared import FOLDER

VERSION = 1  # of what is stored
LABELS = "labels"
ONLY_ORIGINAL = MappingProxyType({"corruptions": {"frost": False, "spatter": True}, "corruptions-bar": {}})
"""Corruptions that are not recomputed, by name of the set, and whether they count in no mean."""
FILES = MappingProxyType(
    {
        "elastic": "elastic_transform",
        "jpeg": "jpeg_compression",
        "blue-noise": "blue_noise_sample",
        "transverse-chromatic-aberration": "transverse_chromatic_abberation",
    }
)
"""Names of files that do not follow from those of their corruptions."""


def original_corruptions(name: str) -> dict[str, bool]:
    """Return the corruptions that a published set has, and whether they count in no mean."""
    return {corruption: one.extra for corruption, one in SETS[name].items()} | ONLY_ORIGINAL[name]


def prepare_originals(name: str, path: Path, test: Split, root: Path, progress: ProgressCallback) -> Path:
    """Check the arrays of a published set, and copy them below the folder of data sets.

    A kill at any moment leaves nothing that looks finished.

    Args:
        name: One of the `SETS` of corruptions.
        path: Folder of the arrays; nothing is written there.
        test: Test images that were corrupted, uint8 (N, C, H, W), and their labels.
        root: Folder of data sets.
        progress: Is told how many arrays are copied.

    Returns:
        The folder of the copies.

    Raises:
        UserError: If there is no such folder, an array is missing or has another type or shape, labels are others or in
            another order, or the disk is full.
    """
    source = existing(path)
    arrays = _checked(name, source, test)
    parent, folder = _folder(name, root).parent, _folder(name, root)
    with alone(parent, name, progress), work_folder(parent, name) as work:
        result = work / "result"
        result.mkdir()
        check_space(parent, sum(array.nbytes for array in arrays.values()))
        for done, (corruption, array) in enumerate(arrays.items(), start=1):
            write_array(result, corruption, array)
            progress.progress("Copying arrays", done, len(arrays))
        manifest = Manifest(
            name=name,
            version=VERSION,
            checksum=_checksum(test),
            classes=int(test.labels.max()) + 1,
            provenance=f"{name}, original arrays",
            prepared=datetime.now(UTC).isoformat(timespec="seconds"),
            arrays={corruption: array_file(result, corruption) for corruption in arrays},
        )
        write_manifest(result, manifest)
        put_in_place(result, folder)
    return folder


def original_arrays(name: str, test: Split, root: Path) -> dict[str, Tensor] | None:
    """Map original arrays into memory.

    Args:
        name: One of the `SETS` of corruptions.
        test: Test images, uint8 (N, C, H, W), and their labels.
        root: Folder of data sets.

    Returns:
        By corruption, those counted in means first: uint8, (5·N, H, W, C). None if no arrays are prepared, or those of
        other test images.

    Raises:
        DamagedDataError: If they are damaged.
    """
    folder = _folder(name, root)
    with disk_errors(folder):
        if not folder.exists():
            return None
        manifest = read_manifest(folder)
        return map_arrays(folder, manifest) if manifest.checksum == _checksum(test) else None


def _folder(name: str, root: Path) -> Path:
    return root / FOLDER / ORIGINALS / name


def _checksum(test: Split) -> str:
    """Return the checksum of test images and labels."""
    found = hashlib.sha256()
    for array in (test.images, test.labels):
        found.update(np.ascontiguousarray(array.cpu().numpy()).data)
    return f"sha256:{found.hexdigest()}"


def _checked(name: str, source: Path, test: Split) -> dict[str, NDArray[np.uint8]]:
    """Open the arrays of a folder, the main ones first."""
    known = sorted(original_corruptions(name).items(), key=lambda entry: entry[1])
    files = {
        corruption: source / f"{FILES.get(corruption, corruption.replace('-', '_'))}.npy" for corruption, _ in known
    }
    needed = [source / f"{LABELS}.npy", *(files[corruption] for corruption, extra in known if not extra)]
    missing = [file.name for file in needed if not file.is_file()]
    if missing:
        raise UserError(
            f"{source} has {len(needed) - len(missing)} of the {len(needed)} files of {name} that are needed; missing: "
            f"{few_names(missing)}. Give the folder with all of them, as it was published."
        )
    _check_labels(_opened(needed[0]), test, needed[0])
    count, channels, height, width = test.images.shape
    shape = (len(SEVERITIES) * count, height, width, channels)
    found = {corruption: _opened(file) for corruption, file in files.items() if file.is_file()}
    for corruption, array in found.items():
        if array.shape != shape or array.dtype != np.uint8:
            raise UserError(
                f"{files[corruption]} has the shape {array.shape} and the type {array.dtype}; it must be {shape} and "
                f"uint8, the {count:,} test images {len(SEVERITIES)} times. Give the file as it was published."
            )
    return found


def _opened(file: Path) -> NDArray[np.uint8]:
    try:
        array: NDArray[np.uint8] = np.load(file, mmap_mode="r", allow_pickle=False)
    except UNREADABLE_ARRAYS as error:
        raise UserError(f"{file} is no array that can be read ({error}). Give the file as it was published.") from None
    return array


def _check_labels(labels: NDArray[np.generic], test: Split, file: Path) -> None:
    expected = np.tile(test.labels.cpu().numpy(), len(SEVERITIES))
    if labels.shape != expected.shape or labels.dtype.kind not in "iu":
        raise UserError(
            f"{file} has the shape {labels.shape} and the type {labels.dtype}; it must be {expected.shape}, whole "
            f"numbers: the labels of the {len(test):,} test images {len(SEVERITIES)} times. Give the file as it was "
            "published."
        )
    if different := int(np.count_nonzero(labels != expected)):
        raise UserError(
            f"{different:,} labels of {file} are not those of the test images in their order, {len(SEVERITIES)} times. "
            "So the images would be scored against labels of others. Give the arrays of this data set in the order in "
            "which they were published."
        )
