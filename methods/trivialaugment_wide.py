"""TrivialAugment on its own operations, in the image-operation space."""

import torch
from pydantic import Field

from augbench.bench.augmentation.policy_description import OperationPolicy
from augbench.bench.contract.method import Hyperparameters, RunContext
from augbench.bench.registry.registry import register
from augbench.methods.wide_policy import DEVIATIONS, RANDOM_OPERATIONS, Application, Ranges, WidePolicy

WIDE = Ranges(shear=0.99, translation=1.0, rotation=135.0, enhancement=0.99, bits=2)


class TrivialAugmentWideHyperparameters(Hyperparameters):
    """Hyperparameters of TrivialAugment on its own operations."""

    bins: int = Field(31, ge=2, le=1001, description="levels of strength, from the weakest to the strongest")


@register("trivialaugment-wide")
class TrivialAugmentWide(WidePolicy[TrivialAugmentWideHyperparameters]):
    """Applies one of 14 operations to each image, drawn uniformly, at a uniform level: the paper's wide variant."""

    title = "one random image operation at a random strength"
    paper = "Müller and Hutter, TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation (ICCV 2021)"
    deviations = (
        "Operations, levels and strengths are those of torchvision's TrivialAugmentWide; the authors' code cuts "
        "rotations and thresholds off to whole numbers.",
        "Translations reach 32 pixels in images of 32 pixels, as there; at other sizes they grow in proportion, so "
        "that the highest level always moves the whole image out of view.",
        *DEVIATIONS,
    )
    hyperparameters_type = TrivialAugmentWideHyperparameters

    def __init__(self, hyperparameters: TrivialAugmentWideHyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.strengths = WIDE.strengths(hyperparameters.bins, context.space.image_size, context.device)

    def draw(self, count: int, generator: torch.Generator) -> list[Application]:
        """Draw one operation, its level and its side for each image."""
        device = generator.device
        operations = torch.randint(len(RANDOM_OPERATIONS), (count,), device=device, generator=generator)
        levels = torch.randint(self.hyperparameters.bins, (count,), device=device, generator=generator)
        return [self.strengths.draw(operations, levels, generator)]

    def describe_policy(self) -> OperationPolicy:
        """One stage with all operations, each at all levels."""
        stage = tuple(WIDE.law(name, self.hyperparameters.bins) for name in RANDOM_OPERATIONS)
        return OperationPolicy(sub_policies=((stage,),))
