"""The command `augbench`, as `python -m augbench`, for where scripts of packages are not on the path."""

from augbench.bench.commands.__main__ import start

if __name__ == "__main__":
    start()
