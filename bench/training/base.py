"""The base of a budget in a run: which copies a training step makes, and what its random numbers are."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from augbench.bench.augmentation.base import BaseAugmentation
from augbench.bench.common.errors import UserError
from augbench.bench.common.randomness import generator
from augbench.bench.contract.method import AugmentedBatch, Method
from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.base import base_sizes
from augbench.bench.experiment.spec import RunSpec


def new_base(spec: RunSpec, data: ImageData) -> BaseAugmentation:
    """Make the base of a run, with a random stream of its own.

    Raises:
        UserError: If a size is missing or too large for the images.
    """
    sizes, device = base_sizes(spec.budget.base, data.image_size, spec.dataset.label), data.train.images.device
    mean, _ = data.mean_and_deviation
    return BaseAugmentation(sizes.padding, sizes.flips, sizes.square, mean, generator(spec.seed, "base", device))


def augmented(
    method: Method[Any], base: BaseAugmentation, images: Tensor, indices: Tensor, source: torch.Generator
) -> tuple[AugmentedBatch, AugmentedBatch]:
    """Make the copies of a batch: crop and flip of the base for each copy, what the method does, then the cutout.

    Args:
        method: The method.
        base: The base.
        images: All training images; (N, C, H, W), uint8.
        indices: Which of them are in the batch; (B,).
        source: Source of the method's randomness, on the images' device.

    Returns:
        What the method has returned, and what the network gets, which are the same without a cutout.

    Raises:
        UserError: If the method does not make as many copies as it says.
    """
    if base.moves:
        copies = _moved(method, base, images, indices, source)
    else:
        copies = method.augment_indexed(images, indices, source)
    if not base.square:
        return copies, copies
    return copies, replace(copies, images=base.after(copies.images, copies.normalised))


def _moved(
    method: Method[Any], base: BaseAugmentation, images: Tensor, indices: Tensor, source: torch.Generator
) -> AugmentedBatch:
    """Have a method transform images that are copies already, each moved by a draw of its own."""
    moved = base.before(images.index_select(0, indices), method.copies)
    with _one_copy_of_each(method):
        if method.context.network_input is None:
            made = method.augment(moved, source)
        else:  # one kernel resamples and normalises images that are given by indices
            made = method.augment_indexed(moved, torch.arange(len(moved), device=moved.device), source)
    if len(made.images) != len(moved):
        raise UserError(
            f"`augment` of the method {method.name!r} made {len(made.images)} images of {len(moved)}, though `copies` "
            "was 1: under a base the images that it gets are the copies already, each with a crop and flip of its own. "
            "Let `augment` make `self.copies` of each image, and take that number from nowhere else."
        )
    return made


def shown(method: Method[Any], base: BaseAugmentation, images: Tensor, source: torch.Generator) -> Tensor:
    """Make the copies of images (B, C, H, W), uint8, as `augmented` does, in [0, 1] whatever the network takes."""
    moved = base.before(images, method.copies)
    with _one_copy_of_each(method) if base.moves else nullcontext():
        return base.after(method.augment(moved, source).images)


@contextmanager
def _one_copy_of_each(method: Method[Any]) -> Iterator[None]:
    """Have `copies` of a method be 1 for a while, since what it is given are copies already.

    Methods say in a property how many copies they make, so that it takes another class to say something else.
    """
    kind: Any = type(method)
    if method.copies == 1:
        yield
        return
    method.__class__ = _of_one_copy(kind)
    try:
        yield
    finally:
        method.__class__ = kind


@cache
def _of_one_copy(kind: Any) -> Any:
    return type(kind.__name__, (kind,), {"copies": 1, "__doc__": kind.__doc__, "__module__": kind.__module__})
