"""What tests of methods are made of: a method in its context, images, and sources of randomness."""

from typing import Any, TypeVar

import torch
from torch import Tensor

from augbench.bench.augmentation.affine_space import Space, shared_space
from augbench.bench.contract.method import Method, RunContext

M = TypeVar("M", bound=Method[Any])


def seeded(seed: int = 0) -> torch.Generator:
    """Make a source of randomness."""
    return torch.Generator().manual_seed(seed)


def some_images(count: int, channels: int = 1, side: int = 14, seed: int = 0) -> Tensor:
    """Make noise; (N, C, S, S), uint8."""
    return torch.randint(256, (count, channels, side, side), dtype=torch.uint8, generator=seeded(seed))


def make_method(
    kind: type[M],
    *,
    space: Space | None = None,
    side: int = 14,
    channels: int = 1,
    copies: int = 1,
    epochs: int = 10,
    settings: dict[str, Any] | None = None,
) -> M:
    """Make a method as a run does, for ten classes.

    Args:
        kind: Its class.
        space: The affine space; the shared one at the size of the images by default.
        side: Height and width of the images, in pixels.
        channels: Their colour channels.
        copies: Copies of each image for methods that have no number of their own.
        epochs: Epochs of the training phase.
        settings: Hyperparameters that differ from their defaults.
    """
    context = RunContext(space or shared_space(side), channels, 10, 100, epochs, copies, torch.device("cpu"))
    return kind(kind.hyperparameters_type.model_validate(required(kind) | (settings or {})), context)


def required(kind: type[Method[Any]]) -> dict[str, Any]:
    """Values for checks of the hyperparameters that have no default."""
    fields = kind.hyperparameters_type.model_fields
    return {name: kind.quick_hyperparameters[name] for name, field in fields.items() if field.is_required()}
