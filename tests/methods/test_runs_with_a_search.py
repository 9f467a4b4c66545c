"""Whole runs of `fast-aa` and `faster-aa`: what their searches cost, and that a stop in either phase changes no bit."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopCause, StopSignal
from augbench.bench.training.worker import execute

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]

# folds · (epochs · train + trials · draws · held out), and epochs · batches · 4 · half a batch
SEARCH_PASSES = {"fast-aa": 2 * (2 * 120 + 5 * 2 * 80), "faster-aa": 1 * (200 // 40) * 4 * 20}


@pytest.fixture(params=SEARCH_PASSES)
def spec(request: pytest.FixtureRequest, make_spec: MakeSpec) -> RunSpec:
    """Make a run of two epochs after a quick search."""
    return make_spec(request.param, epochs=2, **methods().get(request.param).quick_hyperparameters)


@pytest.fixture
def whole(
    spec: RunSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal, few_digits: None
) -> RunFolder:
    """Execute it without a stop."""
    folder = make_folder(spec)
    assert execute(folder, settings, stop) is RunState.DONE
    return folder


class StopInPhase(StopSignal):
    """A request to stop that comes when a run has asked so many times in some phase."""

    def __init__(self, folder: RunFolder, phase: str, questions: int) -> None:
        super().__init__()
        self.folder = folder
        self.phase = phase
        self.left = questions

    def check(self) -> None:
        """Count down."""
        self.left -= self.folder.read_status().get("phase") == self.phase
        if self.left == 0:
            self.request(StopCause.REQUESTED)
        super().check()


def test_a_search_has_its_own_clock_and_count(spec: RunSpec, whole: RunFolder) -> None:
    result = whole.read_result()
    assert result is not None
    assert all(seconds["search"] > 0 for seconds in result["seconds"].values())
    assert result["image_passes"]["search"] == SEARCH_PASSES[spec.method.name]
    assert result["image_passes"]["training"] == 2 * 400
    assert len(result["learned"]) == 15


@pytest.mark.parametrize("phase", ["training", "search"])
def test_a_run_that_was_stopped_equals_a_whole_one_bit_for_bit(
    phase: str,
    whole: RunFolder,
    spec: RunSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    outcome: Callable[[RunFolder], dict[str, Any]],
) -> None:
    folder = make_folder(spec)
    assert execute(folder, settings, StopInPhase(folder, phase, 5)) is RunState.CANCELLED
    assert folder.read_status()["phase"] == phase
    assert not folder.read_metrics()
    torch.manual_seed(1)  # another process would not have this one's global generator
    assert execute(folder, settings, stop) is RunState.DONE
    assert outcome(folder) == outcome(whole)
