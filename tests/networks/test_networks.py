"""The networks: their size, the images that they take, their weights and their gradients."""

import copy
import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import resnet18, resnet34

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.catalogues import networks
from augbench.bench.networks.base import NetworkSource, Normalised, build_checked

TITLES = {  # layers, colour channels of the images, and parameters for 10 classes
    "resnet18": (20, 3, 11_173_962),
    "resnet34": (36, 3, 21_282_122),
    "smallnet": (5, 1, 1_628_810),
    "tiny": (4, 1, 26_394),
    "tiny-stride2": (4, 3, 27_450),
    "wrn-16-4": (16, 3, 2_748_890),
    "wrn-28-10": (28, 3, 36_479_194),
    "wrn-40-2": (40, 3, 2_243_546),
}
RESNETS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3)}  # blocks of each group
WIDE = {"wrn-16-4": (16, 4), "wrn-28-10": (28, 10), "wrn-40-2": (40, 2)}  # depth and width
LAST_MAPS = {  # side of what is averaged over the plane, for images of 14, 28, 32 and 96 pixels
    "resnet18": (2, 4, 4, 12),
    "resnet34": (2, 4, 4, 12),
    "smallnet": (3, 7, 8, 24),
    "tiny": (3, 7, 8, 24),
    "tiny-stride2": (1, 3, 4, 12),
    "wrn-16-4": (4, 7, 8, 24),
    "wrn-28-10": (4, 7, 8, 24),
    "wrn-40-2": (4, 7, 8, 24),
}
LARGE = ("wrn-28-10", *RESNETS)
SLOW_MARKED = [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in TITLES]


