"""Where the command `augbench` starts; `python -m augbench` does the same."""

import sys

from augbench.bench.commands.interrupts import INTERRUPTED, end_at_ctrl_c, heed_ctrl_c
from augbench.bench.commands.streams import prepare_streams


def start() -> None:
    """Run the command line; Ctrl-C ends it quietly at any moment."""
    heed_ctrl_c()  # also where a shell's background has it ignored
    prepare_streams()
    try:
        from augbench.bench.commands.main import main

        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:  # else Python would complain if another one came while it ends
        end_at_ctrl_c()


if __name__ == "__main__":
    start()
