"""No augmentation: the baseline that every cost is measured against."""

import torch

from augbench.bench.contract.method import Hyperparameters, Method
from augbench.bench.registry.registry import register


@register("none")
class NoAugmentation(Method[Hyperparameters]):
    """Trains on the images as they are."""

    title = "no augmentation"
    paper = "SCALE (TMLR 2023), row 'No Augm.'"

    def sample_transforms(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Always the identity."""
        return torch.eye(2, 3, device=generator.device).expand(count, 2, 3)
