"""Predictors and what they make of networks, for tests."""

from typing import Any

import torch
from torch import Tensor, nn

from augbench.bench.experiment.catalogues import networks, predictors
from augbench.bench.predictors.base import Predictor, PredictorContext

SIDE, CLASSES = 14, 5


def make_predictor(name: str, network: str = "tiny", **settings: Any) -> Predictor[Any]:
    """Make a predictor for grey images of 14 pixels and 5 classes."""
    kind, source = predictors().get(name), networks().get(network)
    context = PredictorContext(
        network=network,
        channels=1,
        side=SIDE,
        classes=CLASSES,
        train_size=100,
        copies=1,
        seed=0,
        build=lambda: source().build(1, CLASSES),
    )
    return kind(kind.settings_type.model_validate(settings), context)


def built(network: str = "tiny") -> nn.Module:
    """Build a network, always with the same weights."""
    torch.manual_seed(0)
    return networks().get(network)().build(1, CLASSES)


def converted(name: str, network: str = "tiny", **settings: Any) -> nn.Module:
    """Build the same network and have a predictor convert it."""
    return make_predictor(name, network, **settings).convert(built(network))


def some_inputs(count: int = 6, seed: int = 1) -> Tensor:
    """Make normalised images; (count, 1, 14, 14)."""
    return torch.randn(count, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))
