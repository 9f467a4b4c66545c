"""Whole runs of `fast-aa` and `faster-aa`: what their searches cost, and that a stop in either phase changes no bit."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from augbench.bench.catalogues import methods
from augbench.bench.launchers.launcher import Placement
from augbench.bench.run_folder import RunFolder, RunState
from augbench.bench.spec import RunSpec
from augbench.bench.worker import StopSignal, execute

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]

STEPS = 14 + 1  # two epochs of seven steps, and once in the evaluation
# folds · (epochs · train + trials · draws · held out), and epochs · batches · 4 · half a batch
SEARCH_PASSES = {"fast-aa": 2 * (2 * 120 + 5 * 2 * 80), "faster-aa": 1 * (200 // 40) * 4 * 20}


@pytest.fixture(params=SEARCH_PASSES)
def spec(request: pytest.FixtureRequest, make_spec: MakeSpec) -> RunSpec:
    """Make a run of two epochs after a quick search."""
    return make_spec(request.param, epochs=2, **methods().get(request.param).quick_hyperparameters)


@pytest.fixture
def whole(
    spec: RunSpec, make_folder: MakeFolder, placement: Placement, stop_after: Callable[[int], Any], few_digits: None
) -> tuple[RunFolder, int]:
    """Execute it without a stop; returns with it how often it asked."""
    folder, counter = make_folder(spec), stop_after(10**6)
    assert execute(folder, placement, counter) is RunState.DONE
    return folder, 10**6 - counter.left


def test_a_search_has_its_own_clock_and_count(spec: RunSpec, whole: tuple[RunFolder, int]) -> None:
    result = whole[0].read_result()
    assert result is not None
    assert all(seconds["search"] > 0 for seconds in result["seconds"].values())
    assert result["image_passes"]["search"] == SEARCH_PASSES[spec.method.name]
    assert result["image_passes"]["training"] == 2 * 400
    assert len(result["learned"]) == 15


@pytest.mark.parametrize("phase", ["training", "search"])
def test_a_run_that_was_stopped_equals_a_whole_one_bit_for_bit(
    phase: str,
    whole: tuple[RunFolder, int],
    spec: RunSpec,
    make_folder: MakeFolder,
    placement: Placement,
    stop: StopSignal,
    stop_after: Callable[[int], Any],
    outcome: Callable[[RunFolder], dict[str, Any]],
) -> None:
    folder, questions = make_folder(spec), whole[1]
    in_search = (questions - STEPS) // 2
    question = in_search if phase == "search" else questions - STEPS + 5
    assert execute(folder, placement, stop_after(question)) is RunState.CANCELLED
    assert not folder.read_metrics()
    torch.manual_seed(1)  # another process would not have this one's global generator
    assert execute(folder, placement, stop) is RunState.DONE
    assert outcome(folder) == outcome(whole[0])
