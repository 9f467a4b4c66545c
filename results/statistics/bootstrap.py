"""Bootstrap intervals over seeds and test images, which are resampled independently and crossed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]

CHUNK = 128  # resamples whose weights of images are floats at a time


@dataclass(frozen=True)
class Interval:
    """A mean with a bootstrap interval.

    Attributes:
        estimate: The mean over seeds and images.
        low: Lower end; None for a single seed, which shows nothing of the spread.
        high: Upper end, or None.
        confidence: Level of the interval, in (0, 1).
        seeds: Number of seeds.
        images: Number of test images.
    """

    estimate: float
    low: float | None
    high: float | None
    confidence: float
    seeds: int
    images: int


@dataclass(frozen=True)
class Weights:
    """How often each image and each seed is drawn in each resample; use one object for all pairs on a data set.

    Seeds and images are drawn independently of one another, each with replacement and as many as there are.

    Attributes:
        images: Number of test images, N.
        resamples: Number of resamples, B.
        seed: Decides the draws: the same numbers give the same weights.
    """

    images: int
    resamples: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.images < 1 or self.resamples < 1:
            raise ValueError(f"Images and resamples must be at least 1, got {self.images} and {self.resamples}.")

    @cached_property
    def of_images(self) -> NDArray[np.uint8]:
        """Counts of each image, with the sum N in each resample; (B, N)."""
        generator = np.random.default_rng([self.seed, 0])
        counts = np.empty((self.resamples, self.images), dtype=np.uint8)  # nobody is drawn 256 times out of N
        for row in counts:
            row[:] = np.bincount(generator.integers(self.images, size=self.images), minlength=self.images)
        return counts

    def of_seeds(self, seeds: int) -> Floats:
        """Counts of each of S seeds, with the sum S in each resample; (B, S)."""
        generator = np.random.default_rng([self.seed, 1, seeds])
        return generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=self.resamples).astype(np.float64)

    def image_means(self, values: Floats) -> Floats:
        """Mean over the images of each resample, seed by seed.

        Args:
            values: (S, N).

        Returns:
            (S, B).
        """
        starts = range(0, self.resamples, CHUNK)
        sums = [values @ self.of_images[start : start + CHUNK].T.astype(np.float64) for start in starts]
        return np.concatenate(sums, axis=1) / self.images


def paired_difference(
    first: ArrayLike,
    second: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    weights: Weights | None = None,
) -> Interval:
    """Mean difference of two methods with an interval over seeds and test images.

    This is `mean_interval` of the differences, image by image and seed by seed: whatever makes an image hard or a seed
    lucky for both methods cancels. An interval without zero rejects the null hypothesis that both have the same mean
    accuracy over all seeds and all test images that there could be.

    Args:
        first: Whether each test image is classified right, or the fraction of repeats in which it is; (S, N).
        second: The same of the other method, with the same seeds and images in the same order; (S, N).
        confidence: As in `mean_interval`, as are the other options.
        resamples: Number of resamples.
        seed: Seed of the bootstrap.
        weights: Draws that several pairs share.

    Returns:
        The interval of first − second.

    Raises:
        ValueError: If the shapes differ, a value is not finite, or an argument is out of range.
    """
    ours, theirs = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if ours.shape != theirs.shape:
        raise ValueError(f"Both methods need the same seeds and images, got shapes {ours.shape} and {theirs.shape}.")
    return mean_interval(ours - theirs, confidence=confidence, resamples=resamples, seed=seed, weights=weights)


def mean_interval(
    values: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    weights: Weights | None = None,
) -> Interval:
    """Mean over seeds and test images with an interval over both.

    Seeds and test images are resampled with replacement, independently of one another. Each resample is the mean over
    the block where the drawn seeds meet the drawn images: the "pigeonhole" bootstrap (Owen, 2007, The pigeonhole
    bootstrap, Annals of Applied Statistics 1), which is conservative. The training images, and all else that seeds do
    not decide, are conditioned on. The interval spans the middle `confidence` of the resamples ("percentile interval"),
    with one correction. Plain resamples of few seeds spread too little: by 1 − 1/S in variance, and a normal
    distribution does not allow for a spread estimated from S numbers. So the seeds' own part of each resample is
    stretched by √(S/(S − 1)) · t/z, with the quantiles t of Student's distribution with S − 1 degrees of freedom and z
    of the normal distribution (after Hesterberg, 2015, What teachers should know about the bootstrap, section 5.3).

    Args:
        values: (S, N), for each seed and image, such as 1 for right and 0 for wrong.
        confidence: Level of the interval, in (0, 1).
        resamples: Number of resamples.
        seed: Decides the draws of the bootstrap.
        weights: Draws that several methods share, in place of `resamples` and `seed`.

    Raises:
        ValueError: If a value is not finite, there is none, or an argument is out of range.
    """
    return mean_intervals([values], confidence=confidence, weights=weights or _weights(values, resamples, seed))[0]


def mean_intervals(values: Sequence[ArrayLike], *, weights: Weights, confidence: float = 0.95) -> list[Interval]:
    """What `mean_interval` gives for each of several arrays, in less time.

    Args:
        values: (S, N) each; S may differ.
        weights: Draws that all share.
        confidence: Level of the intervals, in (0, 1).

    Raises:
        ValueError: As `mean_interval`.
    """
    arrays = [np.asarray(array, dtype=np.float64) for array in values]
    for array in arrays:
        _check(array, weights)
    if not 0 < confidence < 1:
        raise ValueError(f"The confidence must lie between 0 and 1, got {confidence}.")
    if not arrays:
        return []
    ends = np.cumsum([len(array) for array in arrays])[:-1]
    parts = np.split(weights.image_means(np.concatenate(arrays)), ends)
    return [_interval(array, part, weights, confidence) for array, part in zip(arrays, parts, strict=True)]


def _weights(values: ArrayLike, resamples: int, seed: int) -> Weights:
    images = np.shape(values)[-1:] or (1,)
    return Weights(max(images[0], 1), resamples, seed)  # an array without images is refused by `_check`


def _check(array: Floats, weights: Weights) -> None:
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        raise ValueError(f"Expected finite values of seeds × images, got an array of shape {array.shape}.")
    if array.shape[1] != weights.images:
        raise ValueError(f"The weights are for {weights.images} images, the values for {array.shape[1]}.")


def _interval(array: Floats, image_means: Floats, weights: Weights, confidence: float) -> Interval:
    (seeds, images), estimate = array.shape, float(array.mean())
    if seeds == 1:
        return Interval(estimate, None, None, confidence, seeds, images)
    drawn = weights.of_seeds(seeds)
    means = np.einsum("bs,sb->b", drawn, image_means) / seeds
    of_seeds = drawn @ array.mean(axis=1) / seeds - estimate
    stretched = means + (_stretch(seeds, confidence) - 1) * of_seeds
    low, high = np.quantile(stretched, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(estimate, float(low), float(high), confidence, seeds, images)


def _stretch(seeds: int, confidence: float) -> float:
    """By how much the seeds' part of a resample is too narrow; tends to 1 with many seeds."""
    upper = (1 + confidence) / 2
    # Quantiles of Student's and the normal distribution; scipy.stats has them too, but takes 0.7 s to import.
    return float(np.sqrt(seeds / (seeds - 1)) * special.stdtrit(seeds - 1, upper) / special.ndtri(upper))
