"""Where and how one process executes runs."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ExecutionSettings:
    """Where and how runs are to be executed.

    Attributes:
        device: A torch device, or `auto` for the first GPU where there is one.
        workers: Runs at the same time.
        threads: CPU threads of each run.
        data: Folder of downloaded data sets.
    """

    device: str
    workers: int
    threads: int
    data: Path
