"""The fixed augmentation that most image classifiers are trained with."""

import torch
from torch import Tensor

from augbench.bench.augmentation.affine_space import Draw, to_unit_interval
from augbench.bench.augmentation.policy_description import AffinePolicy, BlockLaw
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Policy, RunContext, SharedSpaceMethod
from augbench.bench.registry.registry import register


@register("fixed")
class FixedAugmentation(SharedSpaceMethod[Hyperparameters]):
    """Crops every image at random after zero padding and mirrors every other one."""

    title = "random crop and horizontal flip"
    paper = "standard practice; the affine space's crop and flip blocks, each always in the composition"
    own_base = ("crop", "flip")

    def __init__(self, hyperparameters: Hyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        names = [block.name for block in context.space.blocks]
        self.unused_ranges = context.space.maxima(context.device)
        self.probabilities = torch.tensor([float(name in ("flip", "crop")) for name in names], device=context.device)

    def draw(self, count: int, generator: torch.Generator) -> Draw:
        """Draw crop and flip for each image."""
        return self.context.space.sample(count, self.probabilities, self.unused_ranges, generator)

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Crop and mirror; both only move whole pixels, so nothing is resampled."""
        draw = self.draw(self.copies * len(images), generator)
        cropped = self.context.space.crop(images, draw)
        mirrored = torch.where(draw.flip[:, None, None, None], cropped.flip(-1), cropped)
        return AugmentedBatch(to_unit_interval(mirrored), draw)

    def test_policy(self) -> Policy | None:
        """No test-time rows: there is no learned policy, and the paper has none."""
        return None

    def describe_policy(self) -> AffinePolicy:
        """Flip and crop, always in the composition."""
        blocks = (BlockLaw(block="flip"), BlockLaw(block="crop"))
        return AffinePolicy.of((blocks,), self.context.space)
