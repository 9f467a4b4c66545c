"""Splits test images off from images that are not split yet: class by class, or whole groups."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import mask_of_each_class


def stratified_test_mask(labels: NDArray[np.int64], share: float, seed: int) -> NDArray[np.bool_]:
    """Choose test images: the share of each class, rounded.

    Each class keeps a training image, and gets a test image if it has two.

    Args:
        labels: (N,).
        share: Share of test images, in (0, 1).
        seed: Seed of the choice.

    Returns:
        Which images are test images; (N,).
    """
    sizes = np.unique(labels, return_counts=True)[1]
    numbers = np.minimum(np.maximum(np.round(share * sizes).astype(int), 1), sizes - 1)
    mask: NDArray[np.bool_] = mask_of_each_class(torch.from_numpy(labels), numbers.tolist(), seed).numpy()
    return mask


def grouped_test_mask(
    labels: NDArray[np.int64], groups: NDArray[np.int64], share: float, seed: int
) -> NDArray[np.bool_]:
    """Choose whole groups of test images, so that the share of each class is near the wanted one.

    Groups are taken in a random order, the large ones first. One becomes a test group if that brings the numbers of
    test images of its classes nearer to the wanted ones, by the sum of squared differences, and if every class keeps
    a training image.

    Args:
        labels: (N,).
        groups: Number of the group of each image; (N,).
        share: Share of test images, in (0, 1).
        seed: Seed of the order.

    Returns:
        Which images are test images; (N,).

    Raises:
        UserError: If no group can be one of test images.
    """
    wanted = share * np.bincount(labels)
    left, tested = np.bincount(labels), np.zeros(len(wanted), dtype=np.int64)
    mask = np.zeros(len(labels), dtype=bool)
    for members in _large_first(groups, seed):
        classes, counts = np.unique(labels[members], return_counts=True)
        gap = wanted[classes] - tested[classes]
        if (counts < left[classes]).all() and np.sum((gap - counts) ** 2) < np.sum(gap**2):
            mask[members] = True
            tested[classes] += counts
            left[classes] -= counts
    if not mask.any():
        raise UserError(
            f"No group can be set apart as test images: there are {len(np.unique(groups))}, and each is too large for "
            f"a share of {share:g} or has all images of a class. Choose a larger --test-share, or smaller groups."
        )
    return mask


def _large_first(groups: NDArray[np.int64], seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield the images of each group, groups of the same size in a random order."""
    random = np.random.RandomState(seed)  # the one NumPy generator whose stream is frozen
    numbers, sizes = np.unique(groups, return_counts=True)
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(sizes)[:-1])
    shuffled = random.permutation(len(numbers))
    for index in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        yield members[index]