def _build(name: str, channels: int = 3, classes: int = 10, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return networks().get(name)().build(channels, classes)


def _build_empty(name: str, channels: int = 3, classes: int = 10) -> nn.Module:
    """A network whose tensors have shapes and no numbers, which costs nothing."""
    with torch.device("meta"):
        return _build(name, channels, classes)


def _count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def _images(number: int, channels: int, size: int) -> Tensor:
    return torch.rand(number, channels, size, size, generator=torch.Generator().manual_seed(1))


def _normalised(network: nn.Module, channels: int) -> Normalised:
    return Normalised(network, torch.full((channels,), 0.4), torch.full((channels,), 0.3))


def _convolutions(network: nn.Module) -> list[nn.Conv2d]:
    return [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]


def _linears(network: nn.Module) -> list[nn.Linear]:
    return [layer for layer in network.modules() if isinstance(layer, nn.Linear)]


def _normalisations(network: nn.Module) -> list[nn.BatchNorm2d]:
    return [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]


def _scramble(network: nn.Module) -> None:
    """Give every normalisation numbers of its own, so that none can stand in for another."""
    for layer in _normalisations(network):
        for spread in (layer.weight, layer.running_var):
            nn.init.uniform_(spread, 0.5, 1.5)
        for centre in (layer.bias, layer.running_mean):
            nn.init.normal_(centre)


@pytest.mark.parametrize("name", TITLES)
def test_title_has_the_numbers_of_layers_and_parameters(name: str) -> None:
    layers, channels, parameters = TITLES[name]
    images = "grey" if channels == 1 else "colour"
    assert networks().get(name).title == (
        f"{layers} convolutions and 1 linear layer; {parameters:,} parameters for {images} images and 10 classes"
    )
    network = _build_empty(name, channels)
    assert len(_convolutions(network)) == layers
    assert len(_linears(network)) == 1
    assert _count(network) == parameters


def test_parameters_of_smallnet_are_those_of_its_layers_counted_by_hand() -> None:
    channels = [3, 128, 128, 256, 256, 256]
    convolutions = sum(9 * before * after + after for before, after in pairwise(channels))
    normalisations = sum(2 * after for after in channels[1:])
    linear = 256 * 7 + 7
    assert _count(_build_empty("smallnet", channels=3, classes=7)) == convolutions + normalisations + linear


@pytest.mark.parametrize(("name", "kernel"), [("tiny", 3), ("tiny-stride2", 5)])
def test_parameters_of_tiny_networks_are_those_of_their_layers_counted_by_hand(name: str, kernel: int) -> None:
    channels = [16, 16, 32, 64]
    convolutions = kernel**2 * 3 * 16 + sum(9 * before * after for before, after in pairwise(channels))
    linear = 64 * 7 + 7
    assert _count(_build_empty(name, channels=3, classes=7)) == convolutions + 2 * sum(channels) + linear


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize(("channels", "classes"), [(3, 10), (3, 100), (1, 10)])
def test_parameters_of_wide_networks_are_those_of_the_paper_counted_by_hand(
    name: str, channels: int, classes: int
) -> None:
    depth, width = WIDE[name]
    blocks = (depth - 4) // 6
    outputs = [16, 16 * width, 32 * width, 64 * width]
    count = 9 * channels * 16
    for before, after in pairwise(outputs):
        first = 9 * before * after + 9 * after * after + 2 * before + 2 * after
        projection = before * after
        other = 2 * (9 * after * after) + 2 * (2 * after)
        count += first + projection + (blocks - 1) * other
    count += 2 * outputs[-1] + outputs[-1] * classes + classes
    assert _count(_build_empty(name, channels, classes)) == count


@pytest.mark.parametrize(("name", "parameters"), [("wrn-28-10", 36_536_884), ("resnet34", 21_328_292)])
def test_parameters_for_a_hundred_classes_are_the_published_ones(name: str, parameters: int) -> None:
    assert _count(_build_empty(name, classes=100)) == parameters


@pytest.mark.parametrize("name", RESNETS)
@pytest.mark.parametrize(("channels", "classes"), [(3, 10), (3, 100), (1, 10)])
def test_parameters_of_residual_networks_are_those_of_their_layers_counted_by_hand(
    name: str, channels: int, classes: int
) -> None:
    count = 9 * channels * 64 + 2 * 64
    for blocks, outputs in zip(RESNETS[name], (64, 128, 256, 512), strict=True):
        count += blocks * 2 * (9 * outputs * outputs + 2 * outputs)
    for before, after in pairwise([64, 128, 256, 512]):
        count -= 9 * after * after - 9 * before * after  # the first convolution of the group has fewer inputs
        count += before * after + 2 * after
    assert _count(_build_empty(name, channels, classes)) == count + 512 * classes + classes


@pytest.mark.parametrize(("name", "layers"), [("resnet18", 18), ("resnet34", 34)])
def test_residual_networks_have_the_layers_of_their_name_without_their_projections(name: str, layers: int) -> None:
    network = _build_empty(name)
    kernels = [layer.kernel_size for layer in _convolutions(network)]
    assert kernels.count((3, 3)) + len(_linears(network)) == layers
    assert kernels.count((1, 1)) == 3


@pytest.mark.parametrize("name", TITLES)
def test_images_of_every_size_end_in_logits_and_in_maps_of_the_expected_side(name: str) -> None:
    network = _build_empty(name, classes=100)
    sides: list[tuple[int, ...]] = []
    (pooling,) = [layer for layer in network.modules() if isinstance(layer, nn.AdaptiveAvgPool2d)]
    pooling.register_forward_pre_hook(lambda _, inputs: sides.append(tuple(inputs[0].shape[2:])))
    for size in (14, 28, 32, 96):
        assert network(torch.empty(5, 3, size, size, device="meta")).shape == (5, 100)
    assert sides == [(side, side) for side in LAST_MAPS[name]]


@pytest.mark.parametrize("name", SLOW_MARKED)
@pytest.mark.parametrize(("channels", "size"), [(1, 14), (3, 32)])
def test_images_become_logits_and_every_weight_gets_a_finite_gradient(name: str, channels: int, size: int) -> None:
    network = _normalised(_build(name, channels), channels)
    logits = network(_images(4, channels, size))
    assert logits.shape == (4, 10)
    F.cross_entropy(logits, torch.arange(4)).backward()
    for name_of_weight, weight in network.named_parameters():
        assert weight.grad is not None, name_of_weight
        assert weight.grad.isfinite().all(), name_of_weight
    for layer in (*_convolutions(network), *_linears(network), *_normalisations(network)):
        assert isinstance(layer.weight.grad, Tensor)
        assert layer.weight.grad.abs().max() > 0, layer


@pytest.mark.parametrize("name", SLOW_MARKED)
def test_the_seed_of_torch_decides_about_every_weight(name: str) -> None:
    first, again, other = (_build(name, channels=1, seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert all(not torch.equal(first[key], other[key]) for key in first if first[key].ndim > 1)


def _watch(network: nn.Module, images: Tensor) -> tuple[Tensor, list[bool]]:
    """Logits, and of each convolution whether its weights, its input and its output are in channels-last order."""
    seen: list[bool] = []

    def look(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        tensors = (layer.weight, inputs[0], output)
        seen.append(all(tensor.is_contiguous(memory_format=torch.channels_last) for tensor in tensors))

    for layer in _convolutions(network):
        layer.register_forward_hook(look)
    with torch.inference_mode():
        return network(images), seen


@pytest.mark.parametrize("name", SLOW_MARKED)
@pytest.mark.parametrize(("channels", "size"), [(1, 14), (3, 28)])
def test_every_convolution_works_in_channels_last_order_and_answers_as_in_the_other(
    name: str, channels: int, size: int
) -> None:
    network = _build(name, channels).eval()
    _scramble(network)
    images = _images(2, channels, size)
    expected, others = _watch(copy.deepcopy(network), (images - 0.4) / 0.3)
    logits, seen = _watch(_normalised(network, channels).eval(), images)
    assert seen == [True] * TITLES[name][0]
    assert not any(others[1:])
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))


def _wide_resnet(weights: Mapping[str, Tensor], blocks: int, images: Tensor) -> Tensor:
    """A wide network in evaluation, written down from the paper, with projections as in the original code."""

    def activated(features: Tensor, layer: str) -> Tensor:
        mean, variance, scale, shift = (
            weights[f"{layer}.{key}"][:, None, None] for key in ("running_mean", "running_var", "weight", "bias")
        )
        return (scale * (features - mean) / (variance + 1e-5).sqrt() + shift).clamp(min=0)

    features = F.conv2d(images, weights["0.weight"], padding=1)
    for group in (1, 2, 3):
        for block in range(blocks):
            name = f"{group}.{block}"
            stride = 2 if group > 1 and block == 0 else 1
            start = activated(features, f"{name}.activation.0")
            middle = F.conv2d(start, weights[f"{name}.convolutions.0.weight"], stride=stride, padding=1)
            middle = activated(middle, f"{name}.convolutions.1")
            end = F.conv2d(middle, weights[f"{name}.convolutions.3.weight"], padding=1)
            if block == 0:
                features = F.conv2d(start, weights[f"{name}.projection.weight"], stride=stride)
            features = features + end
    return activated(features, "4").mean((2, 3)) @ weights["8.weight"].T + weights["8.bias"]


@pytest.mark.parametrize("name", [name for name in SLOW_MARKED if name.values[0] in WIDE])
def test_wide_networks_compute_what_the_paper_describes(name: str) -> None:
    network = _build(name).double().eval()
    _scramble(network)
    nn.init.normal_(_linears(network)[0].bias)
    images = _images(2, 3, 14).double()
    with torch.inference_mode():
        expected = _wide_resnet(network.state_dict(), (WIDE[name][0] - 4) // 6, images)
        torch.testing.assert_close(network(images), expected, rtol=1e-9, atol=1e-9 * float(expected.abs().max()))


@pytest.mark.parametrize(("name", "torchvisions"), [("resnet18", resnet18), ("resnet34", resnet34)])
def test_residual_networks_compute_what_torchvisions_do_but_for_their_stem(
    name: str, torchvisions: Callable[..., Any]
) -> None:
    ours, theirs = _build(name).eval(), torchvisions(num_classes=10).eval()
    _scramble(ours)
    weights = dict(ours.state_dict())
    stem = weights.pop("conv1.weight")
    keys = theirs.load_state_dict(weights, strict=False)
    assert (keys.missing_keys, keys.unexpected_keys) == (["conv1.weight"], [])
    images = _images(2, 3, 32)
    features = theirs.relu(theirs.bn1(F.conv2d(images, stem, padding=1)))
    for group in (theirs.layer1, theirs.layer2, theirs.layer3, theirs.layer4):
        features = group(features)
    torch.testing.assert_close(ours(images), theirs.fc(features.mean((2, 3))))


@pytest.mark.parametrize("name", [*RESNETS, *WIDE])
def test_residual_networks_start_as_in_he_et_al_with_variances_2_by_outputs(name: str) -> None:
    network = _build(name)
    for layer in _convolutions(network):
        number, weight = layer.weight.numel(), layer.weight.detach()
        expected = math.sqrt(2 / (layer.weight[0, 0].numel() * layer.out_channels))
        assert layer.bias is None
        assert abs(float(weight.std()) / expected - 1) < 5 / math.sqrt(2 * number)
        assert abs(float(weight.mean())) < 5 * expected / math.sqrt(number)
    for layer in _normalisations(network):
        assert (layer.momentum, layer.eps) == (0.1, 1e-5)
        assert layer.weight.eq(1).all()
        assert layer.bias.eq(0).all()


@pytest.mark.parametrize("name", WIDE)
def test_the_linear_layer_of_wide_networks_starts_without_a_bias(name: str) -> None:
    (linear,) = _linears(_build(name))
    assert linear.bias.eq(0).all()
    bound = 1 / math.sqrt(linear.in_features)
    assert 0.95 * bound < float(linear.weight.detach().abs().max()) <= bound


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


class _Made(NetworkSource):
    """Returns what it is told to."""

    name = "made"

    def __init__(self, build: Callable[[int, int], Any]) -> None:
        self._build = build

    def build(self, channels: int, classes: int) -> nn.Module:
        """Build it."""
        return cast(nn.Module, self._build(channels, classes))


class _Head(nn.Module):
    """A linear layer on the mean of each channel, and something after it."""

    def __init__(self, change: Callable[[Tensor], Any], channels: int, classes: int) -> None:
        super().__init__()
        self.change, self.linear = change, nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Any:
        return self.change(self.linear(images.mean((2, 3))))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (None, "its `build` returned NoneType; it must return a torch.nn.Module"),
        (lambda logits: torch.cat([logits, logits], 1), "returned something of shape (2, 6)"),
        (lambda logits: torch.cat([logits, logits], 0), "returned something of shape (4, 3)"),
        (lambda logits: logits[:, 0], "returned something of shape (2,)"),
        (lambda logits: (logits, logits), "returned something of type tuple; it must return logits of shape (2, 3)"),
        (lambda logits: None, "returned something of type NoneType"),
    ],
)
def test_what_returns_no_logits_is_refused(change: Callable[[Tensor], Any] | None, words: str) -> None:
    source = _Made(lambda channels, classes: change and _Head(change, channels, classes))
    with pytest.raises(UserError) as caught:
        build_checked(source, 1, 8, 3)
    assert str(caught.value).startswith("The network 'made' cannot be used: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "least"), [("tiny", 4), ("tiny-stride2", 7), ("smallnet", 4), ("wrn-16-4", 1), ("resnet18", 1)]
)
def test_images_that_are_too_small_are_refused_with_the_side_that_is_needed(name: str, least: int) -> None:
    source = networks().get(name)()
    build_checked(source, 3, least, 10)
    for side in range(1, least):
        with pytest.raises(UserError, match=f"{name!r} cannot take images of {side}×{side} .* at least {least} pixels"):
            build_checked(source, 3, side, 10)


def test_what_fails_for_another_reason_fails_as_it_does() -> None:
    with pytest.raises(RuntimeError, match="no such kernel here"):
        build_checked(_Made(lambda *_: _Head(_no_kernel, 1, 3)), 1, 8, 3)


def _no_kernel(logits: Tensor) -> Tensor:
    raise RuntimeError("no such kernel here")


def test_checking_a_network_changes_nothing() -> None:
    class Restless(nn.Module):
        """Draws at random whenever it is used, and normalises."""

        def __init__(self) -> None:
            super().__init__()
            self.normalise, self.linear = nn.BatchNorm2d(1), nn.Linear(1, 3)

        def forward(self, images: Tensor) -> Tensor:
            return self.linear(self.normalise(images).mean((2, 3))) + torch.rand(3)

    torch.manual_seed(0)
    expected, after = Restless().state_dict(), torch.rand(1)
    torch.manual_seed(0)
    network = build_checked(_Made(lambda *_: Restless()), 1, 8, 3)
    assert torch.equal(torch.rand(1), after)
    assert network.training
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, expected[name])
