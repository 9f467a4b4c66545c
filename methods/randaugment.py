"""RandAugment in the affine space."""

from itertools import combinations

import torch
from pydantic import Field, model_validator

from augbench.bench.augmentation.affine_space import Draw
from augbench.bench.augmentation.policy_description import BLOCKS, CONTINUOUS, AffinePolicy, BlockLaw
from augbench.bench.contract.method import Hyperparameters, RunContext, SharedSpaceMethod
from augbench.bench.contract.search_space import tunable
from augbench.bench.registry.registry import register


class RandAugmentHyperparameters(Hyperparameters):
    """Hyperparameters of RandAugment; defaults are torchvision's.

    Values to be tried: published settings have N from 1 to 3 and M from 5 to 14; both go a little further here.
    """

    operations: int = tunable(
        2, low=1, high=4, ge=1, le=8, description="choices N for each image, of the seven blocks and the identity"
    )
    magnitude: int = tunable(9, low=2, high=20, ge=0, le=1000, description="level M of every strength, counted from 0")
    bins: int = Field(31, ge=2, le=1001, description="levels from none to the block's maximum, evenly spaced")

    @model_validator(mode="after")
    def _level_exists(self) -> "RandAugmentHyperparameters":
        if self.magnitude >= self.bins:
            raise ValueError("the magnitude is one of the bins 0, 1, …, bins − 1")
        return self


@register("randaugment")
class RandAugment(SharedSpaceMethod[RandAugmentHyperparameters]):
    """Applies N blocks to each image, drawn uniformly from all blocks and the identity, at one fixed strength."""

    title = "a few random blocks at a fixed strength"
    paper = "Cubuk et al., RandAugment: Practical automated data augmentation with a reduced search space (2020)"
    deviations = (
        "The operations are the blocks of the affine space instead of RandAugment's own.",
        "The N choices of an image differ from one another and act in the order of the affine space, in one "
        "resampling; RandAugment draws with replacement and applies in the order drawn. The identity is one of the "
        "choices, as in RandAugment, so that with probability N/8 an image gets N − 1 blocks.",
        "A strength is M/(bins − 1) of the block's maximum with a random sign. Blocks without a strength draw "
        "uniformly from their support, as they do for every other method.",
        "No cutout, crop or flip on top.",
    )
    hyperparameters_type = RandAugmentHyperparameters

    def __init__(self, hyperparameters: RandAugmentHyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.strengths = context.space.maxima(context.device) * hyperparameters.magnitude / (hyperparameters.bins - 1)

    def draw(self, count: int, generator: torch.Generator) -> Draw:
        """Draw the blocks and signs for each image."""
        space, device = self.context.space, generator.device
        blocks = len(space.blocks)
        scores = torch.rand(count, blocks + 1, device=device, generator=generator)
        chosen = scores.topk(self.hyperparameters.operations).indices  # the last choice is the identity
        active = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, chosen, True)[:, :blocks]
        sign = 2 * torch.randint(2, (count, len(self.strengths)), device=device, generator=generator) - 1
        return Draw(active, sign * self.strengths, *space.sample_elements(count, generator))

    def describe_policy(self) -> AffinePolicy:
        """One composition for each choice of N different ones of the blocks and the identity."""
        strengths = dict(zip(CONTINUOUS, self.strengths.tolist(), strict=True))
        single = [
            BlockLaw(block=name, range=strengths[name], levels=1) if name in strengths else BlockLaw(block=name)
            for name in BLOCKS
        ]
        chosen = combinations([*single, None], self.hyperparameters.operations)
        compositions = tuple(tuple(law for law in choice if law is not None) for choice in chosen)
        return AffinePolicy.of(compositions, self.context.space)
