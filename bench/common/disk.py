"""What a disk has left, and what helps where it cannot be written to."""

import os
from dataclasses import dataclass
from errno import EACCES, EDQUOT, EEXIST, EISDIR, ENAMETOOLONG, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path

FULL = (ENOSPC, EDQUOT)

WHAT_HELPS = {
    ENOSPC: "Free some space or choose a folder on another disk with {option}",
    EDQUOT: "Delete files of yours there, have your quota raised (it may count bytes or files) or choose a folder on "
    "another disk with {option}",
    EROFS: "Choose a folder on another disk with {option}",
    **dict.fromkeys(
        (EACCES, EPERM), "Change its permissions, have its owner do so or choose another folder with {option}"
    ),
    **dict.fromkeys(
        (EEXIST, ENOTDIR, EISDIR),
        "Move away the file that is in the place of a folder, or choose another folder with {option}",
    ),
    ENOENT: "Make the folder that it is to be in, or choose another one with {option}",
    ENAMETOOLONG: "Choose a folder with a shorter path with {option}",
}
"""By number of an error."""
NO_MORE_FILES = (
    "The disk can hold no more files, however many bytes are free. Delete or pack files on it or choose a folder on "
    "another disk with {option}"
)
WHATEVER_IT_IS = "Choose a folder on another disk with {option}, or have whoever looks after this one find the fault"


@dataclass(frozen=True)
class Room:
    """What is left on a disk for this user; None is what its file system does not say.

    Attributes:
        bytes: Bytes.
        files: Files, of which many file systems have a fixed number.
    """

    bytes: int | None
    files: int | None


def room_on_disk_of(path: Path) -> Room:
    """Ask how much is left on the disk where a path is or would be."""
    for existing in (path.absolute(), *path.absolute().parents):
        try:
            disk = os.statvfs(existing)
        except OSError:
            continue
        # /proc, for one, has no size at all; some file systems make files as long as there are bytes
        return Room(
            bytes=disk.f_bavail * disk.f_frsize if disk.f_blocks else None,
            files=disk.f_favail if disk.f_files else None,
        )
    return Room(None, None)


def what_helps(error: OSError, path: Path, option: str) -> str:
    """Say in an imperative, without a full stop, what to do about an error.

    Args:
        error: What the operating system said.
        path: What was to be written.
        option: Option of the command that chooses another folder.
    """
    advice = WHAT_HELPS.get(error.errno or 0, WHATEVER_IT_IS)
    if error.errno == ENOSPC and room_on_disk_of(path).files == 0:
        advice = NO_MORE_FILES
    return advice.format(option=option)
