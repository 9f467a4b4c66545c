"""Where the command `augbench` starts; `python -m augbench.bench.commands` does the same."""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130  # what a shell expects of a program that Ctrl-C has ended


def start() -> None:
    """Run the command line; Ctrl-C ends it quietly at any moment."""
    # A KeyboardInterrupt in the middle of importing torch would come out of strangers' code in any shape. Nothing has
    # been opened or written by then, so that the process can simply end.
    signal.signal(signal.SIGINT, _end)
    from augbench.bench.commands.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    start()
