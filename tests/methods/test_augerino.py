"""Augerino against SciPy's matrix exponential, finite differences and its own formulas written down again."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from method_factories import make_method, seeded, some_images
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg import expm
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation import generators
from augbench.bench.contract.method import AugmentedBatch
from augbench.methods.augerino import Augerino

NAMES = ("x-translation", "y-translation", "rotation", "uniform-scale", "stretch", "symmetric-shear")
TINY = 1e-6


def _augerino(copies: int = 1, side: int = 28, **settings: Any) -> Augerino:
    return make_method(Augerino, side=side, copies=copies, settings=settings)


def _set_widths(method: Augerino, widths: list[float]) -> None:
    with torch.no_grad():
        method.raw_width.copy_(torch.tensor(widths, dtype=torch.float64).expm1().log())


def _generator_matrices(translation: float) -> list[NDArray[np.float64]]:
    matrices = [
        [[0, 0, translation], [0, 0, 0], [0, 0, 0]],
        [[0, 0, 0], [0, 0, translation], [0, 0, 0]],
        [[0, -1, 0], [1, 0, 0], [0, 0, 0]],
        [[1, 0, 0], [0, 1, 0], [0, 0, 0]],
        [[1, 0, 0], [0, -1, 0], [0, 0, 0]],
        [[0, 1, 0], [1, 0, 0], [0, 0, 0]],
    ]
    return [np.array(matrix, dtype=np.float64) for matrix in matrices]


# The law


def test_initial_widths_are_those_asked_for() -> None:
    assert _augerino().width.tolist() == pytest.approx(
        # softplus(1) and softplus(−5)
        [0.0067, 0.0067, 1.313, 0.0067, 0.0067, 0.0067],
        rel=1e-3,
    )
    assert _augerino(initial_width=4.0, initial_rotation_width=0.01).width.tolist() == pytest.approx(
        [4.0, 4.0, 0.01, 4.0, 4.0, 4.0], rel=1e-5
    )


@pytest.mark.parametrize("translation", [0.1, 0.7])
def test_images_are_resampled_with_exponentials_of_the_weighted_sum_of_generators(translation: float) -> None:
    method, images = _augerino(copies=2, translation_scale=translation), some_images(20, side=28)
    widths = [1.5, 0.9, 4.0, 0.6, 0.8, 0.7]
    _set_widths(method, widths)
    uniform = torch.rand(40, 6, generator=seeded(1)).double().numpy()
    sums = np.einsum("ng,gij->nij", np.array(widths) * (uniform - 0.5), np.array(_generator_matrices(translation)))
    grid = F.affine_grid(torch.from_numpy(expm(sums)[:, :2]), [40, 1, 28, 28], align_corners=False)
    twice = images.repeat(2, 1, 1, 1).double() / 255
    expected = F.grid_sample(twice, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    found = method.augment(images, seeded(1)).images.detach().double()
    # where rounding moves a place across the border of the image, a pixel may differ
    assert ((found - expected).abs() > 1e-3).double().mean() < 1e-3


def _sums(largest: float) -> Tensor:
    """Weighted sums of the generators, the largest of norm `largest`; (200, 3, 3) float64."""
    source = torch.Generator().manual_seed(8)
    coefficients = torch.rand(200, 6, generator=source, dtype=torch.float64) - 0.5
    sums = torch.einsum("ng,gij->nij", coefficients, generators.generator_matrices(0.5, torch.device("cpu")).double())
    return sums * (largest / torch.linalg.matrix_norm(sums, 2).max())


@pytest.mark.parametrize(("largest", "error"), [(1e-3, 2e-7), (1.0, 1e-6), (8.0, 1e-6), (12.0, 1e-5)])
def test_exponential_equals_that_of_scipy(largest: float, error: float) -> None:
    sums = _sums(largest)
    expected = torch.from_numpy(expm(sums.numpy()))
    apart = (generators.exponential(sums.float()) - expected).abs().amax((1, 2)) / expected.abs().amax((1, 2))
    assert apart.max() < error
    assert apart.max() > 0


def test_exponential_of_nothing_is_exactly_the_identity() -> None:
    assert torch.equal(generators.exponential(torch.zeros(2, 3, 3)), torch.eye(3).expand(2, 3, 3))


@pytest.mark.parametrize("largest", [1e-3, 1.0, 5.0])
def test_gradient_of_the_exponential_equals_that_of_torch(largest: float) -> None:
    sums, weights = _sums(largest), torch.randn(200, 3, 3, generator=torch.Generator().manual_seed(9)).double()
    gradients = []
    for function in (torch.linalg.matrix_exp, generators.exponential):
        place = sums.clone().requires_grad_()
        gradients.append(torch.autograd.grad((function(place) * weights).sum(), place)[0])
    expected, found = gradients
    assert ((found - expected).abs().amax((1, 2)) / expected.abs().amax((1, 2))).max() < 1e-6


# Objective


@pytest.mark.parametrize("weight", [0.05, 0.5])
def test_regulariser_is_the_negative_norm_of_the_widths(weight: float) -> None:
    method = _augerino(regularisation=weight)
    widths = [0.5, 0.4, 2.0, 0.3, 0.2, 0.1]
    _set_widths(method, widths)
    regulariser = method.regulariser()
    norm = math.sqrt(sum(width**2 for width in widths))
    assert float(regulariser.detach()) == pytest.approx(-weight * norm)
    regulariser.backward()
    assert method.raw_width.grad is not None
    slopes = [-weight * width / norm * (1 - math.exp(-width)) for width in widths]  # dw/draw = 1 − e^(−w)
    assert method.raw_width.grad.tolist() == pytest.approx(slopes, rel=1e-4)


@pytest.mark.parametrize("index", range(6))
def test_reward_stops_when_any_width_reaches_the_cut_off(index: int) -> None:
    method = _augerino(cut_off=3.0)
    widths = [0.5] * 6
    widths[index] = 2.99
    _set_widths(method, widths)
    assert float(method.regulariser().detach()) < -0.1
    widths[index] = 3.01
    _set_widths(method, widths)
    regulariser = method.regulariser()
    assert float(regulariser.detach()) == 0
    regulariser.backward()
    assert method.raw_width.grad is not None
    assert method.raw_width.grad.abs().max() == 0


def test_gradient_of_the_loss_in_the_widths_equals_central_differences() -> None:
    method = _augerino(side=32)
    start = torch.tensor([1.0, 0.8, 1.2, 0.5, 0.6, 0.7], dtype=torch.float64).expm1().log()
    method.generators = method.generators.double()
    line = torch.linspace(-1, 1, 32, dtype=torch.float64)
    image = torch.exp(-(((line[:, None] - 0.2) ** 2 + 2 * (line + 0.1) ** 2) / 0.1))
    weights = torch.randn(8, 1, 32, 32, generator=torch.Generator().manual_seed(4), dtype=torch.float64)

    def loss(raw: Tensor) -> Tensor:
        method.raw_width = raw
        copies = method.augment(image.expand(8, 1, 32, 32), torch.Generator().manual_seed(5))
        return (copies.images * weights).sum()

    raw = start.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(raw), raw)
    step = 1e-6
    with torch.no_grad():
        changes = [loss(start + shift) - loss(start - shift) for shift in step * torch.eye(6, dtype=torch.float64)]
    assert gradient.abs().min() > 1e-3
    torch.testing.assert_close(gradient, torch.stack(changes) / (2 * step), rtol=1e-4, atol=1e-4)


# Steps, state and report


def _step(method: Augerino, seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    (method.width * torch.randn(6, generator=source)).sum().backward()
    method.after_backward(torch.zeros(1, 1), AugmentedBatch(torch.zeros(1, 1, 28, 28)))


def test_steps_are_those_of_adam() -> None:
    method = _augerino(learning_rate=0.03)
    reference = method.raw_width.detach().clone().requires_grad_()
    adam = torch.optim.Adam([reference], lr=0.03)
    for seed in range(4):
        _step(method, seed)
        adam.zero_grad()
        (F.softplus(reference) * torch.randn(6, generator=torch.Generator().manual_seed(seed))).sum().backward()
        adam.step()
    torch.testing.assert_close(method.raw_width, reference)
    assert (method.raw_width - _augerino().raw_width).abs().min() > 1e-3


def test_learned_numbers_are_half_widths() -> None:
    method = _augerino(translation_scale=0.2)
    _set_widths(method, [1.0, 2.0, 3.0, 0.4, 0.6, 0.8])
    expected = dict(zip(NAMES, [0.1, 0.2, 1.5, 0.2, 0.3, 0.4], strict=True))
    learned = method.learned()
    assert list(learned) == [f"range/{name}" for name in NAMES]
    assert learned == pytest.approx({f"range/{name}": value for name, value in expected.items()})


# The law of the transforms of the plane


def test_a_dot_moves_in_images_as_the_transforms_move_its_place() -> None:
    method, count, size = _augerino(side=32), 1500, 32
    _set_widths(method, [3.0, 1.0, 2.0, 0.3, 0.3, 0.3])
    line = (2 * torch.arange(size) + 1) / size - 1
    x, y = 0.35, -0.2
    dot = torch.exp(-((line - x) ** 2 + (line[:, None] - y) ** 2) / 0.02)
    moved = method.augment(dot.expand(count, 1, size, size), torch.Generator().manual_seed(9)).images.detach()[:, 0]
    total = moved.sum((1, 2))
    places = torch.stack(((moved.sum(1) * line).sum(1) / total, (moved.sum(2) * line).sum(1) / total), dim=1)
    matrices = method.sample_transforms(count, torch.Generator().manual_seed(10))
    expected = matrices @ torch.tensor([x, y, 1.0])
    assert places.std(0).min() > 0.1
    for seen, told in zip(places.T, expected.T, strict=True):
        assert stats.ks_2samp(seen.numpy(), told.numpy()).pvalue > 1e-3
