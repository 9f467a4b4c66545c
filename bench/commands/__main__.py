"""`python -m augbench.bench.commands`, the same as `augbench`."""

from augbench.bench.commands.main import main

if __name__ == "__main__":
    main()
