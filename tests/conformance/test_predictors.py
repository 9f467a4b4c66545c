"""The checks of predictors: ours pass, and planted faults are found."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from augbench.bench.conformance.predictors import Converted, check_predictor
from augbench.bench.experiment.catalogues import networks, predictors
from augbench.bench.predictors.base import Predictor, PredictorSettings

CommandLine = Callable[..., tuple[int, str, str]]


def failures(kind: type[Predictor[Any]]) -> list[str]:
    source = Converted(kind, kind.settings_type(), networks().get("tiny")(), 14)
    return [one.check for one in check_predictor(source).failures]


@pytest.mark.parametrize("name", [entry.name for entry in predictors()])
def test_our_predictors_keep_the_contract(name: str) -> None:
    assert not failures(predictors().get(name))


class Noisy(nn.Module):
    """Adds noise in evaluation, too."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Map images to logits."""
        logits: Tensor = self.network(images)
        return logits + torch.randn_like(logits)


FAULTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "members it does not have": ({"members": 3}, ["build"]),
    "half a pass": ({"evaluation_passes": 0.5}, ["passes"]),
    "noise in prediction": ({"convert": lambda self, network: Noisy(network)}, ["evaluation", "state"]),
    "a regulariser without an end": ({"regulariser": lambda self, progress: torch.tensor(float("nan"))}, ["hooks"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    members, checks = FAULTS[fault]
    kind = type("Faulty", (Predictor,), {"name": "faulty", "settings_type": PredictorSettings, **members})
    assert failures(kind) == checks


def test_the_command_checks_a_predictor_with_a_network(augbench: CommandLine) -> None:
    code, shown, _ = augbench("check", "predictor", "batch-ensemble", "--set", "members=2", "--size", "14")
    assert code == 0, shown
    assert "batch-ensemble keeps the contract." in shown
