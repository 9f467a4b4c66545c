"""Runs of a few steps that are executed in the process of the test."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.worker import execute


@dataclass
class Here:
    """Runs of a few steps that are executed in this process."""

    make_spec: Callable[..., RunSpec]
    make_folder: Callable[[RunSpec], RunFolder]
    settings: ExecutionSettings
    stop: StopSignal
    stop_after: Callable[[int], StopSignal]

    def folder(self, *method: str, **spec: Any) -> RunFolder:
        """Make the folder of a run."""
        return self.make_folder(self.make_spec(*method, **spec))

    def stopped(self, steps: int, **spec: Any) -> RunFolder:
        """Begin a run, and have it saved after some questions whether to stop."""
        folder = self.folder(**spec)
        execute(folder, self.settings, self.stop_after(steps))
        return folder

    def run(self, folder: RunFolder, **settings: Any) -> RunState:
        """Execute a run until it ends."""
        return execute(folder, replace(self.settings, **settings), self.stop)

    def failure(self, folder: RunFolder) -> dict[str, Any]:
        """Execute a run that is to fail, and return what it has recorded."""
        assert self.run(folder) is RunState.FAILED
        return folder.read_status()


@pytest.fixture
def here(
    make_spec: Callable[..., RunSpec],
    make_folder: Callable[[RunSpec], RunFolder],
    settings: ExecutionSettings,
    stop: StopSignal,
    stop_after: Callable[[int], StopSignal],
) -> Here:
    """Execute runs in the process of the test."""
    return Here(make_spec, make_folder, settings, stop, stop_after)
