"""User code, such as plug-ins and checked methods: what it may raise, and how messages name that."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from augbench.bench.common.errors import shortened

# Whatever importing or calling user code may raise, apart from requests to stop. It is caught only where it becomes a
# record: a module listed as broken, a check that failed, a run that failed.
USER_CODE_ERRORS = (Exception, SystemExit)
PUBLIC_NAMES = "; import what augbench offers from `augbench` itself, as in `from augbench import Method, register`"


def format_exception(error: BaseException, *paths: Path) -> str:
    """Write an exception in one line: `ValueError: too wide (line 12 of mine.py)`.

    Args:
        error: The exception.
        paths: User files; the last of their lines in the traceback is named.
    """
    message = shortened(" ".join(str(error).split()).rstrip("."))
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    line = own_line(error, *paths)
    moved = isinstance(error, ImportError) and str(error.name).partition(".")[0] == "augbench"
    return f"{text}{f' ({line})' * bool(line)}{PUBLIC_NAMES * moved}"


def own_line(error: BaseException, *paths: Path) -> str:
    """Name the last line of some files in the traceback of an exception; empty if there is none."""
    files = {str(path): path.name for path in paths}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    return f"line {frames[-1].lineno} of {files[frames[-1].filename]}" if frames else ""


@contextmanager
def prints_apart() -> Iterator[None]:
    """Send what user code prints to standard error, so that standard output has only the answer."""
    with redirect_stdout(sys.stderr):
        yield
