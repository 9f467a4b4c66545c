"""What tests share that start the command in a process of its own."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from augbench.bench.runs.run_folder import RunFolder

SECONDS = 300  # far longer than anything takes on a machine that does nothing else


@pytest.fixture
def wait_for_checkpoint() -> Callable[..., RunFolder]:
    """Wait until a run of a method, that a process has placed in a folder, has saved something; returns that run."""

    def wait(process: "subprocess.Popen[str]", out: Path, method: str) -> RunFolder:
        for _ in range(10 * SECONDS):
            for path in out.glob(f"runs/{method}_*/checkpoint.pt"):
                return RunFolder(path.parent)
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail("the process ended before the first checkpoint: " + "".join(process.communicate()))
        pytest.fail(f"no checkpoint came within {SECONDS} seconds")

    return wait
