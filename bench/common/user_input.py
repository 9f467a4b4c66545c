"""Paths, texts and switches as users write them, whatever their editors add."""

import codecs
import os
import re
from pathlib import Path

from augbench.bench.common.errors import UserError, shortened

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
OTHER_ENCODINGS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)  # UTF-32-LE begins as UTF-16-LE does


def user_path(given: str | Path, what: str = "The path") -> Path:
    """Return the path that a user means: `~` is the home directory even if no shell has replaced it.

    Args:
        given: What the user wrote.
        what: What messages call it, such as the name of an option.

    Raises:
        UserError: If there is no such home directory, or the path holds control characters, which no line of a log, a
            table or a job script can show.
    """
    quoted = f"{what} {shortened(repr(str(given)))}"
    if CONTROL.search(str(given)):
        raise UserError(f"{quoted} holds a line break or another control character. Choose a path without one.")
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise UserError(f"{quoted} begins with an unknown home directory. Write the path in full.") from None


def read_user_text(path: Path) -> str:
    """Read a text file in UTF-8, with or without the byte-order mark that some editors add.

    Raises:
        ValueError: If it cannot be read, is no file or no text in UTF-8; its text follows a colon.
    """
    try:
        if path.exists() and not path.is_file():  # a named pipe, say, would be waited for
            raise ValueError("it is no file")
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    if content.startswith(OTHER_ENCODINGS):
        raise ValueError("it is written in UTF-16, as PowerShell and some editors do. Save it in UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"it is not written in UTF-8 (line {line}). Save it in UTF-8") from None


def is_switched_on(variable: str) -> bool:
    """Whether an environment variable is on: 1, true, yes or on; off: 0, false, no, off, empty or unset.

    Raises:
        UserError: If it says something else.
    """
    from pydantic import TypeAdapter, ValidationError  # here, since `augbench --help` need not wait for it

    given = os.environ.get(variable, "").strip()
    try:
        return bool(given) and TypeAdapter(bool).validate_python(given)
    except ValidationError:
        raise UserError(
            f"The variable {variable} is {shortened(given)!r}, which means neither on nor off. Set it to 1 or 0."
        ) from None
