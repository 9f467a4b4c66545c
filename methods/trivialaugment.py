"""TrivialAugment in the affine space."""

import torch
from pydantic import Field

from augbench.bench.augmentation.affine_space import Draw
from augbench.bench.augmentation.policy_description import BLOCKS, CONTINUOUS, AffinePolicy, BlockLaw
from augbench.bench.contract.method import Hyperparameters, RunContext, SharedSpaceMethod
from augbench.bench.registry.registry import register


class TrivialAugmentHyperparameters(Hyperparameters):
    """Hyperparameters of TrivialAugment."""

    levels: int = Field(31, ge=2, le=1001, description="strengths from none to the block's maximum, evenly spaced")


@register("trivialaugment")
class TrivialAugment(SharedSpaceMethod[TrivialAugmentHyperparameters]):
    """Applies one block to each image, drawn uniformly from all blocks and the identity, at a uniform strength."""

    title = "one random block at a random strength"
    paper = "Müller and Hutter, TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation (ICCV 2021)"
    deviations = (
        "The operations are the blocks of the affine space, as in SCALE's comparison, instead of TrivialAugment's own.",
        "Blocks without a strength draw uniformly from their support, as they do for every other method.",
        "Cutout, crop and flip are left to the `base` of a budget.",
    )
    hyperparameters_type = TrivialAugmentHyperparameters

    def __init__(self, hyperparameters: TrivialAugmentHyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.maxima = context.space.maxima(context.device)

    def draw(self, count: int, generator: torch.Generator) -> Draw:
        """Draw one block, or none, and its strength for each image."""
        space, device = self.context.space, generator.device
        blocks = len(space.blocks)
        chosen = torch.randint(blocks + 1, (count,), device=device, generator=generator)
        active = chosen[:, None] == torch.arange(blocks, device=device)  # the last choice is the identity
        level = torch.randint(self.hyperparameters.levels, (count, 1), device=device, generator=generator)
        sign = 2 * torch.randint(2, (count, len(self.maxima)), device=device, generator=generator) - 1
        magnitudes = sign * self.maxima * level / (self.hyperparameters.levels - 1)
        return Draw(active, magnitudes, *space.sample_elements(count, generator))

    def describe_policy(self) -> AffinePolicy:
        """One composition for each block, and an empty one."""
        maxima = dict(zip(CONTINUOUS, self.maxima.tolist(), strict=True))
        levels = self.hyperparameters.levels
        single = [
            BlockLaw(block=name, range=maxima[name], levels=levels) if name in maxima else BlockLaw(block=name)
            for name in BLOCKS
        ]
        compositions = (*((law,) for law in single), ())
        return AffinePolicy.of(compositions, self.context.space)
