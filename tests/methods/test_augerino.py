"""Augerino against SciPy's matrix exponential, finite differences and its own formulas written down again."""

import io
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg import expm, logm
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import shared_space
from augbench.bench.contract.method import AugmentedBatch, RunContext
from augbench.methods import augerino
from augbench.methods.augerino import Augerino, AugerinoHyperparameters

NAMES = ("x-translation", "y-translation", "rotation", "uniform-scale", "stretch", "symmetric-shear")
TINY = 1e-6


def _augerino(copies: int = 1, size: int = 28, **hyperparameters: Any) -> Augerino:
    context = RunContext(
        space=shared_space(size),
        channels=1,
        classes=10,
        train_size=100,
        epochs=10,
        baseline_copies=copies,
        device=torch.device("cpu"),
    )
    return Augerino(AugerinoHyperparameters(**hyperparameters), context)


def _set_widths(method: Augerino, widths: list[float]) -> None:
    with torch.no_grad():
        method.raw_width.copy_(torch.tensor(widths, dtype=torch.float64).expm1().log())


def _images(count: int, size: int = 28) -> Tensor:
    source = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, 1, size, size), dtype=torch.uint8, generator=source)


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


def _used_matrices(method: Augerino, count: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> NDArray[np.float64]:
    """Matrices that the images are resampled with."""
    seen: list[Tensor] = []

    def spy(images: Tensor, matrices: Tensor) -> Tensor:
        seen.append(matrices.detach())
        return images

    with monkeypatch.context() as patch:
        patch.setattr(augerino, "resample", spy)
        method.augment(_images(count), torch.Generator().manual_seed(seed))
    assert len(seen) == 1
    return seen[0].double().numpy()


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


def test_width_is_the_softplus_of_the_raw_parameter() -> None:
    method = _augerino()
    raw = method.raw_width.detach().double().numpy()
    np.testing.assert_allclose(method.width.detach().numpy(), np.log1p(np.exp(raw)), rtol=1e-6)


@pytest.mark.parametrize("translation", [0.1, 0.7])
def test_matrices_are_exponentials_of_the_weighted_sum_of_generators(
    translation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = _augerino(translation_scale=translation)
    widths = [1.5, 0.9, 4.0, 0.6, 0.8, 0.7]
    _set_widths(method, widths)
    matrices = _used_matrices(method, 40, seed=1, monkeypatch=monkeypatch)
    uniform = torch.rand(40, 6, generator=torch.Generator().manual_seed(1)).double().numpy()
    assert matrices.shape == (40, 2, 3)
    for matrix, row in zip(matrices, uniform, strict=True):
        weights = np.array(widths) * (row - 0.5)
        total = sum(w * g for w, g in zip(weights, _generator_matrices(translation), strict=True))
        np.testing.assert_allclose(matrix, expm(total)[:2], atol=1e-5)


def _sums(largest: float) -> Tensor:
    """Weighted sums of the generators, the largest of norm `largest`; (200, 3, 3) float64."""
    source = torch.Generator().manual_seed(8)
    coefficients = torch.rand(200, 6, generator=source, dtype=torch.float64) - 0.5
    sums = torch.einsum("ng,gij->nij", coefficients, augerino._generators(0.5, torch.device("cpu")).double())
    return sums * (largest / torch.linalg.matrix_norm(sums, 2).max())


@pytest.mark.parametrize(("largest", "error"), [(1e-3, 2e-7), (1.0, 1e-6), (8.0, 1e-6), (12.0, 1e-5)])
def test_exponential_equals_that_of_scipy(largest: float, error: float) -> None:
    sums = _sums(largest)
    expected = torch.from_numpy(expm(sums.numpy()))
    apart = (augerino.exponential(sums.float()) - expected).abs().amax((1, 2)) / expected.abs().amax((1, 2))
    assert apart.max() < error
    assert apart.max() > 0


def test_exponential_of_nothing_is_exactly_the_identity() -> None:
    assert torch.equal(augerino.exponential(torch.zeros(2, 3, 3)), torch.eye(3).expand(2, 3, 3))


@pytest.mark.parametrize("largest", [1e-3, 1.0, 5.0])
def test_gradient_of_the_exponential_equals_that_of_torch(largest: float) -> None:
    sums, weights = _sums(largest), torch.randn(200, 3, 3, generator=torch.Generator().manual_seed(9)).double()
    gradients = []
    for function in (torch.linalg.matrix_exp, augerino.exponential):
        place = sums.clone().requires_grad_()
        gradients.append(torch.autograd.grad((function(place) * weights).sum(), place)[0])
    expected, found = gradients
    assert ((found - expected).abs().amax((1, 2)) / expected.abs().amax((1, 2))).max() < 1e-6


def test_rotation_width_alone_gives_rotations_uniform_within_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    method = _augerino(initial_width=TINY, initial_rotation_width=2.0)
    matrices = _used_matrices(method, 3000, seed=2, monkeypatch=monkeypatch)
    linear = matrices[:, :, :2]
    np.testing.assert_allclose(linear @ linear.transpose(0, 2, 1), np.broadcast_to(np.eye(2), linear.shape), atol=1e-5)
    np.testing.assert_allclose(np.linalg.det(linear), 1, atol=1e-5)
    np.testing.assert_allclose(matrices[:, :, 2], 0, atol=1e-6)
    angles = np.arctan2(linear[:, 1, 0], linear[:, 0, 0])
    assert stats.kstest(angles, stats.uniform(-1, 2).cdf).pvalue > 1e-3


def test_images_are_resampled_with_the_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    method = _augerino(copies=2)
    images = _images(5)
    matrices = torch.from_numpy(_used_matrices(method, 5, seed=3, monkeypatch=monkeypatch))
    copies = method.augment(images, torch.Generator().manual_seed(3))
    twice = images.repeat(2, 1, 1, 1).double() / 255
    grid = F.affine_grid(matrices, [10, 1, 28, 28], align_corners=False)
    expected = F.grid_sample(twice, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    torch.testing.assert_close(copies.images.detach().double(), expected, atol=1e-4, rtol=0)


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
    method = _augerino(size=32)
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


def test_state_goes_round_with_the_moments_of_adam() -> None:
    method, restored, without_moments = _augerino(), _augerino(), _augerino()
    for seed in range(3):
        _step(method, seed)
    file = io.BytesIO()
    torch.save(method.state_dict(), file)
    file.seek(0)
    state = torch.load(file)
    restored.load_state_dict(state)
    with torch.no_grad():
        without_moments.raw_width.copy_(state["learnable"]["raw_width"])
    assert torch.equal(restored.raw_width, method.raw_width)
    for each in (method, restored, without_moments):
        _step(each, 10)
    assert torch.equal(restored.raw_width, method.raw_width)
    assert not torch.equal(without_moments.raw_width, method.raw_width)


def test_learned_numbers_are_half_widths() -> None:
    method = _augerino(translation_scale=0.2)
    _set_widths(method, [1.0, 2.0, 3.0, 0.4, 0.6, 0.8])
    expected = dict(zip(NAMES, [0.1, 0.2, 1.5, 0.2, 0.3, 0.4], strict=True))
    learned = method.learned()
    assert list(learned) == [f"range/{name}" for name in NAMES]
    assert learned == pytest.approx({f"range/{name}": value for name, value in expected.items()})


def test_test_policy_draws_from_the_learned_law() -> None:
    method = _augerino()
    images = _images(6)
    policy = method.test_policy()
    with torch.no_grad():
        drawn = policy(images, torch.Generator().manual_seed(6))
    assert drawn.shape == images.shape
    assert 0 <= drawn.min() <= drawn.max() <= 1
    torch.testing.assert_close(drawn, method.augment(images, torch.Generator().manual_seed(6)).images)
    _set_widths(method, [TINY] * 6)
    still = policy(images, torch.Generator().manual_seed(6)).detach()
    torch.testing.assert_close(still, images.float() / 255, atol=1e-4, rtol=0)
    assert (drawn - still).abs().max() > 0.1


# The law of the transforms of the plane


def _coefficients(matrices: NDArray[np.float64], translation: float) -> NDArray[np.float64]:
    """Coefficients of the six generators, from the matrix logarithm; (N, 6)."""
    bottom = np.broadcast_to([[0.0, 0.0, 1.0]], (len(matrices), 1, 3))
    logarithms = np.array([logm(matrix) for matrix in np.concatenate((matrices, bottom), axis=1)]).real
    basis = np.stack([matrix.ravel() for matrix in _generator_matrices(translation)], axis=1)
    solution: NDArray[np.float64] = np.linalg.lstsq(basis, logarithms.reshape(-1, 9).T, rcond=None)[0].T
    return solution


def _inverted(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    bottom = np.broadcast_to([[0.0, 0.0, 1.0]], (len(matrices), 1, 3))
    inverses: NDArray[np.float64] = np.linalg.inv(np.concatenate((matrices, bottom), axis=1))[:, :2]
    return inverses


def test_transforms_have_the_law_of_the_inverses_of_what_images_are_resampled_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method = _augerino(translation_scale=0.2)
    widths = [2.0, 1.0, 3.0, 0.6, 0.8, 0.7]
    _set_widths(method, widths)
    sampled = method.sample_transforms(400, torch.Generator().manual_seed(7))
    assert sampled.shape == (400, 2, 3)
    assert not sampled.requires_grad
    acting = _inverted(_used_matrices(method, 400, seed=8, monkeypatch=monkeypatch))
    for matrices in (sampled.double().numpy(), acting):
        coefficients = _coefficients(matrices, 0.2)
        for values, width in zip(coefficients.T, widths, strict=True):
            assert np.abs(values).max() <= width / 2 + 1e-4
            assert stats.kstest(values, stats.uniform(-width / 2, width).cdf).pvalue > 1e-3


def test_a_dot_moves_in_images_as_the_transforms_move_its_place() -> None:
    method, count, size = _augerino(size=32), 1500, 32
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
