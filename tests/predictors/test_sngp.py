"""SNGP: spectral norms against singular values, covariances and random features against dense computations."""

import math

import numpy as np
import pytest
import torch
from predictor_factories import CLASSES, built, converted, make_predictor, some_inputs
from torch import Tensor, nn

from augbench.bench.common.errors import UserError
from augbench.bench.predictors.sngp import GaussianProcess, SNGPSettings, SpectralConvolution, orthogonal_features


def unrolled(layer: nn.Conv2d, size: tuple[int, ...]) -> Tensor:
    """Write a convolution without bias as a matrix, by putting every unit image through it."""
    units = torch.eye(math.prod(size)).view(-1, *size)
    with torch.no_grad():
        return nn.functional.conv2d(
            units, layer.weight, None, layer.stride, layer.padding, layer.dilation, layer.groups
        ).flatten(1)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(2, 3, 3, padding=1),
        nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False),
        nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=2),
        nn.Conv2d(2, 3, 1),
    ],
)
@pytest.mark.parametrize("bound", [0.3, 50.0])
def test_the_spectral_norm_is_the_largest_singular_value_of_the_unrolled_convolution(
    layer: nn.Conv2d, bound: float
) -> None:
    torch.manual_seed(0)
    layer.reset_parameters()
    size = (layer.in_channels, 6, 6)
    bounded = SpectralConvolution(layer, bound, torch.Size((1, *size))).train()
    images = torch.randn(5, *size)
    for _ in range(300):
        found = bounded(images)
    norm = np.linalg.svd(unrolled(layer, size).numpy(), compute_uv=False)[0]
    assert bounded.sigma().item() == pytest.approx(norm, rel=1e-4)
    bias = 0 if layer.bias is None else layer.bias.view(1, -1, 1, 1)
    torch.testing.assert_close(found, bias + (layer(images) - bias) * min(1, bound / norm), rtol=1e-4, atol=1e-5)
    state = [buffer.clone() for buffer in bounded.buffers()]
    bounded.eval()(images)
    assert all(map(torch.equal, state, bounded.buffers()))


def test_one_step_of_power_iteration_is_taken_in_each_pass_of_training() -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(2, 3, 3, padding=1)
    bounded = SpectralConvolution(layer, 1.0, torch.Size((1, 2, 6, 6))).train()
    layer.weight.data.normal_()
    matrix = unrolled(layer, (2, 6, 6)).T
    back = matrix.T @ bounded.left.flatten()
    forth = matrix @ (back / back.norm())
    bounded(torch.randn(2, 2, 6, 6))
    torch.testing.assert_close(bounded.left.flatten(), forth / forth.norm())


def process(**settings: float) -> GaussianProcess:
    torch.manual_seed(0)
    return GaussianProcess(7, CLASSES, SNGPSettings.model_validate({"features": 20, **settings}), copies=2)


def test_without_mean_field_it_gives_the_plain_logits() -> None:
    network = process(mean_field=0.0)
    hidden = torch.randn(30, 7)
    logits = network.train()(hidden)
    assert torch.equal(network.eval()(hidden), logits)


def test_variance_and_mean_field_are_those_of_a_dense_computation() -> None:
    network, hidden, ridge, factor = process(ridge=0.7, mean_field=3.0), torch.randn(30, 7), 0.7, 3.0
    new = torch.randn(4, 7)
    with torch.no_grad():
        for batch in hidden.split(8):
            network.train()(batch.repeat(2, 1))  # two copies, which count once
        found = network.eval()(new)
        weights = network.output.weight.double().numpy()
    features, tested = (
        np.cos(part.double().numpy() @ network.weight.double().numpy().T + network.phase.double().numpy())
        for part in (hidden, new)
    )
    covariance = ridge * np.linalg.inv(ridge * np.eye(20) + features.T @ features)
    variance = ((tested @ covariance) * tested).sum(1)
    expected = tested @ weights.T / np.sqrt(1 + factor * variance)[:, None]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_the_variance_is_that_of_bayesian_linear_regression() -> None:
    """Against the kernel's form, k** − k* (K + ridge)⁻¹ k*ᵀ, whose matrix has a row for each image."""
    network, hidden, new = process(ridge=0.5), torch.randn(15, 7), torch.randn(4, 7)
    with torch.no_grad():
        network.train()(hidden.repeat(2, 1))
        features, tested = network.features(hidden).double(), network.features(new).double()
        found = network.variance(network.features(new))
    cross = tested @ features.T
    gram = features @ features.T + 0.5 * torch.eye(15, dtype=torch.float64)
    expected = (tested @ tested.T - cross @ torch.linalg.solve(gram, cross.T)).diagonal()
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


def test_random_features_are_orthogonal_with_the_lengths_of_normal_vectors() -> None:
    torch.manual_seed(0)
    drawn = orthogonal_features(6000, 6)
    block = drawn[:6] / drawn[:6].norm(dim=1, keepdim=True)
    torch.testing.assert_close(block @ block.T, torch.eye(6), rtol=0, atol=1e-5)
    squares = drawn.square().sum(1)  # of a χ² distribution with 6 degrees of freedom
    assert squares.mean().item() == pytest.approx(6, abs=4 * math.sqrt(12 / 6000))
    assert squares.var().item() == pytest.approx(12, rel=0.15)


def test_the_precision_is_that_of_the_last_epoch() -> None:
    predictor = make_predictor("sngp", features=20)
    network = predictor.convert(built()).train()
    network(some_inputs())
    predictor.start_epoch()
    assert not [value for name, value in network.state_dict().items() if name.endswith("precision") and value.any()]


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (nn.Sequential(nn.Linear(196, CLASSES), nn.Conv2d(1, 1, 1)), "its last layer with weights, '1', is a Conv2d"),
        (nn.Sequential(nn.Conv2d(1, 1, 3, padding="same"), nn.Flatten(), nn.Linear(196, CLASSES)), "convolution '0'"),
        (nn.Sequential(nn.Flatten(), nn.Linear(196, 9)), "a linear layer that returns the logits"),
        (nn.Flatten(), "it has no layers"),
    ],
)
def test_a_network_that_cannot_be_carried_is_refused(network: nn.Module, words: str) -> None:
    with pytest.raises(UserError, match=words):
        make_predictor("sngp").convert(network)


def test_far_from_the_training_images_a_trained_process_is_less_certain() -> None:
    network = converted("sngp", mean_field=20.0)
    with torch.no_grad():
        for _ in range(20):
            network.train()(some_inputs(40))
        near, far = (network.eval()(images) for images in (some_inputs(40), 30 * some_inputs(40, seed=2)))
        plain = converted("sngp", mean_field=0.0)
        plain.load_state_dict(network.state_dict())
        factors = [
            (found / plain.eval()(images)).median().item()
            for found, images in ((near, some_inputs(40)), (far, 30 * some_inputs(40, seed=2)))
        ]
    assert factors[1] < factors[0] < 1
