"""The running average that a network is moved to, against a computation by hand and whole runs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from short_runs import Runs
from torch import nn

from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.spec import RunSpec, predictor_component
from augbench.bench.networks.fast_cnn import whitening_weight
from augbench.bench.runs.run_folder import RunFolder
from augbench.bench.training.lookahead import DECAY, Lookahead
from augbench.bench.training.optimizer import network_optimizer, set_learning_rate


def test_the_network_is_moved_every_fifth_step_and_ends_as_the_average() -> None:
    network = nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1))
    weight, mean = network[0].weight, network[1].running_mean
    weight.data.fill_(1.0)
    lookahead = Lookahead(network)
    average = current = np.array([1.0, 0.0])
    for step in range(1, 13):
        current = current + np.array([0.5, 0.25]) * step
        with torch.no_grad():
            weight += 0.5 * step
            mean += 0.25 * step  # type: ignore[operator]
        lookahead.after_step(step, 12)
        if step % 5 == 0:
            decay = 0.95**5 * (step / 12) ** 3
            average = decay * average + (1 - decay) * current
            current = average
        if step < 12:
            assert weight.item() == pytest.approx(current[0], rel=1e-6)
    assert (weight.item(), mean.item()) == pytest.approx(tuple(average), rel=1e-6)  # type: ignore[union-attr]
    assert pytest.approx(0.95**5) == DECAY


def test_what_is_not_learned_is_left_alone_and_an_average_is_taken_over() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    network[0].weight.requires_grad_(False)
    network.register_buffer("precision", torch.zeros(2))
    lookahead = Lookahead(network)
    assert set(lookahead.average) == {"0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"}
    other = Lookahead(network)
    other.load({name: tensor + 1 for name, tensor in lookahead.average.items()})
    assert all(torch.equal(other.average[name], tensor + 1) for name, tensor in lookahead.average.items())


FAST: dict[str, Any] = {
    "optimizer": "sgd",
    "momentum": 0.85,
    "learning_rate": 0.3,
    "schedule": "linear",
    "warm_up": 0.2,
}
FAST |= {"weight_decay": 1e-3, "norm_bias_rate": 64.0, "lookahead": True, "label_smoothing": 0.2}


def fast_run(runs: Runs, **changes: Any) -> RunSpec:
    """A run of the fast network by its own recipe."""
    budget = Budget.model_validate({"epochs": 3, "batch_size": 64, **FAST, **changes})
    spec = runs.spec()
    network = spec.network.model_copy(update={"name": "fast-cnn-s"})
    return spec.model_copy(update={"budget": budget, "network": network})


def test_a_stop_changes_no_bit_and_the_average_makes_a_difference(
    runs: Runs, outcome: Callable[[RunFolder], dict[str, Any]]
) -> None:
    whole = runs.done(fast_run(runs))
    assert outcome(runs.in_parts(fast_run(runs), 8)) == outcome(whole)
    assert outcome(runs.done(fast_run(runs, lookahead=False)))["weights"] != outcome(whole)["weights"]


@pytest.mark.parametrize("predictor", [None, "ensemble-2"])
def test_networks_are_prepared_from_training_images_as_the_method_sees_them(runs: Runs, predictor: str | None) -> None:
    spec = fast_run(runs)
    if predictor is not None:
        spec = spec.model_copy(update={"predictor": predictor_component(predictor, {}, "a test")})
    trainer = runs.trainer(spec)
    mean, deviation = (one.view(-1, 1, 1) for one in trainer.data.mean_and_deviation)
    expected = whitening_weight(((trainer.data.train.images / 255 - mean) / deviation).double()).float()
    firsts = [layer for layer in trainer.network.modules() if isinstance(layer, nn.Conv2d) and layer.in_channels == 1]
    assert len(firsts) == (1 if predictor is None else 2)
    for first in firsts:
        torch.testing.assert_close(first.weight[:4], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("decayed", "decay"), [("all", 0.1 / 64), ("all but norms", 0.0)])
def test_biases_of_norms_have_a_rate_of_their_own_and_the_same_decay_for_each_step(decayed: str, decay: float) -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    budget = Budget.model_validate({"epochs": 1, "weight_decay": 0.1, "norm_bias_rate": 64.0, "decayed": decayed})
    optimizer = network_optimizer(network, budget)
    set_learning_rate(optimizer, 0.5)
    (group,) = [group for group in optimizer.param_groups if group["params"][0] is network[1].bias]
    assert (group["lr"], group["weight_decay"], len(group["params"])) == (32.0, decay, 1)
    others = [parameter for group in optimizer.param_groups for parameter in group["params"] if group["lr"] == 0.5]
    assert len(others) == 3
