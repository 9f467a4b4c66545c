"""How much room a disk has, and what helps if it cannot be written to."""

import os
from dataclasses import dataclass
from errno import EACCES, EDQUOT, EEXIST, EISDIR, ENAMETOOLONG, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path

FULL = (ENOSPC, EDQUOT)

WHAT_HELPS = {
    ENOSPC: "Free some space or choose a folder on another disk with {option}",
    EDQUOT: "Delete files of yours there, ask for a higher quota (of bytes or files), or choose a folder on another "
    "disk with {option}",
    EROFS: "Choose a folder on another disk with {option}",
    **dict.fromkeys(
        (EACCES, EPERM), "Change its permissions, ask its owner to do so, or choose another folder with {option}"
    ),
    **dict.fromkeys(
        (EEXIST, ENOTDIR, EISDIR),
        "Move away the file that is in the place of a folder, or choose another folder with {option}",
    ),
    ENOENT: "Create its parent folder, or choose another one with {option}",
    ENAMETOOLONG: "Choose a folder with a shorter path with {option}",
}
"""By number of an error."""
NO_MORE_FILES = (
    "The disk can hold no more files, though bytes may be free. Delete or pack files on it, or choose a folder on "
    "another disk with {option}"
)
WHATEVER_IT_IS = "Choose a folder on another disk with {option}, or ask an administrator to check this one"


@dataclass(frozen=True)
class Room:
    """Free room on a disk for this user; None where its file system does not say.

    Attributes:
        bytes: Bytes.
        files: Files, of which many file systems have a fixed number.
    """

    bytes: int | None
    files: int | None


def room_on_disk_of(path: Path) -> Room:
    """Return the free room on the disk where a path is or would be."""
    for existing in (path.absolute(), *path.absolute().parents):
        try:
            disk = os.statvfs(existing)
        except OSError:
            continue
        # /proc has no size at all; some file systems have no limit on files
        return Room(
            bytes=disk.f_bavail * disk.f_frsize if disk.f_blocks else None,
            files=disk.f_favail if disk.f_files else None,
        )
    return Room(None, None)


def what_helps(error: OSError, path: Path, option: str) -> str:
    """Say what to do about an error, in an imperative without a full stop.

    Args:
        error: What the operating system said.
        path: What was to be written.
        option: Option that chooses another folder.
    """
    advice = WHAT_HELPS.get(error.errno or 0, WHATEVER_IT_IS)
    if error.errno == ENOSPC and room_on_disk_of(path).files == 0:
        advice = NO_MORE_FILES
    return advice.format(option=option)
