"""Options that several commands have."""

import os
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.environment import available_devices
from augbench.bench.errors import UserError
from augbench.bench.launchers.launcher import Placement

# More workers than this are faster only where there is memory for them: each needs about 0.7 GB.
MOST_DEFAULT_WORKERS = 4

Workers = Annotated[
    int | None, typer.Option(help="Runs at the same time. Default: one for each GPU or CPU core, up to 4.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Data = Annotated[
    Path, typer.Option(envvar="AUGBENCH_DATA", help="Folder of data sets that do not come with the package.")
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Start failed runs again from the beginning.")]

DEFAULT_DATA = Path("~/.cache/augbench")


def placement(workers: int | None, device: str, data: Path) -> Placement:
    """Turn options into a placement.

    Raises:
        UserError: If the device does not exist here or the number of workers is not positive.
    """
    if workers is not None and workers < 1:
        raise UserError(f"--workers must be at least 1, not {workers}.")
    devices = available_devices(device)
    most = _cores() if devices == ["cpu"] else len(devices)
    return Placement(device, workers or min(most, MOST_DEFAULT_WORKERS), 1, data.expanduser())


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
