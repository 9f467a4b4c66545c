"""AutoAugment with the policies that its authors found."""

import torch
from pydantic import Field

from augbench.bench.augmentation.image_operations import OPERATIONS
from augbench.bench.augmentation.policy_description import OperationPolicy
from augbench.bench.contract.method import Hyperparameters, RunContext
from augbench.bench.registry.registry import register
from augbench.methods.autoaugment_policies import POLICIES, PolicyName
from augbench.methods.wide_policy import (
    AUTOAUGMENT_RANGES,
    AUTOAUGMENT_RANGES_DEVIATION,
    DEVIATIONS,
    Application,
    WidePolicy,
)

LEVELS = 10


class AutoAugmentHyperparameters(Hyperparameters):
    """Hyperparameters of AutoAugment."""

    policy: PolicyName = Field("cifar10", description="data set on which the policy was found")


@register("autoaugment")
class AutoAugment(WidePolicy[AutoAugmentHyperparameters]):
    """Applies one of 25 sub-policies to each image: two operations, each with its own probability and level."""

    title = "published sub-policies of two image operations"
    paper = "Cubuk et al., AutoAugment: Learning Augmentation Strategies from Data (CVPR 2019)"
    deviations = (
        "Nothing is searched: the published policy is used, and the cost of its search is not counted.",
        "Sub-policies, levels and strengths are torchvision's. Its 10 levels reach the end of each range, where the "
        "authors' code stops at nine tenths; Posterize keeps 8 to 4 bits, where that code keeps 4 to 0.",
        "Color in the CIFAR-10 policy's sub-policy 13, counted from 0, is at level 8, as in torchvision and the "
        "authors' code; their paper is reported to say 6.",
        "CIFAR-100 has no policy of its own and uses the one for CIFAR-10, as in the paper; so does every other data "
        "set here, unless `policy` names another.",
        AUTOAUGMENT_RANGES_DEVIATION,
        *DEVIATIONS,
    )
    hyperparameters_type = AutoAugmentHyperparameters

    def __init__(self, hyperparameters: AutoAugmentHyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        policy, device = POLICIES[hyperparameters.policy], context.device
        self.strengths = AUTOAUGMENT_RANGES.strengths(LEVELS, context.space.image_size, device)
        indices = [[OPERATIONS.index(name) for name, _, _ in sub_policy] for sub_policy in policy]
        self.operations = torch.tensor(indices, device=device)
        self.probabilities = torch.tensor([[fraction for _, fraction, _ in pair] for pair in policy], device=device)
        self.levels = torch.tensor([[level or 0 for _, _, level in pair] for pair in policy], device=device)

    def draw(self, count: int, generator: torch.Generator) -> list[Application]:
        """Draw a sub-policy for each image, whether each of its operations is applied, and its side."""
        device = generator.device
        chosen = torch.randint(len(self.operations), (count,), device=device, generator=generator)
        uniform = torch.rand(count, 2, device=device, generator=generator)
        applied = uniform < self.probabilities[chosen]
        # 0 is the identity, which ignores the strength that it gets
        operations = torch.where(applied, self.operations[chosen], 0)
        levels = self.levels[chosen]
        return [self.strengths.draw(operations[:, step], levels[:, step], generator) for step in range(2)]

    def describe_policy(self) -> OperationPolicy:
        """The published sub-policies, with strengths."""
        return OperationPolicy(
            sub_policies=tuple(
                tuple(
                    (AUTOAUGMENT_RANGES.law(name, LEVELS, level=level or 0, probability=probability),)
                    for name, probability, level in pair
                )
                for pair in POLICIES[self.hyperparameters.policy]
            )
        )
