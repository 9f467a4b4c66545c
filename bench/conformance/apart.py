"""User code in a process of its own: if it ends the process, hangs or crashes, that is reported.

The process gets its order on standard input. It answers through a pipe of its own, which keeps answers apart from what
the code prints: lines of JSON that say what it is doing, and last the answer or the user's mistake.
"""

import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import IO, Any

from augbench.bench.common.errors import UserError, end_in_words
from augbench.bench.registry.plugins import plugin_files

SECONDS_TO_DUMP = 2.0  # for the stack of a process that takes too long
POLL_SECONDS = 0.1
Task = Callable[[Mapping[str, Any], Callable[[str], None]], Mapping[str, Any]]
"""Does what an order says; is given a function to tell what it is at, and returns the answer."""


class ApartError(UserError):
    """A process ended without an answer, or was ended since it took too long."""


def run_apart(what: str, order: Mapping[str, Any], seconds: float, show: Callable[[str], None]) -> dict[str, Any]:
    """Do something with user code in a process of its own.

    Args:
        what: What is done, as messages call it: `Checking scale`.
        order: What is to be done, by the name of a function of `apart_tasks`.
        seconds: How long it may take.
        show: Called with what the code prints, piece by piece.

    Returns:
        The answer.

    Raises:
        UserError: If the order is a mistake of the user, or the process ends without an answer.
    """
    with tempfile.TemporaryFile() as stacks, _Process(order, stacks) as process:
        deadline = time.monotonic() + seconds
        place = ""
        while True:
            process.print_to(show)
            line = process.next_line()
            if line is not None and "at" in line:
                place = line["at"]
            elif line is not None and "error" in line:
                raise UserError(line["error"])
            elif line is not None and "answer" in line:
                process.print_to(show)
                return dict(line["answer"])
            elif line is not None:  # the pipe is closed
                raise ApartError(f"{what} ended without a result{_in(place)}: {process.how_it_ended(stacks)}")
            elif time.monotonic() > deadline:
                where = process.where_it_is(stacks)
                raise ApartError(
                    f"{what} did not finish within {seconds:g} s{_in(place)}{f', at {where}' if where else ''}. Look "
                    "for code that waits there, or raise --limit."
                )


def _in(place: str) -> str:
    return f", in the check {place!r}" if place else ""


class _Process:
    """The process, and what comes from it."""

    def __init__(self, order: Mapping[str, Any], stacks: IO[bytes]) -> None:
        reading, writing = os.pipe()
        command = [sys.executable, "-P", "-m", "augbench.bench.conformance.apart", str(writing), str(stacks.fileno())]
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(writing, stacks.fileno()),
            start_new_session=True,  # a group of its own, which can be ended as a whole
        )
        os.close(writing)
        self.lines: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self.printed: SimpleQueue[str] = SimpleQueue()
        self.exit_line = ""
        if self.process.stdin is not None and self.process.stdout is not None:
            with suppress(BrokenPipeError), self.process.stdin as stdin:
                stdin.write(json.dumps(order).encode())
            threading.Thread(target=_read_lines, args=(reading, self.lines), daemon=True).start()
            self.printing = threading.Thread(
                target=_read_printed, args=(self.process.stdout, self.printed), daemon=True
            )
            self.printing.start()

    def __enter__(self) -> "_Process":
        return self

    def __exit__(self, *_: object) -> None:
        """End the process and whatever it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.printing.join()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def next_line(self) -> dict[str, Any] | None:
        """Return the next line of the pipe, empty at its end; None if there is none yet."""
        try:
            line = self.lines.get(timeout=POLL_SECONDS)
        except Empty:
            return None
        self.exit_line = line.get("exits at", self.exit_line)
        return None if "exits at" in line else line

    def print_to(self, show: Callable[[str], None]) -> None:
        """Pass on what was printed."""
        while not self.printed.empty():
            show(self.printed.get())

    def how_it_ended(self, stacks: IO[bytes]) -> str:
        """Say how it ended by itself."""
        end = end_in_words(self.process.wait())
        where = self.exit_line or _own_line(_dumped(stacks))
        return f"the process {end}{f', at {where}' if where else ''}."

    def where_it_is(self, stacks: IO[bytes]) -> str:
        """Name the line of a plug-in that it is at; empty if that cannot be told."""
        self.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + SECONDS_TO_DUMP
        while not (line := _own_line(_dumped(stacks))) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return line


def _own_line(places: Iterable[tuple[str, str, str]]) -> str:
    """Name the first of some places (file, line number, function) that is in a plug-in; empty if none is."""
    files = {str(path): path.name for path in plugin_files()}
    own = ((number, files[file], function) for file, number, function in places if file in files)
    return next((f"line {number} of {name} (`{function}`)" for number, name, function in own), "")


def _dumped(stacks: IO[bytes]) -> Iterator[tuple[str, str, str]]:
    """Read the places in a stack that `faulthandler` has written, the innermost first."""
    stacks.seek(0)
    for line in stacks.read().decode(errors="replace").splitlines():
        file, _, rest = line.strip().removeprefix('File "').partition('", line ')
        number, _, function = rest.partition(" in ")
        yield file, number, function


def _read_lines(descriptor: int, lines: "SimpleQueue[dict[str, Any]]") -> None:
    with os.fdopen(descriptor, encoding="utf-8") as pipe:
        for line in pipe:
            with suppress(ValueError):  # cut off where the process died
                lines.put(json.loads(line))
    lines.put({})


def _read_printed(stream: IO[bytes], printed: "SimpleQueue[str]") -> None:
    while piece := os.read(stream.fileno(), 2**16):
        printed.put(piece.decode(errors="replace"))


def _serve(answers: IO[str], stacks: int, order: Mapping[str, Any]) -> None:
    """Do what is ordered; the process ends here, whatever threads are left."""
    from augbench.bench.conformance.apart_tasks import TASKS

    def tell(**line: object) -> None:
        answers.write(json.dumps(line) + "\n")
        answers.flush()

    faulthandler.enable(stacks, all_threads=False)
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=False)
    leave = os._exit

    def leave_and_say_where(status: int) -> None:
        frames = reversed(traceback.extract_stack())
        if line := _own_line((frame.filename, str(frame.lineno), frame.name) for frame in frames):
            tell(**{"exits at": line})
        leave(status)

    os._exit = leave_and_say_where  # type: ignore[assignment]
    try:
        tell(answer=TASKS[order["do"]](order, lambda place: tell(at=place)))
    except UserError as error:
        tell(error=str(error))
    sys.stdout.flush()
    sys.stderr.flush()
    leave(0)


if __name__ == "__main__":
    _order = json.loads(sys.stdin.read())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever has started this process ends it
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as _answers:
        _serve(_answers, int(sys.argv[2]), _order)
