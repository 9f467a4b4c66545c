"""Data sets of one's own as they lie on disk: found by name and the start of their checksum, and checked."""

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from augbench.bench.common.errors import UnfitMachineError, shortened
from augbench.bench.common.wording import few_names
from augbench.bench.data.array_folder import (
    MANIFEST,
    ArrayFile,
    DamagedDataError,
    Manifest,
    map_arrays,
    read_manifest,
)
from augbench.bench.data.dataset import ImageData
from augbench.bench.data.downloads import disk_errors
from augbench.bench.data.own.settings import OWN
from augbench.bench.data.prepared import FOLDER, REQUIRED, image_data

VERSION = 1  # of what is stored
DIGITS = 12  # of the checksum, in the name of a folder
SHOWN = 20  # prepared data sets in a message
PREPARED = re.compile(rf"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{{{DIGITS}}}")
"""What a prepared data set of one's own is called: its name, and the start of its checksum."""


def own_folder(root: Path) -> Path:
    """Return the folder of data sets of one's own; `root` is the folder of data sets."""
    return root / FOLDER / OWN


def prepared_own(root: Path) -> list[str]:
    """List what is prepared, such as `pets-1f3a9c0b2d4e`, sorted."""
    return sorted(path.name for path in own_folder(root).glob("[!.]*") if PREPARED.fullmatch(path.name))


def name_of(prepared: str) -> str:
    """Return the name in `pets-1f3a9c0b2d4e`: what tables call the data set."""
    return prepared.rpartition("-")[0]


def content_checksum(class_names: Sequence[str], arrays: Mapping[str, ArrayFile]) -> str:
    """Return the checksum of the names of the classes and of all arrays."""
    content = [list(class_names), {name: [entry.shape, entry.sha256] for name, entry in sorted(arrays.items())}]
    return "sha256:" + hashlib.sha256(json.dumps(content).encode()).hexdigest()


def read_own_manifest(prepared: str, root: Path) -> Manifest:
    """Read the manifest of a prepared data set, and compare its checksum with the name of the folder.

    Raises:
        UnknownPreparedError: If it is not prepared.
        DamagedDataError: If it is damaged.
    """
    folder = own_folder(root) / prepared
    with disk_errors(folder):
        if not PREPARED.fullmatch(prepared) or not folder.exists():
            raise UnknownPreparedError(prepared, root)
        manifest = read_manifest(folder)
    checksum = content_checksum(manifest.class_names, manifest.arrays)
    digits = checksum.partition(":")[2][:DIGITS]
    if (manifest.checksum, f"{manifest.name}-{digits}") != (checksum, prepared):
        raise DamagedDataError(folder, f"{MANIFEST} is that of another data set, or has changed")
    if len(manifest.class_names) != manifest.classes or not manifest.arrays.keys() >= REQUIRED:
        raise DamagedDataError(folder, f"{MANIFEST} does not have all classes or arrays")
    return manifest


def load_own(prepared: str, root: Path) -> ImageData:
    """Map a prepared data set into memory.

    Raises:
        UserError: If it is not prepared, or damaged.
    """
    manifest = read_own_manifest(prepared, root)
    folder = own_folder(root) / prepared
    with disk_errors(folder):
        arrays = map_arrays(folder, manifest)
    return image_data(arrays, manifest.classes, manifest.provenance)


class UnknownPreparedError(UnfitMachineError):
    """A data set of one's own is not in the folder of data sets."""

    def __init__(self, prepared: str, root: Path) -> None:
        there = prepared_own(root)
        asked = (
            f"There is no prepared data set {shortened(repr(prepared))} of your own"
            if prepared
            else "The data set 'own' needs the option `prepared`, which names one"
        )
        command = f"augbench data prepare images PATH --data {shlex.quote(str(root))}"
        super().__init__(
            f"{asked} in {root}. Prepared are: {few_names(there, SHOWN) or 'none'}. `{command}` prepares a folder of "
            "images, and prints the line for suites."
        )
