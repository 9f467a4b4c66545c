"""A whole step of the recipes against their formulas: smoothed labels, clipping, and what decays."""

from typing import Any

import pytest
import torch
from short_runs import Runs
from torch import nn

from augbench.bench.experiment.protocol import Budget
from augbench.bench.training.optimizer import clip_gradient, network_optimizer


class Several(nn.Module):
    """Has parameters of every kind: a bias of a layer that is none, norms, and one that two layers share."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3, bias=False)
        self.second.weight = self.first.weight
        self.batch, self.group, self.layer = nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.LayerNorm(4)
        self.scale = nn.Parameter(torch.ones(4))


NORMS = {f"{norm}.{name}" for norm in ("batch", "group", "layer") for name in ("weight", "bias")}


@pytest.mark.parametrize(
    ("decayed", "spared"), [("all", set()), ("all but norms", NORMS), ("weights", NORMS | {"first.bias"})]
)
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_what_decays(kind: str, decayed: str, spared: set[str]) -> None:
    network = Several()
    budget = Budget.model_validate({"epochs": 1, "optimizer": kind, "weight_decay": 0.1, "decayed": decayed})
    groups = network_optimizer(network, budget).param_groups
    names = {parameter: name for name, parameter in network.named_parameters()}
    decays = {names[parameter]: group["weight_decay"] for group in groups for parameter in group["params"]}
    assert set(decays) == set(names.values())
    assert {name for name, decay in decays.items() if decay == 0} == spared
    assert set(decays.values()) <= {0.0, 0.1}
    if decayed == "all":
        (group,) = groups
        assert all(one is two for one, two in zip(group["params"], network.parameters(), strict=True))


@pytest.mark.parametrize(("largest", "kept"), [(None, 1.0), (2.5, 0.5), (10.0, 1.0)])
def test_a_long_gradient_is_shortened(largest: float | None, kept: float) -> None:
    network = nn.Linear(2, 1)
    network.weight.grad, network.bias.grad = torch.tensor([[0.0, 3.0]]), torch.tensor([4.0])
    clip_gradient(network, Budget(epochs=1, gradient_clip=largest))
    assert network.weight.grad.flatten().tolist() == pytest.approx([0, 3 * kept], rel=1e-5)
    assert network.bias.grad.tolist() == pytest.approx([4 * kept], rel=1e-5)


def test_a_step_of_a_recipe_is_that_of_its_formulas(runs: Runs) -> None:
    recipe: dict[str, Any] = {"optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.5, "decayed": "weights"}
    recipe |= {"schedule": "cosine", "learning_rate": 0.4, "warm_up": 0.5, "warm_up_start": 0.25}
    recipe |= {"gradient_clip": 0.05, "label_smoothing": 0.2}
    budget = Budget.model_validate({"epochs": 1, "batch_size": 64, **recipe})
    trainer = runs.trainer(runs.spec().model_copy(update={"budget": budget}))
    network, batch = trainer.network.train(), torch.arange(64)
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    logits = network(trainer.data.train.images[batch] / 255)
    targets = torch.full((64, 10), 0.02)
    targets[batch, trainer.data.train.labels[batch]] += 0.8
    gradients = torch.autograd.grad(-(targets * logits.log_softmax(1)).sum(1).mean(), list(network.parameters()))
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    assert norm > 0.05
    network.load_state_dict(trainer.network.state_dict())
    trainer.train_step(batch)
    for (name, parameter), gradient in zip(network.named_parameters(), gradients, strict=True):
        decay = 0.5 * before[name] if parameter.ndim > 1 else 0  # the others of this network are norms and biases
        expected = before[name] - 0.1 * (gradient * 0.05 / norm + decay)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-4, atol=1e-6)
