"""Folders of images: a folder for each class, perhaps in one of `train`, `val` and `test` each."""

import csv
import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError
from augbench.bench.common.user_input import read_user_text, user_path
from augbench.bench.common.wording import counted, few_names, listed
from augbench.bench.data.own.examples import PARTS, TRAIN, Examples
from augbench.bench.data.own.labels import kept_classes
from augbench.bench.data.own.settings import SUFFIXES, OwnSettings

IGNORED = ("@eadir", "thumbs.db", "desktop.ini", "__macosx")  # in lower case; as all that begins with a dot
GROUP_COLUMNS = ("image", "group")
TREE = "Put the images of each class into a folder of their own, which is named after the class"


def read_images(path: Path, settings: OwnSettings) -> Examples:
    """List the images in a folder of class folders.

    Raises:
        UserError: If there are none, or the folder is laid out in another way.
    """
    if not path.is_dir():
        raise UserError(f"{path} is a file. Give the folder that holds a folder of images for each class.")
    walk = _Walk(Path(os.path.realpath(path)))
    found = [
        (part, unicodedata.normalize("NFC", name), file)  # systems write é in two ways
        for part, name, folder in _class_folders(walk, path)
        for file in sorted(walk.images(folder))
    ]
    if not found:
        endings = ", ".join(SUFFIXES)
        raise UserError(f"{path} has no images in its class folders. {_passed_over(walk)}Endings read: {endings}.")
    names = kept_classes([name for _, name, _ in found], settings.leave_out, shown)
    kept = [(part, name, file) for part, name, file in found if name in names]
    files = [file for _, _, file in kept]
    return Examples(
        labels=np.array([names[name] for _, name, _ in kept], dtype=np.int64),
        class_names=tuple(map(shown, names)),
        parts=np.array([part for part, _, _ in kept], dtype=np.int8),
        contents=lambda: (walk.root / file for file in files),
        name_of=lambda index: shown(files[index]),
        groups=None if settings.groups is None else _read_groups(settings.groups, list(map(shown, files))),
        remarks=(*walk.remarks(),),
    )


def _class_folders(walk: "_Walk", path: Path) -> list[tuple[int, str, str]]:
    """Return the part, the class and the path of each class folder."""
    folders = walk.folders("")
    if not folders:
        raise UserError(f"{path} has no folders in it. {_passed_over(walk)}{TREE}.")
    parts = {folder: PARTS[folder.lower()] for folder in folders if folder.lower() in PARTS}
    inside = [(part, name, f"{folder}/{name}") for folder, part in parts.items() for name in walk.folders(folder)]
    if len(parts) < len(folders) or TRAIN not in parts.values():
        if TRAIN in parts.values() and len(parts) > 1 and inside:
            others = [folder for folder in folders if folder not in parts]
            raise UserError(
                f"{path} has {listed(list(parts))} with folders inside, as a data set that is split, and beside them "
                f"{few_names(list(map(shown, others)))}. Move that elsewhere, or, if all are classes, rename these."
            )
        return [(TRAIN, name, name) for name in folders]
    if not inside:
        raise UserError(f"{path} has the folders {few_names(folders)}, and these hold no class folders. {TREE}.")
    return inside


def _passed_over(walk: "_Walk") -> str:
    return " ".join([*walk.remarks(), ""])


@dataclass
class _Walk:
    """What is found in a folder.

    Attributes:
        root: The folder, without symbolic links.
        others: How many files have which other ending.
        links: Symbolic links that are not followed.
        loose: Images that lie where class folders are.
    """

    root: Path
    others: Counter[str] = field(default_factory=Counter)
    links: list[str] = field(default_factory=list)
    loose: set[str] = field(default_factory=set)

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder, sorted."""
        entries = self._entries(folder)
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        files = {entry.name for entry in entries}.difference(names)
        self.loose |= {shown(f"{folder}/{name}".lstrip("/")) for name in files if name.lower().endswith(SUFFIXES)}
        return names

    def images(self, folder: str) -> Iterator[str]:
        """Yield the paths of all images below a folder, relative to the root."""
        for entry in self._entries(folder):
            path = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from self.images(path)
            elif not entry.name.lower().endswith(SUFFIXES):
                self.others[Path(shown(entry.name)).suffix.lower() or "no ending"] += 1
            elif entry.is_symlink() and not self._leads_inside(entry):
                self.links.append(shown(path))
            elif entry.is_file():  # no pipe, which would wait for somebody to write
                yield path

    def remarks(self) -> Iterator[str]:
        """Say what was passed over."""
        if self.others:
            endings = few_names(sorted(self.others))
            yield f"{counted(self.others.total(), 'file')} with other endings ignored ({endings})."
        if self.loose:
            loose = sorted(self.loose)
            yield f"{counted(len(loose), 'image')} outside the class folders ignored ({few_names(loose)})."
        if self.links:
            yield (
                f"{counted(len(self.links), 'symbolic link')} not followed ({few_names(self.links)}): only links to "
                "files inside the folder are."
            )

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        """List a folder without what systems leave there, and without links to folders, which may be loops."""
        try:
            with os.scandir(self.root / folder) as entries:
                found = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            raise UserError(f"{self.root / folder} cannot be read: {error.strerror or error}.") from None
        kept = [entry for entry in found if entry.name.lower() not in IGNORED]
        linked = {entry.name for entry in kept if entry.is_symlink() and entry.is_dir()}
        self.links += [shown(f"{folder}/{name}".lstrip("/")) for name in sorted(linked)]
        return sorted((entry for entry in kept if entry.name not in linked), key=lambda entry: entry.name)

    def _leads_inside(self, link: "os.DirEntry[str]") -> bool:
        target = Path(os.path.realpath(link.path))
        return target.is_relative_to(self.root) and target.is_file()


def shown(path: str) -> str:
    """Write a path with bytes that are not UTF-8 as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _read_groups(given: Path, files: Sequence[str]) -> NDArray[np.int64]:
    """Read the group of each image from a CSV file, and number the groups in the order of the images; (N,)."""
    path = user_path(given, "--groups")
    try:
        rows = csv.DictReader(read_user_text(path).splitlines())
        columns = rows.fieldnames or []
        missing = [column for column in GROUP_COLUMNS if column not in columns]
        if missing:
            raise ValueError(f"it has no column {' and no column '.join(missing)}, but {few_names(columns) or 'none'}")
        group_of = {row["image"]: row["group"] for row in rows}
    except (ValueError, csv.Error) as error:
        raise UserError(
            f"--groups {path} cannot be used: {error}. It must be a CSV file with the columns `image`, the path of an "
            "image inside the folder, and `group`."
        ) from None
    return _numbered(path, group_of, files)


def _numbered(path: Path, group_of: Mapping[str, str | None], files: Sequence[str]) -> NDArray[np.int64]:
    lacking = [file for file in files if not group_of.get(file)]
    if lacking:
        raise UserError(
            f"--groups {path} has no group for {counted(len(lacking), 'image')} of {len(files):,}: "
            f"{few_names(lacking)}. Paths are relative to the folder, with /. Add a row for each."
        )
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(str(group_of[file]), len(numbers)) for file in files], dtype=np.int64)
