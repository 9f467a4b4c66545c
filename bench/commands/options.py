"""Options that several commands have."""

import os
from pathlib import Path
from typing import Annotated

import typer

from augbench.bench.environment import available_devices
from augbench.bench.errors import UserError
from augbench.bench.launchers.launcher import Placement

MOST_DEFAULT_WORKERS = 4
MEMORY_OF_A_WORKER = 0.9e9  # bytes, most of it torch itself, the launcher's share included

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
    count = workers or max(1, min(most, MOST_DEFAULT_WORKERS, _fitting_memory()))
    return Placement(device, count, 1, data_folder(data))


def data_folder(data: Path) -> Path:
    """Return the folder of data sets, which need not exist.

    Raises:
        UserError: If it is a file, or the home directory that it names does not exist.
    """
    try:
        folder = data.expanduser()
        is_file = folder.exists() and not folder.is_dir()
    except (RuntimeError, OSError) as error:
        raise UserError(f"--data {data} is no folder: {error}") from None
    if is_file:
        raise UserError(f"--data {data} is a file. Give the folder that data sets are in or are to be prepared in.")
    return folder


def _fitting_memory() -> int:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(memory / MEMORY_OF_A_WORKER)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
