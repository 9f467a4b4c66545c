"""What every predictor must do: predict alone, repeatably, and from what its state says."""

from itertools import pairwise

import pytest
import torch
from predictor_factories import CLASSES, converted, make_predictor, some_inputs
from torch.nn import functional as F

from augbench.bench.experiment.catalogues import predictors

OTHERS = ("smallnet", "resnet18", "wrn-16-4")
NETWORKS = ["tiny", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
PREDICTORS = [entry.name for entry in predictors()]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", PREDICTORS)
def test_it_carries_our_networks(name: str, network: str) -> None:
    predictor = make_predictor(name, network)
    changed = converted(name, network)
    assert changed.train()(some_inputs()).shape == (6 * predictor.members, CLASSES)
    assert changed.eval()(some_inputs()).shape == (6, CLASSES)


@pytest.mark.parametrize("name", PREDICTORS)
def test_a_prediction_repeats_and_looks_at_each_image_alone(name: str) -> None:
    network = converted(name)
    with torch.no_grad():
        network.train()(some_inputs(40))
        network.eval()
        images = some_inputs()
        before, state = torch.get_rng_state(), [value.clone() for value in network.state_dict().values()]
        whole, again, parts = network(images), network(images), torch.cat([network(images[:2]), network(images[2:])])
    assert torch.equal(torch.get_rng_state(), before)
    assert all(map(torch.equal, state, network.state_dict().values()))
    assert torch.equal(whole, again)
    torch.testing.assert_close(parts, whole)
    assert all(not torch.allclose(one, other) for one, other in pairwise(whole))


@pytest.mark.parametrize("name", PREDICTORS)
def test_its_state_restores_it(name: str) -> None:
    network, other = converted(name), converted(name)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.1)
        network.train()(some_inputs())
        other.load_state_dict(network.state_dict())
        assert torch.equal(other.eval()(some_inputs()), network.eval()(some_inputs()))


@pytest.mark.parametrize("name", PREDICTORS)
def test_every_parameter_gets_a_gradient(name: str) -> None:
    predictor, network = make_predictor(name), converted(name).train()
    labels = (torch.arange(6) % CLASSES).repeat(predictor.members)
    F.cross_entropy(network(some_inputs()), labels).backward()
    assert not [place for place, one in network.named_parameters() if one.grad is None]


@pytest.mark.parametrize("name", PREDICTORS)
def test_the_same_seed_gives_the_same_weights(name: str) -> None:
    first, second = converted(name).state_dict(), converted(name).state_dict()
    assert list(first) == list(second)
    assert all(map(torch.equal, first.values(), second.values()))
