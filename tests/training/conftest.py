"""Executing short runs in this process."""

from collections.abc import Callable

import pytest
from short_runs import Runs

from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder
from augbench.bench.training.stopping import StopSignal


@pytest.fixture
def runs(
    few_digits: None,
    make_spec: Callable[..., RunSpec],
    make_folder: Callable[[RunSpec], RunFolder],
    settings: ExecutionSettings,
    stop_after: Callable[[int], StopSignal],
) -> Runs:
    """Execute short runs."""
    return Runs(make_spec, make_folder, settings, stop_after)
