"""Check that a described policy has the law of the method's own draws."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from augbench.bench.augmentation.policy_description import (
    AffinePolicy,
    OperationPolicy,
    as_file_content,
    read_description,
)
from augbench.bench.augmentation.policy_draws import draws_of
from augbench.bench.common.randomness import generator
from augbench.bench.conformance.augmentation import test_policy
from augbench.bench.conformance.outcome import ConformanceError, DoesNotApplyError
from augbench.bench.conformance.problem import COLOUR
from augbench.bench.conformance.subject import Subject
from augbench.bench.contract.method import Method, Policy

DRAWS = 10_000
DIRECTIONS = 16
FALSE_ALARM = 1e-8  # chance for each direction that a right description is refused
ROUNDING = 1e-4  # by which two ways to compute the same image may differ in a direction
LARGEST_DISTANCE = float(np.sqrt(-np.log(FALSE_ALARM / 2) / DRAWS))
"""Largest distance of two distribution functions, each of `DRAWS` draws from one law (Smirnov's bound)."""


def described(subject: Subject) -> None:
    """Images drawn from the described policy have the law of those that the method draws, trained and untrained."""
    trained = subject.run.trainer
    for trainer in (trained, subject.ready(COLOUR)):
        method = trainer.method
        policy = method.describe_policy()
        if policy is None:
            raise DoesNotApplyError("it describes no policy, so `augbench export` has nothing to write")
        if not isinstance(policy, AffinePolicy | OperationPolicy):
            raise ConformanceError(
                f"`describe_policy` returned {type(policy).__name__}.",
                "Return an AffinePolicy or an OperationPolicy of augbench, or None.",
            )
        if read_description(as_file_content(policy)) != policy:
            raise ConformanceError(
                "What `describe_policy` returned is another policy once it was written to a file and read.",
                "Make it with its constructor, which checks it, and not by `model_copy` or `model_construct`.",
            )
        image = trainer.data.test.images[:1]
        own = _drawn(_own_policy(method), image, subject)
        drawn = draws_of(policy, image.shape[-1], image.device)
        apart = largest_distance(own, _drawn(drawn.transform, image, subject, seed=1))
        if apart > LARGEST_DISTANCE:
            raise ConformanceError(
                f"What `describe_policy` says has another law than the method's own draws: of {DRAWS} images each, the "
                f"distribution functions of some weighted sum of the pixels are {apart:.2f} apart; chance makes it "
                f"{LARGEST_DISTANCE:.2f} at most.",
                "Compare probabilities, ranges and units of the description with what the method draws, once it has "
                "learned something.",
            )


def _own_policy(method: Method[Any]) -> Policy:
    """The test policy or, where there is none, the first copy that is made in training."""
    return test_policy(method) or (lambda images, source: method.augment(images, source).images[: len(images)])


@torch.no_grad()
def _drawn(policy: Policy, image: Tensor, subject: Subject, seed: int = 0) -> NDArray[np.float64]:
    """Weighted sums of the pixels of images that are drawn from a policy; (DRAWS, DIRECTIONS)."""
    made = policy(image.repeat(DRAWS, 1, 1, 1), generator(seed, "described", subject.device)).flatten(1)
    weights = torch.randn(made.shape[1], DIRECTIONS, generator=generator(0, "directions"))
    sums: NDArray[np.float64] = (made.double().cpu() @ weights.double() / made.shape[1] ** 0.5).numpy()
    return sums


def largest_distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Largest distance of the distribution functions of two samples in any direction, up to rounding of the values.

    Args:
        first: (N, D).
        second: (N, D).
    """
    pairs = zip(np.sort(first, axis=0).T, np.sort(second, axis=0).T, strict=True)
    return max(max(_above(one, other), _above(other, one)) for one, other in pairs)


def _above(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """How far the distribution function of the first rises above that of the second, values moved by the rounding."""
    ahead = np.arange(1, len(first) + 1) / len(first)
    return float((ahead - np.searchsorted(second, first + ROUNDING, side="right") / len(second)).max())
