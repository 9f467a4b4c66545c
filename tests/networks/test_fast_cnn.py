"""The networks that train in few passes: how they begin, and that they compute what airbench's do."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from augbench.bench.experiment.catalogues import networks
from augbench.bench.networks.fast_cnn import FastCnn, whitening_weight

SIZES = {  # channels of images and of groups, convolutions of a group
    "fast-cnn-s": (1, (24, 48), 2),
    "fast-cnn-m": (3, (64, 256, 256), 2),
    "fast-cnn-l": (3, (128, 384, 512), 3),
}


def source(name: str) -> FastCnn:
    found = networks().get(name)()
    assert isinstance(found, FastCnn)
    return found


def build(name: str, channels: int, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return source(name).build(channels, 10)


def correlated_images(channels: int, count: int = 200, side: int = 9) -> Tensor:
    """Images whose neighbouring pixels and channels are alike, with a mean that is not 0."""
    noise = torch.randn(count, 1, side, side, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    smooth = F.avg_pool2d(noise, 3, stride=1, padding=1)
    own = torch.randn(count, channels, side, side, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    return 2 * smooth + 0.3 * own + 0.5


@pytest.mark.parametrize("name", SIZES)
def test_title_and_parameters_are_those_of_the_layers_counted_by_hand(name: str) -> None:
    channels, widths, depth = SIZES[name]
    whitened = 8 * channels
    count = whitened * channels * 4 + whitened
    before = whitened
    for width in widths:
        count += 9 * before * width + (depth - 1) * 9 * width * width + depth * 2 * width
        before = width
    count += 10 * before
    with torch.device("meta"):
        network = build(name, channels)
    assert sum(parameter.numel() for parameter in network.parameters()) == count
    images = "grey" if channels == 1 else "colour"
    layers = 1 + depth * len(widths)
    assert source(name).title == (
        f"{layers} convolutions and 1 linear layer; {count:,} parameters for {images} images and 10 classes"
    )


@pytest.mark.parametrize("channels", [1, 3])
def test_patches_are_whitened_as_numpy_finds_them(channels: int) -> None:
    images = correlated_images(channels)
    patches = np.lib.stride_tricks.sliding_window_view(images.numpy(), (2, 2), axis=(2, 3))
    flat = patches.transpose(0, 2, 3, 1, 4, 5).reshape(-1, 4 * channels)
    variances = np.linalg.eigvalsh(np.cov(flat.T, bias=True))
    found = F.conv2d(images, whitening_weight(images))
    covariance = np.cov(found.transpose(0, 1).flatten(1).numpy(), bias=True)
    np.testing.assert_allclose(covariance, np.diag(variances / (variances + 5e-4)), atol=1e-9)


def test_the_first_layer_gets_the_axes_and_their_negatives_and_learns_its_biases_alone() -> None:
    network = build("fast-cnn-s", 3)
    assert isinstance(network, nn.Sequential)
    first = network[0]
    source("fast-cnn-s").prepare(network, correlated_images(3).float())
    expected = whitening_weight(correlated_images(3).float().double()).float()
    assert torch.equal(first.weight[:12], expected)  # type: ignore[index]
    assert torch.equal(first.weight[12:], -expected)  # type: ignore[index]
    largest = expected.flatten(1).gather(1, expected.flatten(1).abs().argmax(1, keepdim=True))
    assert (largest > 0).all(), "signs do not depend on the library that finds the axes"
    fixed = [name for name, parameter in network.named_parameters() if not parameter.requires_grad]
    scales = [name for name, _ in network.named_parameters() if "weight" in name and name.split(".")[-2] in ("1", "2")]
    assert fixed[0] == "0.weight" and set(fixed[1:]) <= set(scales)
    assert len(fixed) == 1 + 4


@pytest.mark.parametrize("name", SIZES)
def test_later_convolutions_begin_by_passing_on_their_inputs(name: str) -> None:
    channels, widths, _ = SIZES[name]
    network = build(name, channels)
    convolutions = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)][1:]
    maps = torch.randn(2, 8 * channels, 7, 7, generator=torch.Generator().manual_seed(5))
    assert torch.allclose(convolutions[0](maps)[:, : 8 * channels], maps)
    assert convolutions[0].weight[8 * channels :].std() > 0
    assert [layer.out_channels for layer in convolutions[:: len(convolutions) // len(widths)]] == list(widths)


def test_three_convolutions_compute_what_airbench96_does() -> None:
    network = build("fast-cnn-l", 3).double().eval()
    weights = network.state_dict()
    for name, tensor in weights.items():
        if "running_var" in name:
            tensor.uniform_(0.5, 1.5)
        elif tensor.dtype == torch.float64 and tensor.ndim == 1:
            tensor.normal_()

    def normed(maps: Tensor, name: str) -> Tensor:
        mean, variance, bias = (weights[f"{name}.{key}"] for key in ("running_mean", "running_var", "bias"))
        scale = weights[f"{name}.weight"]
        return F.batch_norm(maps, mean, variance, scale, bias, eps=1e-12)

    maps = F.gelu(F.conv2d(correlated_images(3, 2, 32), weights["0.weight"], weights["0.bias"]))
    for group in ("2", "3", "4"):
        maps = F.max_pool2d(F.conv2d(maps, weights[f"{group}.first.0.weight"], padding=1), 2)
        found = F.gelu(normed(maps, f"{group}.first.2"))
        maps = F.gelu(normed(F.conv2d(found, weights[f"{group}.second.0.weight"], padding=1), f"{group}.second.1"))
        maps = normed(F.conv2d(maps, weights[f"{group}.third.0.weight"], padding=1), f"{group}.third.1")
        maps = F.gelu(maps + found)
    logits = F.max_pool2d(maps, 3).flatten(1) @ weights["7.weight"].T / 9
    torch.testing.assert_close(network(correlated_images(3, 2, 32)), logits)


@pytest.mark.parametrize("name", ["fast-cnn-s", "fast-cnn-m"])
@pytest.mark.parametrize(("channels", "side"), [(1, 14), (3, 16), (3, 32)])
def test_images_become_logits_and_what_is_learned_gets_a_gradient(name: str, channels: int, side: int) -> None:
    network = build(name, channels)
    logits = network(correlated_images(channels, 4, side).float())
    F.cross_entropy(logits, torch.arange(4)).backward()
    for parameter in network.parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None and parameter.grad.isfinite().all()
    assert logits.shape == (4, 10)
