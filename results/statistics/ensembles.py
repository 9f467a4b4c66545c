"""Ensembles of networks that differ in their seed alone, and how much these disagree."""

import math
from itertools import combinations

import numpy as np

from augbench.bench.training.metrics import Floats

MOST = 50
"""Subsets of one size that are looked at; of more, so many are drawn."""


def sizes_of(seeds: int) -> tuple[int, ...]:
    """Sizes of the ensembles that so many seeds allow: 2, 4 and all; none of a single seed."""
    return tuple(sorted({size for size in (2, 4, seeds) if 2 <= size <= seeds}))


def subsets(seeds: int, size: int, *, most: int = MOST, seed: int = 0) -> list[tuple[int, ...]]:
    """Choose members.

    Args:
        seeds: How many there are, S.
        size: Members of each subset, from 1 to S.
        most: Subsets to return at most, at least 1.
        seed: Decides which, where there are more.

    Returns:
        Indices from 0 to S − 1, rising: every subset of this size, or `most` different ones, drawn evenly.

    Raises:
        ValueError: If there are not so many seeds.
    """
    if not 1 <= size <= seeds or most < 1:
        raise ValueError(f"Expected a size from 1 to {seeds} and at least one subset, got {size} and {most}.")
    if math.comb(seeds, size) <= most:
        return list(combinations(range(seeds), size))
    generator, drawn = np.random.default_rng([seed, seeds, size]), set[tuple[int, ...]]()
    while len(drawn) < most:
        drawn.add(tuple(sorted(map(int, generator.choice(seeds, size, replace=False)))))
    return sorted(drawn)


def disagreement(probabilities: Floats) -> float:
    """Share of images for which two networks find different classes most probable, mean over pairs of networks.

    Args:
        probabilities: (S, N, C) of S networks.

    Raises:
        ValueError: If there are fewer than two networks.
    """
    if len(probabilities) < 2:
        raise ValueError(f"Two networks can disagree, {len(probabilities)} cannot.")
    found = probabilities.argmax(axis=2)
    return float(np.mean([np.mean(one != other) for one, other in combinations(found, 2)]))
