"""Features of images: what the last layer of a network gets."""

from typing import Any

import torch
from torch import Tensor, nn

from augbench.bench.common.errors import UserError
from augbench.bench.predictors.layers import weighted_layers
from augbench.bench.training.evaluation import CHUNK


@torch.no_grad()
def features(network: nn.Module, images: Tensor) -> Tensor:
    """Compute the input of the convolution or linear layer that is called last, the penultimate features.

    Args:
        network: Takes images in [0, 1]; in evaluation mode.
        images: Floats in [0, 1]; (N, C, H, W).

    Returns:
        (N, features), float64.

    Raises:
        UserError: If the network has no such layer.
    """
    last: list[Tensor] = []

    def keep(_: nn.Module, given: tuple[Any, ...]) -> None:
        last[:] = given[:1]

    hooks = [layer.register_forward_pre_hook(keep) for _, layer in weighted_layers(network)]
    if not hooks:
        raise UserError("The network has neither convolutions nor linear layers, so that it has no features.")
    try:
        return torch.cat([_after(network, chunk, last) for chunk in images.split(CHUNK)])
    finally:
        for hook in hooks:
            hook.remove()


def _after(network: nn.Module, images: Tensor, last: list[Tensor]) -> Tensor:
    network(images)
    return last[0].flatten(1).double()
