"""A method without hyperparameters."""

import torch

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Method, repeat
from augbench.bench.registry.registry import register


@register("inversion")
class Inversion(Method[Hyperparameters]):
    """Inverts every other copy."""

    title = "random inversion"
    paper = "unpublished"

    def augment(self, images: torch.Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Invert or not."""
        images = to_unit_interval(repeat(images, self.copies))
        coin = torch.rand(len(images), 1, 1, 1, device=images.device, generator=generator) < 0.5
        return AugmentedBatch(torch.where(coin, 1 - images, images))
