"""Predictors in runs: stopped and resumed, evaluated, counted and loaded again."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from short_runs import Runs, result_of
from torch import Tensor, nn

from augbench.bench.experiment.catalogues import predictors
from augbench.bench.experiment.spec import RunSpec, predictor_component
from augbench.bench.runs.run_folder import RunFolder
from augbench.bench.training.evaluation import predict
from augbench.bench.training.probe import rotation_probe
from augbench.bench.training.trained import load_network

QUICK: dict[str, dict[str, Any]] = {
    "mc-dropout": {"samples": 3},
    "rank-1": {"samples": 2},
    "ensemble": {"members": 2},
    "sngp": {"features": 64},
    "sngp-ensemble": {"features": 64, "members": 2},
}
PREDICTORS = [entry.name for entry in predictors() if entry.name != "single"]
NORMS_OF_TINY = 4
Outcome = Callable[[RunFolder], dict[str, Any]]


@pytest.fixture
def spec_with(runs: Runs) -> Callable[..., RunSpec]:
    """Specify short runs with a predictor."""

    def make(predictor: str, method: str = "none", **settings: Any) -> RunSpec:
        component = predictor_component(predictor, QUICK.get(predictor, {}), "a test")
        return runs.spec(method, **settings).model_copy(update={"predictor": component})

    return make


@pytest.mark.slow
@pytest.mark.parametrize("name", PREDICTORS)
def test_interrupted_run_equals_an_uninterrupted_one_bit_for_bit(
    name: str, runs: Runs, spec_with: Callable[..., RunSpec], outcome: Outcome
) -> None:
    spec = spec_with(name, "scale", epochs=3)
    whole = runs.done(spec)
    # in the middle of the first epoch, at the end of it, at the start of the second, …
    parts = runs.in_parts(spec, 3, 5, 2, 6)
    assert outcome(parts) == outcome(whole)
    assert result_of(parts)["attempts"] == 5


@pytest.mark.parametrize("name", PREDICTORS)
def test_passes_through_the_network_are_counted(name: str, runs: Runs, spec_with: Callable[..., RunSpec]) -> None:
    """As many as a normalisation layer sees in a step and in a probe; in an ensemble, times the networks."""
    spec = spec_with(name, "augerino")
    trainer, seen = runs.trainer(spec), [0]

    def look(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        seen[0] += len(given[0])

    norm = next(layer for layer in trainer.network.modules() if isinstance(layer, nn.BatchNorm2d))
    norm.register_forward_pre_hook(look)
    norms = sum(isinstance(layer, nn.BatchNorm2d) for layer in trainer.network.modules()) // NORMS_OF_TINY
    trainer.network.train()
    trainer.train_step(torch.arange(10))
    assert trainer.cost.image_passes["training"] == seen[0] * norms == 10 * trainer.predictor.members
    seen[0] = 0
    rotation_probe(trainer.network, trainer.data.test, 2, trainer.cost)
    assert trainer.cost.image_passes["evaluation"] == seen[0] * norms == 200 * trainer.predictor.evaluation_passes


@pytest.mark.parametrize("name", PREDICTORS)
def test_a_finished_run_is_loaded_with_its_prediction(
    name: str, runs: Runs, spec_with: Callable[..., RunSpec], outcome: Outcome
) -> None:
    folder = runs.done(spec_with(name))
    trained = load_network(folder, runs.settings.data, torch.device("cpu"))
    found = predict(trained.network, trained.data.test.images)
    assert outcome(folder)["predictions"]["draws_0"] == found.numpy().tobytes()
