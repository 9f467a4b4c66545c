"""Estimators of the gradient of the mean loss in SCALE's block probabilities π.

The exact gradient in π_s is E[l | t_s = 1] − E[l | t_s = 0], where t_s says whether block s is in the composition.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Estimator = Literal["pooled", "per-image", "rloo", "per-image-zero"]


@dataclass(frozen=True)
class Estimate:
    """An estimated gradient.

    Attributes:
        value: The estimate; (K,).
        informative: Whether the mini-batch says anything about the block; where it does not, `value` is 0; (K,).
    """

    value: Tensor
    informative: Tensor


def probability_gradient(losses: Tensor, active: Tensor, probabilities: Tensor, estimator: Estimator) -> Estimate:
    """Estimate the gradient of the mean loss in π.

    Args:
        losses: Loss of each of M copies of B images; (M, B).
        active: Whether each block was in the composition; (M, B, K) bool.
        probabilities: π, each in (0, 1) for `rloo`; (K,).
        estimator: `pooled`: difference of the mean losses with and without the block over all copies of the
            mini-batch; `per-image`: the same for each image, averaged over the images that have both groups;
            `rloo`: the score of the Bernoulli times the loss less its mean over the image's other copies (M ≥ 2);
            `per-image-zero`: for each image, the mean over an empty group taken as 0, as the paper's text reads.

    Returns:
        The estimate. `pooled` and `per-image` are unbiased given that they are informative, `rloo` is unbiased,
        and `per-image-zero` has expectation (1−(1−π)^M)·E[l|t=1] − (1−π^M)·E[l|t=0].
    """
    if estimator == "rloo":
        return _leave_one_out(losses, active, probabilities)
    chosen = active.to(losses.dtype)
    if estimator == "pooled":
        return _difference(losses.reshape(-1, 1), chosen.flatten(0, 1)[:, None])
    return _difference(losses, chosen, empty_as_zero=estimator == "per-image-zero")


def _difference(losses: Tensor, chosen: Tensor, *, empty_as_zero: bool = False) -> Estimate:
    """Average over columns the difference of group means within a column."""
    with_count, without_count = chosen.sum(0), (1 - chosen).sum(0)
    with_mean = (chosen * losses[..., None]).sum(0) / with_count.clamp(min=1)
    without_mean = ((1 - chosen) * losses[..., None]).sum(0) / without_count.clamp(min=1)
    difference = with_mean - without_mean
    if empty_as_zero:
        return Estimate(difference.mean(0), torch.ones_like(difference[0], dtype=torch.bool))
    both = ((with_count > 0) & (without_count > 0)).to(losses.dtype)
    kept = both.sum(0)
    return Estimate((difference * both).sum(0) / kept.clamp(min=1), kept > 0)


def _leave_one_out(losses: Tensor, active: Tensor, probabilities: Tensor) -> Estimate:
    copies = losses.shape[0]
    if copies < 2:
        raise ValueError("The estimator 'rloo' compares the copies of an image and needs at least 2 of them.")
    advantage = (losses - losses.mean(0)) * copies / (copies - 1)  # the loss less the mean of the other copies
    score = torch.where(active, 1 / probabilities, -1 / (1 - probabilities))
    value = (advantage[..., None] * score).mean((0, 1))
    return Estimate(value, torch.ones_like(value, dtype=torch.bool))
