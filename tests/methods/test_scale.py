"""SCALE as a learner: its start, its projected gradient step, its annealing and what it saves and reports."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from method_factories import make_method, some_images
from numpy.typing import NDArray
from torch import Tensor

from augbench.bench.augmentation.affine_space import Draw
from augbench.bench.contract.method import AugmentedBatch
from augbench.methods.scale import Scale

BATCH = 6
BLOCKS = ("rotation", "x-scale", "y-scale", "x-shear", "half-turn", "flip", "crop")
MAXIMA = np.array([math.pi, math.log(2), math.log(2), 1.0])
SUPPORTS = np.array([2.0, 2.0, 25.0])
SLOPES = np.array([0.3, -0.7, 0.2, 1.1])  # of the made-up loss in the four magnitudes
OFFSETS = np.array([0.5, -0.4, 0.1, 0.2, -0.3, 0.6, -0.2])  # what each block adds to the loss


def _scale(**settings: Any) -> Scale:
    return make_method(Scale, settings=settings)


def _made_up_losses(draw: Draw, copies: int) -> Tensor:
    """A loss of the draw alone, so that its gradient can be worked out by hand; (M, B)."""
    slopes, offsets = torch.tensor(SLOPES).float(), torch.tensor(OFFSETS).float()
    strength = (draw.magnitudes * draw.active[:, :4] * slopes).sum(1)
    return (2 + strength + (draw.active * offsets).sum(1)).view(copies, -1)


def _take_step(method: Scale, seed: int = 1) -> tuple[AugmentedBatch, Tensor]:
    copies = method.augment(some_images(BATCH), torch.Generator().manual_seed(seed))
    assert copies.draw is not None
    losses = _made_up_losses(copies.draw, method.copies)
    regulariser = method.regulariser()
    objective = losses.mean() if regulariser is None else losses.mean() + regulariser
    if objective.requires_grad:
        objective.backward()
    method.after_backward(losses.detach(), copies)
    return copies, losses.detach()


def _arrays(method: Scale) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return method.probabilities.detach().double().numpy().copy(), method.ranges.detach().double().numpy().copy()


def _logit(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(probability / (1 - probability))


# Start and hyperparameters


def test_starts_at_one_seventh_and_a_tenth() -> None:
    method = _scale()
    assert method.probabilities.tolist() == pytest.approx([1 / 7] * 7)
    assert method.ranges.tolist() == pytest.approx([0.1] * 4)
    assert method.copies == 4
    assert _scale(initial_range=0.3).ranges.tolist() == pytest.approx([0.3] * 4)


# The step


def _gradient_of_the_divergence(
    pi: NDArray[np.float64], alpha: NDArray[np.float64], prior: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    moved = 1 - 1 / SUPPORTS
    target = np.log((1 - prior) / prior)
    first = _logit(pi[:4]) - target + np.log(MAXIMA / alpha)
    rest = moved * (_logit(moved * pi[4:]) - _logit(moved * (1 - prior)))
    return np.concatenate((first, rest)), -pi[:4] / alpha


def _pooled_by_hand(losses: Tensor, active: Tensor) -> NDArray[np.float64]:
    rows = losses.flatten().double().numpy()
    present = active.numpy()
    return np.array([rows[present[:, block]].mean() - rows[~present[:, block]].mean() for block in range(7)])


@pytest.mark.parametrize("epoch", [0, 3])
def test_one_step_is_the_plain_gradient_step_worked_out_by_hand(epoch: int) -> None:
    method = _scale(learning_rate=0.01, regularisation=0.05, prior=0.02, copies=8)
    with torch.no_grad():
        method.probabilities.copy_(torch.tensor([0.3, 0.4, 0.5, 0.6, 0.35, 0.45, 0.55]))
        method.ranges.copy_(torch.tensor([0.8, 0.2, 0.3, 0.4]))
    method.start_epoch(epoch)
    pi, alpha = _arrays(method)
    copies, losses = _take_step(method)
    assert copies.draw is not None
    of_pi, of_alpha = _gradient_of_the_divergence(pi, alpha, prior=0.02)
    magnitudes, active = copies.draw.magnitudes.detach().double().numpy(), copies.draw.active.numpy()
    pi_gradient = _pooled_by_hand(losses, copies.draw.active) + 0.05 * of_pi
    alpha_gradient = (SLOPES * magnitudes / alpha * active[:, :4]).mean(0) + 0.05 * of_alpha
    rate = 0.01 * (1 - epoch / 10)
    new_pi, new_alpha = _arrays(method)
    np.testing.assert_allclose((pi - new_pi) / rate, pi_gradient, atol=1e-4)
    np.testing.assert_allclose((alpha - new_alpha) / rate, alpha_gradient, atol=1e-4)
    assert np.abs(pi_gradient).min() > 0.01
    assert np.abs(alpha_gradient).min() > 0.01


def _constructed(method: Scale, active: Tensor, losses: Tensor) -> None:
    """Step on copies whose blocks are given; (M, B, 7)."""
    count = active[..., 0].numel()
    magnitudes = method.ranges * torch.linspace(-1, 1, count)[:, None]
    coins, offsets = torch.zeros(count, dtype=torch.bool), torch.zeros(count, 2, dtype=torch.long)
    draw = Draw(active.flatten(0, 1), magnitudes, coins, coins, offsets)
    method.after_backward(losses, AugmentedBatch(torch.zeros(count, 1, 14, 14), draw))


def test_a_block_that_the_batch_says_nothing_about_keeps_its_probability() -> None:
    method = _scale(learning_rate=0.01, regularisation=0.5)
    regulariser = method.regulariser()
    assert regulariser is not None
    regulariser.backward()
    active = torch.rand(4, BATCH, 7, generator=torch.Generator().manual_seed(3)) < 0.5
    active[..., 2], active[..., 5] = False, True
    before = method.probabilities.detach().clone()
    _constructed(method, active, torch.rand(4, BATCH, generator=torch.Generator().manual_seed(4)))
    same = method.probabilities.detach() == before
    assert same.tolist() == [block in (2, 5) for block in range(7)]


# Projection and annealing


@pytest.mark.parametrize("epoch", [0, 1, 7, 9])
def test_probabilities_are_kept_off_0_and_1_by_a_margin_that_falls_each_epoch(epoch: int) -> None:
    method = _scale(learning_rate=1.0)
    method.start_epoch(epoch)
    active = torch.rand(4, BATCH, 7, generator=torch.Generator().manual_seed(6)) < 0.5
    signs = torch.tensor([1, -1, 1, -1, 1, -1, 1.0])
    margin = 0.4 / 7 * (1 - epoch / 10)
    for block in range(7):
        _constructed(method, active, 1e4 * signs[block] * active[..., block])
        expected = margin if signs[block] > 0 else 1 - margin
        assert float(method.probabilities[block].detach()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("sign", "expected"), [(1, MAXIMA / 1000), (-1, MAXIMA)])
def test_ranges_are_kept_between_a_thousandth_of_their_maxima_and_the_maxima(
    sign: int, expected: NDArray[np.float64]
) -> None:
    method = _scale(learning_rate=1.0)
    (1e4 * sign * method.ranges.sum()).backward()
    active = torch.rand(4, BATCH, 7, generator=torch.Generator().manual_seed(7)) < 0.5
    _constructed(method, active, torch.ones(4, BATCH))
    assert method.ranges.tolist() == pytest.approx(expected.tolist(), rel=1e-6)


@pytest.mark.parametrize(("fraction", "joint"), [(1.0, 10), (0.6, 6)])
def test_rate_and_margin_fall_linearly_to_0_over_the_joint_epochs(fraction: float, joint: int) -> None:
    method = _scale(learning_rate=0.02, joint_share=fraction)
    rates, margins = [], []
    for epoch in range(10):
        method.start_epoch(epoch)
        rates.append(method.rate)
        margins.append(method.margin)
    remaining = [max(0.0, (joint - epoch) / joint) for epoch in range(10)]
    assert rates == pytest.approx([0.02 * share_left for share_left in remaining])
    assert margins == pytest.approx([0.4 / 7 * share_left for share_left in remaining])


def test_nothing_is_learned_after_the_joint_epochs() -> None:
    method = _scale(joint_share=0.5, learning_rate=0.1)
    method.start_epoch(4)
    _take_step(method)
    before = _arrays(method)
    assert np.abs(before[0] - 1 / 7).min() > 0
    for epoch in range(5, 10):
        method.start_epoch(epoch)
        assert method.regulariser() is None
        copies, _ = _take_step(method, seed=epoch)
        assert not copies.images.requires_grad
    assert all(map(np.array_equal, _arrays(method), before))


# What is saved, reported and drawn from


def test_learned_numbers_have_the_names_of_their_blocks() -> None:
    method = _scale()
    with torch.no_grad():
        method.probabilities.copy_(torch.arange(1, 8) / 10)
        method.ranges.copy_(torch.arange(1, 5) / 8)
    learned = method.learned()
    expected = {f"probability/{name}": (index + 1) / 10 for index, name in enumerate(BLOCKS)}
    expected |= {f"range/{name}": (index + 1) / 8 for index, name in enumerate(BLOCKS[:4])}
    assert list(learned) == list(expected)
    assert learned == pytest.approx(expected)


def test_probabilities_stay_finite_without_a_clamp() -> None:
    """With a margin of 0 they would reach 0 and 1, where the regulariser's gradient is not finite."""
    method, images = _scale(clamp=0, learning_rate=1.0), some_images(8)
    for _ in range(5):
        copies = method.augment(images, torch.Generator().manual_seed(0))
        regulariser = method.regulariser()
        assert regulariser is not None
        regulariser.backward()  # type: ignore[no-untyped-call]
        assert copies.draw is not None
        losses = 100 * copies.draw.active[:, 0].float().view(4, 8)
        method.after_backward(losses, copies)
        assert method.probabilities.isfinite().all()
