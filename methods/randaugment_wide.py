"""RandAugment on its own operations, in the image-operation space."""

import torch
from pydantic import Field, model_validator

from augbench.bench.augmentation.policy_description import OperationPolicy
from augbench.bench.contract.method import Hyperparameters, RunContext
from augbench.bench.contract.search_space import tunable
from augbench.bench.registry.registry import register
from augbench.methods.wide_policy import (
    AUTOAUGMENT_RANGES,
    AUTOAUGMENT_RANGES_DEVIATION,
    DEVIATIONS,
    RANDOM_OPERATIONS,
    Application,
    WidePolicy,
)


class RandAugmentWideHyperparameters(Hyperparameters):
    """Hyperparameters of RandAugment; defaults are torchvision's.

    Values to be tried: published settings have N from 1 to 3 and M from 5 to 14; both go a little further here.
    """

    operations: int = tunable(
        2, low=1, high=4, ge=1, le=14, description="operations N applied to each image, one after another"
    )
    magnitude: int = tunable(9, low=2, high=20, ge=0, description="level M of all strengths, from 0 to bins − 1")
    bins: int = Field(31, ge=2, le=1001, description="levels of strength, from the weakest to the strongest")

    @model_validator(mode="after")
    def _magnitude_is_a_level(self) -> "RandAugmentWideHyperparameters":
        if self.magnitude >= self.bins:
            raise ValueError(f"magnitude must be below bins, which is {self.bins}")
        return self


@register("randaugment-wide")
class RandAugmentWide(WidePolicy[RandAugmentWideHyperparameters]):
    """Applies N of 14 operations to each image, drawn uniformly with replacement, all at the level M."""

    title = "N random image operations at one strength"
    paper = "Cubuk et al., RandAugment: Practical Automated Data Augmentation with a Reduced Search Space (2020)"
    deviations = (
        "Operations, levels and strengths are those of torchvision's RandAugment.",
        "N and M are given, not found by the paper's grid search; the defaults are torchvision's.",
        AUTOAUGMENT_RANGES_DEVIATION,
        *DEVIATIONS,
    )
    hyperparameters_type = RandAugmentWideHyperparameters

    def __init__(self, hyperparameters: RandAugmentWideHyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        image_size, device = context.space.image_size, context.device
        self.strengths = AUTOAUGMENT_RANGES.strengths(hyperparameters.bins, image_size, device)

    def draw(self, count: int, generator: torch.Generator) -> list[Application]:
        """Draw N operations and their sides for each image."""
        device, steps = generator.device, self.hyperparameters.operations
        operations = torch.randint(len(RANDOM_OPERATIONS), (steps, count), device=device, generator=generator)
        levels = torch.full((count,), self.hyperparameters.magnitude, device=device)
        return [self.strengths.draw(chosen, levels, generator) for chosen in operations]

    def describe_policy(self) -> OperationPolicy:
        """N stages with all operations at one level."""
        bins, level = self.hyperparameters.bins, self.hyperparameters.magnitude
        stage = tuple(AUTOAUGMENT_RANGES.law(name, bins, level=level) for name in RANDOM_OPERATIONS)
        return OperationPolicy(sub_policies=((stage,) * self.hyperparameters.operations,))
