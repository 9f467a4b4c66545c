"""Colour images of 48 and 96 pixels go through every method and every network: search, steps, evaluation and probe."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from augbench.bench.conformance.problem import PROTOCOL, Problem
from augbench.bench.conformance.subject import StoppingObserver, train
from augbench.bench.data.dataset import ImageData, Split
from augbench.bench.experiment.catalogues import methods, networks
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.spec import Component, RunSpec, method_component, network_component
from augbench.bench.training.evaluation import evaluate
from augbench.bench.training.probe import accuracies
from augbench.bench.training.probe_kinds import ROTATION
from augbench.bench.training.trainer import Trainer, new_trainer

ONE_OF_EACH_KIND = ("augerino", "autoaugment", "scale")
SMALL = ("tiny", "tiny-stride2")
HEAVIEST = "wrn-28-10"  # at 96 pixels this test of it takes minutes


def _cases(names: Sequence[str], quick: Sequence[str]) -> list[Any]:
    """All at the largest size, which is slow, and a few at another one."""
    largest = [pytest.param(name, 48 if name == HEAVIEST else 96, marks=pytest.mark.slow) for name in names]
    return [*((name, 48) for name in quick), *largest]


def _few(data: ImageData, count: int) -> ImageData:
    parts = (Split(split.images[:count], split.labels[:count]) for split in (data.train, data.test))
    return replace(data, **dict(zip(("train", "test"), parts, strict=True)))


def _begun(method: str, network: str, side: int, images: int) -> Trainer:
    """Begin a run of one epoch on a few colour images."""
    target = methods().get(method)
    spec = RunSpec(
        protocol=PROTOCOL,
        method=method_component(method, target.quick_hyperparameters, "a test"),
        dataset=Component(name="given", version=1),
        network=network_component(network),
        budget=Budget(epochs=1, batch_size=8),
        seed=0,
    )
    return new_trainer(spec, _few(Problem("colour", 3, side).data(), images), torch.device("cpu"))


def _check(trainer: Trainer, steps: int) -> None:
    """Take some steps, and evaluate with test-time draws and on turned images, as a run does."""
    before = [weight.clone() for weight in trainer.network.parameters()]
    train(trainer, StoppingObserver(steps=steps))
    assert trainer.step == steps
    weights = list(trainer.network.parameters())
    assert all(weight.isfinite().all() for weight in weights)
    assert any(not torch.equal(*pair) for pair in zip(before, weights, strict=True))
    test, policy = trainer.data.test, trainer.method.test_policy()
    found = evaluate(trainer.network, policy, test, trainer.spec.protocol, 0, trainer.cost)
    for probabilities in found.probabilities.values():
        assert probabilities.shape[1:] == (len(test), trainer.data.classes)
    (turned,) = accuracies(trainer.network, test, ROTATION, [45.0], side=trainer.data.image_size)
    assert 0 <= turned <= 1


@pytest.mark.parametrize(("method", "side"), _cases([entry.name for entry in methods()], ONE_OF_EACH_KIND))
def test_every_method_learns_from_colour_images(method: str, side: int) -> None:
    trainer = _begun(method, "tiny", side, 120)  # as many as quick searches ask for
    _check(trainer, steps=2)
    copies = trainer.method.augment_indexed(trainer.data.train.images, torch.arange(4), trainer.augmentation)
    assert copies.images.shape == (4 * trainer.method.copies, 3, side, side)


@pytest.mark.parametrize(("network", "side"), _cases([entry.name for entry in networks()], SMALL))
def test_every_network_learns_from_colour_images(network: str, side: int) -> None:
    _check(_begun("fixed", network, side, 8), steps=1)
