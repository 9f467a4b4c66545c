"""Code of others, such as plug-ins and the methods that are checked: what it may end in, and how that is said."""

import traceback
from pathlib import Path

# Whatever importing or calling a stranger's code may end in, apart from being asked to stop. It is caught only where
# it becomes a record: a module listed as broken, a check that failed.
FOREIGN_ERRORS = (Exception, SystemExit)


def in_words(error: BaseException, path: Path | None = None) -> str:
    """Name an exception in one line: `ValueError: too wide (line 12 of mine.py)`.

    Args:
        error: The exception.
        path: The stranger's file; the last of its lines that the exception passed through is named.
    """
    message = " ".join(str(error).split()).rstrip(".")
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if path is not None and frame.filename == str(path)]
    return f"{text} (line {lines[-1]} of {path.name})" if path is not None and lines else text
