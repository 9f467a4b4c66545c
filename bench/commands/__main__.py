"""Where the command `augbench` starts; `python -m augbench.bench.commands` does the same."""

import sys


def start() -> None:
    """Run the command line; Ctrl-C ends it quietly, also while torch is being imported."""
    try:
        from augbench.bench.commands.main import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    start()
