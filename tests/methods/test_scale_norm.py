"""SCALE with the norm reward: its value, gradient and step; everything else is SCALE's."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from method_factories import make_method, some_images
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import Tensor

from augbench.bench.augmentation.affine_space import Draw
from augbench.bench.contract.method import AugmentedBatch
from augbench.methods.scale import Scale
from augbench.methods.scale_norm import ScaleNorm, ScaleNormHyperparameters

PI = [0.3, 0.4, 0.5, 0.6, 0.35, 0.45, 0.55]
ALPHA = [0.8, 0.2, 0.3, 0.4]
NORM = math.sqrt(sum(value**2 for value in (*PI, *ALPHA)))
BATCH, SHARES = 6, [0.5, -0.4, 0.1, 0.2, -0.3, 0.6, -0.2]  # what each block adds to the loss


def _learner(**hyperparameters: Any) -> ScaleNorm:
    method = make_method(ScaleNorm, settings=hyperparameters)
    with torch.no_grad():
        method.probabilities.copy_(torch.tensor(PI))
        method.ranges.copy_(torch.tensor(ALPHA))
    return method


def _regulariser(method: ScaleNorm) -> Tensor:
    regulariser = method.regulariser()
    assert regulariser is not None
    return regulariser


@pytest.mark.parametrize("weight", [0.05, 0.7])
def test_regulariser_and_its_gradients_are_those_worked_out_by_hand(weight: float) -> None:
    method = _learner(regularisation=weight)
    regulariser = _regulariser(method)
    assert regulariser.item() == pytest.approx(-weight * NORM)
    regulariser.backward()
    assert method.probabilities.grad is not None
    assert method.ranges.grad is not None
    assert method.probabilities.grad.tolist() == pytest.approx([-weight * value / NORM for value in PI])
    assert method.ranges.grad.tolist() == pytest.approx([-weight * value / NORM for value in ALPHA])


def _losses(draw: Draw, copies: int) -> Tensor:
    """A loss of the draw alone, so that its gradient can be worked out by hand; (M, B)."""
    return (2 + (draw.active * torch.tensor(SHARES)).sum(1) + draw.magnitudes[:, 0] * draw.active[:, 0]).view(
        copies, -1
    )


def _pooled_by_hand(losses: Tensor, active: Tensor) -> NDArray[np.float64]:
    rows, present = losses.flatten().double().numpy(), active.numpy()
    return np.array([rows[present[:, block]].mean() - rows[~present[:, block]].mean() for block in range(7)])


def test_one_step_is_the_plain_gradient_step_worked_out_by_hand() -> None:
    method = _learner(learning_rate=0.01, regularisation=0.3, copies=8)
    method.start_epoch(2)
    copies = method.augment(some_images(BATCH), torch.Generator().manual_seed(1))
    assert copies.draw is not None
    losses = _losses(copies.draw, 8)
    (losses.mean() + _regulariser(method)).backward()
    method.after_backward(losses.detach(), copies)
    of_pi = _pooled_by_hand(losses.detach(), copies.draw.active) - 0.3 * np.array(PI) / NORM
    of_alpha = -0.3 * np.array(ALPHA) / NORM
    of_alpha[0] += (copies.draw.magnitudes[:, 0] / ALPHA[0] * copies.draw.active[:, 0]).mean().item()
    rate = 0.01 * 0.8
    np.testing.assert_allclose((np.array(PI) - method.probabilities.detach().numpy()) / rate, of_pi, atol=1e-4)
    np.testing.assert_allclose((np.array(ALPHA) - method.ranges.detach().numpy()) / rate, of_alpha, atol=1e-4)


def test_the_reward_alone_drives_every_number_to_its_maximum() -> None:
    method = _learner(learning_rate=1.0, regularisation=10.0)
    for seed in range(3):
        copies = method.augment(some_images(BATCH), torch.Generator().manual_seed(seed))
        _regulariser(method).backward()  # type: ignore[no-untyped-call]
        method.after_backward(torch.zeros(4, BATCH), copies)
    assert method.ranges.tolist() == pytest.approx(method.maxima.tolist())
    assert method.probabilities.tolist() == pytest.approx([1 - 0.4 / 7] * 7)


def test_everything_else_is_as_in_scale() -> None:
    norm = make_method(ScaleNorm)
    scale = make_method(Scale)
    assert norm.learned() == scale.learned()
    first, second = (each.augment(some_images(BATCH), torch.Generator().manual_seed(2)) for each in (norm, scale))
    assert torch.equal(first.images, second.images)
    assert isinstance(first, AugmentedBatch)
    assert norm.hyperparameters.copies == scale.hyperparameters.copies
    shared = {"copies", "estimator", "learning_rate", "joint_share", "initial_range", "clamp", "regularisation"}
    assert set(ScaleNormHyperparameters.model_fields) == shared


def test_the_prior_that_it_does_not_have_is_refused() -> None:
    with pytest.raises(ValidationError, match="prior"):
        ScaleNormHyperparameters(prior=0.01)  # type: ignore[call-arg]


def test_there_is_no_reward_after_the_joint_epochs() -> None:
    method = _learner(joint_share=0.5)
    method.start_epoch(4)
    assert method.regulariser() is not None
    method.start_epoch(5)
    assert method.regulariser() is None
