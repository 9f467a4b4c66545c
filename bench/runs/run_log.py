"""The log of a run: what the worker says of it, and what its method prints and warns of."""

import faulthandler
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TextIO

from augbench.bench.common.errors import RetryableError

MOST_PRINTED = 10_000_000  # characters of one attempt; what a method prints at every step would fill the disk

logger = logging.getLogger("augbench")


@contextmanager
def log_to(path: Path) -> Iterator[None]:
    """Write into a file what is logged, printed and warned of in the block.

    Raises:
        RetryableError: If the file cannot be written to.
    """
    try:
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise RetryableError(f"{path} cannot be written: {error.strerror or error}.") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    printed = _Printed()
    try:
        with redirect_stdout(printed), redirect_stderr(printed), warnings.catch_warnings():
            warnings.showwarning = _log_warning
            yield
    finally:
        printed.end()
        logger.removeHandler(handler)
        handler.close()


@contextmanager
def crashes_to(path: Path) -> Iterator[None]:
    """Have the stack written into a file if the process crashes in the block, as by a fault of compiled code."""
    try:
        file = path.open("a", encoding="utf-8")
    except OSError:  # what the run itself cannot write is said by it
        yield
        return
    with file:
        faulthandler.enable(file, all_threads=False)
        try:
            yield
        finally:
            faulthandler.disable()


class _Printed(io.TextIOBase):
    """Takes what is printed and logs it line by line."""

    def __init__(self) -> None:
        self.line = ""
        self.left = MOST_PRINTED

    def writable(self) -> bool:
        """It can be written to."""
        return True

    def write(self, text: str) -> int:
        """Log the lines that are complete."""
        *lines, self.line = (self.line + text).replace("\r", "\n").split("\n")
        for line in lines:
            self._log(line)
        return len(text)

    def _log(self, line: str) -> None:
        if not line.strip() or self.left < 0:
            return
        self.left -= len(line)
        if self.left < 0:
            line = f"More than {MOST_PRINTED} characters were printed; what follows is left out."
        logger.info("%s", line)

    def end(self) -> None:
        """Log what was printed without the end of a line."""
        self._log(self.line)


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Log a warning with the place that it speaks of; takes the arguments of `warnings.showwarning`."""
    logger.warning("%s", f"{category.__name__}: {message} ({filename}, line {lineno})")
