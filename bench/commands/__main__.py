"""Where the command `augbench` starts; `python -m augbench` does the same."""

import signal
import sys

from augbench.bench.commands.interrupts import INTERRUPTED, ended_by_ctrl_c
from augbench.bench.commands.streams import prepare_streams


def start() -> None:
    """Run the command line; Ctrl-C ends it quietly at any moment."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell's background has it ignored
    prepare_streams()
    with ended_by_ctrl_c():
        from augbench.bench.commands.main import main
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    start()
