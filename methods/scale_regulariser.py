"""The two closed forms of SCALE's PAC-Bayes regulariser (theorem 3.1)."""

import math

import torch
from torch import Tensor


def parametric_divergence(probabilities: Tensor, ranges: Tensor, maxima: Tensor, prior: float) -> Tensor:
    """Divergence of a block with a learned range from its prior: KL(B(π)‖B(1−β)) + π·log(A/α).

    Takes π in [0, 1], α in (0, A] and A, all (k,), and β in (0, 1); returns (k,), at least 0.
    """
    return bernoulli_divergence(probabilities, prior) + probabilities * (maxima / ranges).log()


def parameter_free_divergence(probabilities: Tensor, supports: Tensor, prior: float) -> Tensor:
    """Divergence of a block that is uniform on N elements: KL(B((1−1/N)·π)‖B((1−1/N)·(1−β))).

    Takes π in [0, 1] and N, identity included, both (K − k,), and β in (0, 1); returns (K − k,), at least 0.
    """
    moved = 1 - 1 / supports  # the share of the support that changes the image
    return bernoulli_divergence(moved * probabilities, 1 - moved * (1 - prior))


def bernoulli_divergence(probabilities: Tensor, failure: Tensor | float) -> Tensor:
    """KL(B(p)‖B(1−q)) for probabilities p and failure probabilities q in (0, 1); 0·log 0 counts as 0."""
    log_success = torch.log1p(-failure) if isinstance(failure, Tensor) else math.log1p(-failure)
    log_failure = torch.log(failure) if isinstance(failure, Tensor) else math.log(failure)
    entropy = torch.xlogy(probabilities, probabilities) + torch.xlogy(1 - probabilities, 1 - probabilities)
    return entropy - probabilities * log_success - (1 - probabilities) * log_failure
