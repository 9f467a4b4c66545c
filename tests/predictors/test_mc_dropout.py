"""Monte Carlo dropout: where it drops, what it averages, and that nothing is left of it at a rate of 0."""

import math

import pytest
import torch
from predictor_factories import CLASSES, built, converted, make_predictor, some_inputs
from torch import nn

from augbench.bench.common.errors import UserError
from augbench.bench.common.randomness import generator
from augbench.bench.predictors.layers import Draws, Dropout

NETWORKS = ["tiny", "tiny-stride2", "smallnet", pytest.param("wrn-16-4", marks=pytest.mark.slow)]


@pytest.mark.parametrize("network", NETWORKS)
def test_at_rate_0_it_is_the_network(network: str) -> None:
    plain, dropped, images = built(network), converted("mc-dropout", network, rate=0.0), some_inputs()
    assert torch.equal(dropped.eval()(images), plain.eval()(images))
    torch.manual_seed(3)
    expected = plain.train()(images)
    torch.manual_seed(3)
    assert torch.equal(dropped.train()(images), expected)


@pytest.mark.parametrize(("network", "places"), [("tiny", 4), ("smallnet", 5), ("resnet18", 17), ("wrn-16-4", 13)])
def test_it_drops_after_every_hidden_layer_but_not_on_shortcuts(network: str, places: int) -> None:
    found = [layer for layer in converted("mc-dropout", network).modules() if isinstance(layer, Dropout)]
    assert len(found) == places  # the weighted layers but the first one and three projections


def test_the_prediction_is_the_mean_probability_of_the_samples() -> None:
    """Against masks drawn here, from the same streams, one for all images, put into a network of two layers."""
    torch.manual_seed(0)
    first, last = nn.Linear(3, 40), nn.Linear(40, CLASSES)
    predictor = make_predictor("mc-dropout", rate=0.4, samples=7)
    network = predictor.convert(nn.Sequential(first, nn.ReLU(), last)).eval()
    images = torch.randn(6, 3)
    expected = torch.zeros(6, CLASSES)
    for sample in range(7):
        mask = torch.ones(1, 40).bernoulli_(0.6, generator=generator(0, f"prediction/{sample}")) / 0.6
        expected += last(torch.relu(first(images)) * mask).softmax(-1) / 7
    found = network(images).exp()
    torch.testing.assert_close(found, expected)
    assert (found.sum(-1) - 1).abs().max() < 1e-6


def test_masks_keep_the_mean_and_the_share_of_values() -> None:
    draws = Draws(0)
    draws.begin(0, torch.device("cpu"))
    mask = Dropout(0.1, draws).eval()(torch.ones(2, 200_000))
    assert torch.equal(mask[0], mask[1])
    assert mask.unique().tolist() == pytest.approx([0, 1 / 0.9])
    assert (mask[0] == 0).float().mean().item() == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 200_000))


def test_a_network_without_a_hidden_layer_is_refused() -> None:
    with pytest.raises(UserError, match="'linear' cannot be used with the predictor 'mc-dropout': it has no hidden"):
        predictor = make_predictor("mc-dropout")
        object.__setattr__(predictor.context, "network", "linear")
        predictor.convert(nn.Sequential(nn.Flatten(), nn.Linear(196, CLASSES)))
