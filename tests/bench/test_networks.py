"""The networks: their size, the images that they take and their gradients."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from augbench.bench.catalogues import networks
from augbench.bench.network import Normalised

PARAMETERS = {"smallnet": 1_628_810, "tiny": 26_394}


def _build(name: str, channels: int, classes: int = 10) -> nn.Module:
    torch.manual_seed(0)
    return networks().get(name)().build(channels, classes)


@pytest.mark.parametrize("name", PARAMETERS)
def test_number_of_parameters_is_the_published_one(name: str) -> None:
    count = sum(parameter.numel() for parameter in _build(name, channels=1).parameters())
    assert count == PARAMETERS[name]
    assert f"{count:,} parameters" in networks().get(name).title


def test_parameters_of_smallnet_are_those_of_its_layers_counted_by_hand() -> None:
    channels = [3, 128, 128, 256, 256, 256]
    convolutions = sum(9 * before * after + after for before, after in pairwise(channels))
    normalisations = sum(2 * after for after in channels[1:])
    linear = 256 * 7 + 7
    count = sum(parameter.numel() for parameter in _build("smallnet", channels=3, classes=7).parameters())
    assert count == convolutions + normalisations + linear


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize(("channels", "size"), [(1, 28), (1, 14), (3, 32)])
def test_images_become_logits_and_every_weight_gets_a_finite_gradient(name: str, channels: int, size: int) -> None:
    network = Normalised(_build(name, channels), torch.full((channels,), 0.4), torch.full((channels,), 0.3))
    images = torch.rand(4, channels, size, size, generator=torch.Generator().manual_seed(1))
    logits = network(images)
    assert logits.shape == (4, 10)
    nn.functional.cross_entropy(logits, torch.arange(4)).backward()
    for name_of_weight, weight in network.named_parameters():
        assert weight.grad is not None, name_of_weight
        assert weight.grad.isfinite().all(), name_of_weight
    assert network.network[-1].weight.grad.abs().max() > 0


def test_smallnet_halves_the_plane_twice_and_drops_whole_channels_in_training_only() -> None:
    network = _build("smallnet", channels=1)
    dropouts = [layer for layer in network.modules() if isinstance(layer, nn.Dropout2d)]
    assert [layer.p for layer in dropouts] == [0.3] * 3
    images = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(2))
    pooled = [layer for layer in network if isinstance(layer, nn.MaxPool2d)]
    last = network[: list(network).index(pooled[-1]) + 1]  # type: ignore[index]
    assert last(images).shape == (2, 256, 7, 7)
    assert not torch.equal(network(images), network(images))
    network.eval()
    assert torch.equal(network(images), network(images))
