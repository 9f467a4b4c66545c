"""A network that is moved to a running average of itself, as in airbench (Jordan 2024, arXiv 2404.00498)."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from augbench.bench.networks.base import NORMS

EVERY = 5  # steps
DECAY = 0.95**EVERY  # of the average, at the end of the training


class Lookahead:
    """The average, which weighs more the longer the training lasts: DECAY · (step / steps)³ of it stays.

    It holds what is learned and what normalisation layers know of the images.

    Attributes:
        average: By name of the parameter or buffer.
    """

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self.average = {name: tensor.detach().clone() for name, tensor in _averaged(network)}

    @torch.no_grad()
    def after_step(self, step: int, steps: int) -> None:
        """Move the network after step `step` of `steps`, counted from 1; at the end it is left with the average."""
        if step % EVERY == 0:
            self._move(DECAY * (step / steps) ** 3)
        if step == steps:
            self._move(1.0)

    def _move(self, decay: float) -> None:
        for name, tensor in _averaged(self._network):
            tensor.copy_(self.average[name].lerp_(tensor, 1 - decay))

    def load(self, average: dict[str, Tensor]) -> None:
        """Take over a saved average."""
        for name, tensor in self.average.items():
            tensor.copy_(average[name])


def _averaged(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from ((name, parameter) for name, parameter in network.named_parameters() if parameter.requires_grad)
    for place, module in network.named_modules():
        if isinstance(module, NORMS):
            found = module.named_buffers(recurse=False)
            yield from ((f"{place}.{name}", buffer) for name, buffer in found if buffer.is_floating_point())
