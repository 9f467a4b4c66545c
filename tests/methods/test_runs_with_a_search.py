"""Whole runs of methods with a search: what the search costs, and that a stop in either phase changes no bit."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from augbench.bench.augmentation.base import BaseAugmentation
from augbench.bench.conformance.subject import StoppingObserver, train
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopCause, StopSignal
from augbench.bench.training.trainer import new_trainer
from augbench.bench.training.worker import execute, load_dataset

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]

SEARCH_PASSES = {
    "fast-aa": 2 * (2 * 120 + 5 * 2 * 80),  # folds · (epochs · train + trials · draws · held out)
    "faster-aa": 1 * (200 // 40) * 4 * 20,  # epochs · batches · 4 · half a batch
    "dada": 30 + 16 + 14,  # both halves, of 3 images of each class, in two steps
}
LEARNED = {"fast-aa": 15, "faster-aa": 15, "dada": 7}  # probabilities of operations or blocks

UNDER_A_BASE = {  # images that are cropped and flipped, and those with a cutout
    "fast-aa": 2 * (SEARCH_PASSES["fast-aa"],),
    "faster-aa": ((200 // 40) * 40, 0),
    "dada": (16 + 14, 16 + 14),  # those to fit on, augmented once
}


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


@pytest.mark.slow
def test_a_search_is_counted_apart_and_a_stop_in_either_phase_changes_no_bit(
    whole: RunFolder,
    spec: RunSpec,
    make_folder: MakeFolder,
    settings: ExecutionSettings,
    stop: StopSignal,
    outcome: Callable[[RunFolder], dict[str, Any]],
) -> None:
    result = whole.read_result()
    assert result is not None
    assert all(seconds["search"] > 0 for seconds in result["seconds"].values())
    assert result["image_passes"]["search"] == SEARCH_PASSES[spec.method.name]
    assert result["image_passes"]["training"] == 2 * 400
    assert sum(name.startswith("probability/") for name in result["learned"]) == LEARNED[spec.method.name]
    assert any(result["learned"].values())
    for phase in ("training", "search"):
        folder = make_folder(spec)
        assert execute(folder, settings, StopInPhase(folder, phase, 2)) is RunState.CANCELLED
        assert folder.read_status()["phase"] == phase
        assert not folder.read_metrics()
        torch.manual_seed(1)  # another process would not have this one's global generator
        assert execute(folder, settings, stop) is RunState.DONE
        assert outcome(folder) == outcome(whole)


@pytest.mark.slow
def test_a_search_fits_its_networks_on_images_with_the_base(
    spec: RunSpec, monkeypatch: pytest.MonkeyPatch, settings: ExecutionSettings, few_digits: None
) -> None:
    counts = {"before": 0, "after": 0}
    for name in counts:
        monkeypatch.setattr(BaseAugmentation, name, _counting(getattr(BaseAugmentation, name), counts, name))
    base = [{"name": "crop", "pixels": 2}, "flip", {"name": "cutout", "pixels": 7}]
    budget = Budget.model_validate({"epochs": 2, "batch_size": 64, "base": base})
    found = []
    for some in (spec, spec.model_copy(update={"budget": budget})):
        trainer = new_trainer(some, load_dataset(some.dataset, settings.data), torch.device("cpu"))
        train(trainer, StoppingObserver(search_only=True))
        found.append(trainer.method.state_dict()["learnable"])
    assert tuple(counts.values()) == UNDER_A_BASE[spec.method.name]
    if spec.method.name != "fast-aa":  # whose few trials are judged alike; its own test looks at what networks see
        assert any(not torch.equal(found[0][name], found[1][name]) for name in found[0])


def _counting(plain: Callable[..., Tensor], counts: dict[str, int], name: str) -> Callable[..., Tensor]:
    """Count the images that a step of a base changes."""

    def counting(base: BaseAugmentation, images: Tensor) -> Tensor:
        changed = plain(base, images)
        counts[name] += 0 if changed is images else len(changed)
        return changed

    return counting
