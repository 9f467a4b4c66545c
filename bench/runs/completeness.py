"""Whether a file that belongs to a result was cut short, told from its end: there may be ten thousand runs."""

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from augbench.bench.common.files import NotReadError, open_file

END_OF_ZIP = struct.Struct("<4s4H2LH")
"""End of central directory record of PKWARE's APPNOTE.TXT without a comment: a mark, numbers of disks and files, bytes
of the list of names and before it, bytes of a comment."""
LONGEST_LINE = 1 << 16  # bytes


def check_whole(folder: Path, result: Mapping[str, Any]) -> None:
    """Make sure that the predictions and epochs of a finished run are there, and as long as they were.

    Args:
        folder: Its folder.
        result: The content of its `result.json`.

    Raises:
        ValueError: If one is missing, cut short or cannot be read.
    """
    name, epochs = "predictions.npz", result.get("epochs")
    try:
        if not ends_as_a_zip_file(f"{folder}/{name}"):
            raise ValueError(f"{name} is cut short")
        name = "metrics.jsonl"
        if epochs is not None and not _ends_with_epoch(f"{folder}/{name}", epochs):
            raise ValueError(f"{name} does not end with epoch {epochs}")
    except FileNotFoundError:
        raise ValueError(f"{name} is missing") from None
    except OSError as error:
        raise NotReadError(name, error) from None


def ends_as_a_zip_file(path: str) -> bool:
    """Whether a file ends as a zip file without a comment does, and is as long as its end says.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it is no ordinary file.
    """
    end, size = _tail(path, END_OF_ZIP.size)
    if len(end) < END_OF_ZIP.size:
        return False
    mark, *_, names, before_names, comment = END_OF_ZIP.unpack(end)
    is_long = before_names == 0xFFFFFFFF  # whose true numbers stand elsewhere
    is_whole = is_long or before_names + names + END_OF_ZIP.size == size
    return bool(mark == b"PK\5\6" and comment == 0 and is_whole)


def _ends_with_epoch(path: str, epoch: object) -> bool:
    """Whether the last line of a file is complete and that of an epoch; a very long line need only be complete."""
    end, _ = _tail(path, LONGEST_LINE)
    line = end[end.rfind(b"\n", 0, -1) + 1 :]
    try:
        return end.endswith(b"\n") and (len(line) == LONGEST_LINE or from_json(line)["epoch"] == epoch)
    except (ValueError, TypeError, KeyError):
        return False


def _tail(path: str, most: int) -> tuple[bytes, int]:
    """Read the last bytes of a file, and tell how many it has."""
    file, size = open_file(path)
    with file:
        file.seek(-min(most, size), os.SEEK_END)
        return file.readall(), size
