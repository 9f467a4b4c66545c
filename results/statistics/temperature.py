"""A temperature for probabilities, fitted where no images were held out: on one half of the test images for the other.

Probabilities are (N, C) with rows that sum to one, labels integers (N,).
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from augbench.bench.training.metrics import SMALLEST, Floats, Integers

HIGHEST = 20.0
"""Highest temperature; the lowest is its inverse. Without errors, or where nothing was learned, none is best."""
REPEATS = 5
PRECISION = 1e-4  # of the logarithm of a temperature
SMALL_ODDS = -30.0  # logarithm of odds below which log(1 + odds) is the odds


class CrossFitted(NamedTuple):
    """Probabilities (N, C), each recalibrated by the temperature of the half that it is not in; and their mean."""

    probabilities: Floats
    temperature: float


def tempered(probabilities: Floats, temperature: float) -> Floats:
    """Raise probabilities to the power 1/T and normalise them: softmax(log p / T); (N, C).

    Above 1, T makes them less confident. The most probable class of an image stays the same.
    """
    powers = np.exp(_logarithms(probabilities) / temperature)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def fit_temperature(probabilities: Floats, labels: Integers) -> float:
    """Find the temperature with the lowest mean negative log-likelihood (Guo et al., 2017), up to `HIGHEST`.

    The search is over log T; the loss is convex in 1/T, so it has one minimum. The logarithm of the loss is compared,
    since the loss itself is rounded to 0 where all images are right and T is low.
    """
    logs = _logarithms(probabilities)
    images = np.arange(len(labels))
    others = logs - logs[images, labels][:, None]
    others[images, labels] = -math.inf

    def loss(log_temperature: float) -> float:
        odds = special.logsumexp(math.exp(-log_temperature) * others, axis=1)
        # log(log(1 + e^odds)), which is `odds` where these are small
        logs_of_losses = np.where(odds < SMALL_ODDS, odds, np.log(np.logaddexp(0, np.maximum(odds, SMALL_ODDS))))
        return float(special.logsumexp(logs_of_losses))

    ends = (-math.log(HIGHEST), math.log(HIGHEST))
    found = optimize.minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": PRECISION})
    return math.exp(float(found.x))


def _logarithms(probabilities: Floats) -> Floats:
    """Logarithms of probabilities, those of the most probable class 0; p is floored as in the log-likelihood."""
    logs = np.log(np.maximum(probabilities.astype(np.float64), SMALLEST))
    return np.asarray(logs - logs.max(axis=1, keepdims=True))


def cross_fitted(
    probabilities: Floats, labels: Integers, *, repeats: int = REPEATS, seed: int = 0
) -> Iterator[CrossFitted]:
    """Recalibrate each half of the images by the temperature of the other half (after Ashukha et al., 2020).

    Args:
        probabilities: (N, C), N at least 2.
        labels: (N,).
        repeats: How often, each time with other halves.
        seed: Decides the halves: they are the same for all predictions of as many images.

    Yields:
        All N images, `repeats` times.

    Raises:
        ValueError: If there is one image only.
    """
    if len(labels) < 2:
        raise ValueError("A temperature needs at least two images, one to fit it on and one to use it for.")
    for repeat in range(repeats):
        order = np.random.default_rng([seed, repeat]).permutation(len(labels))
        halves = np.array_split(order, 2)
        result, temperatures = np.empty(probabilities.shape), []
        for used, fitted_on in (halves, halves[::-1]):
            temperatures.append(fit_temperature(probabilities[fitted_on], labels[fitted_on]))
            result[used] = tempered(probabilities[used], temperatures[-1])
        yield CrossFitted(result, float(np.mean(temperatures)))
