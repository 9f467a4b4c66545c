"""Executing short runs in this process."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.trainer import Trainer, new_trainer
from augbench.bench.training.worker import execute, load_dataset


def written(out: Path, spec: RunSpec) -> RunFolder:
    """Make the folder of a run that was not begun, below an output folder."""
    folder = RunFolder(out / "runs" / spec.folder_name)
    folder.write_spec(spec)
    return folder


class Runs:
    """Specifies short runs on a few digits and executes them, each in a folder of its own."""

    def __init__(
        self,
        make_spec: Callable[..., RunSpec],
        make_folder: Callable[[RunSpec], RunFolder],
        settings: ExecutionSettings,
        stop_after: Callable[[int], StopSignal],
    ) -> None:
        self.spec, self.folder_of, self.settings, self.stop_after = make_spec, make_folder, settings, stop_after

    def folder(self, method: str = "none", **settings: Any) -> RunFolder:
        """Make the folder of a run that was not begun."""
        return self.folder_of(self.spec(method, **settings))

    def execute(self, folder: RunFolder, stop: StopSignal | int | None = None, **settings: Any) -> RunState:
        """Execute a run, to its end or until it has asked so many times whether to stop."""
        signal = self.stop_after(stop) if isinstance(stop, int) else stop or StopSignal()
        return execute(folder, replace(self.settings, **settings), signal)

    def done(self, method: str | RunSpec = "none", **settings: Any) -> RunFolder:
        """Execute a run to its end."""
        folder = self.folder_of(self.spec(method, **settings) if isinstance(method, str) else method)
        assert self.execute(folder) is RunState.DONE, folder.read_status()
        return folder

    def in_parts(self, spec: RunSpec, *steps: int) -> RunFolder:
        """Execute a run that is stopped after so many questions each time, then to its end.

        Another process would not have this one's global generator, so that is disturbed after each stop.
        """
        folder = self.folder_of(spec)
        for questions in steps:
            assert self.execute(folder, questions) is RunState.CANCELLED
            torch.manual_seed(1)
        assert self.execute(folder) is RunState.DONE
        return folder

    def data(self) -> ImageData:
        """Load the digits of the runs."""
        return load_dataset(self.spec().dataset, self.settings.data)

    def trainer(self, method: str | RunSpec = "none", data: ImageData | None = None, **settings: Any) -> Trainer:
        """Begin a run, without a folder."""
        spec = self.spec(method, **settings) if isinstance(method, str) else method
        return new_trainer(spec, data or self.data(), torch.device("cpu"))


def result_of(folder: RunFolder) -> dict[str, Any]:
    """Return the result of a finished run."""
    result = folder.read_result()
    assert result is not None
    return result
