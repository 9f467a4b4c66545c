"""A policy from a file: what `augbench export --to json` has written, on any data and at any image size."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from augbench.bench.augmentation.policy_description import PolicyDescription, read_description
from augbench.bench.augmentation.policy_draws import AffineDraws, OperationDraws, draws_of
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Method, Policy, repeat
from augbench.bench.registry.registry import register


class GivenPolicyHyperparameters(Hyperparameters):
    """The policy. A path is replaced by what the file contains when it is read, so that identities depend on that."""

    policy: Annotated[PolicyDescription, BeforeValidator(read_description)] = Field(
        description="JSON file of a policy, as `augbench export --to json` writes it"
    )


@register("policy")
class GivenPolicy(Method[GivenPolicyHyperparameters]):
    """Draws from a given policy, affine or of image operations, and learns nothing."""

    title = "a policy from a file"
    paper = "that of the method which found the policy"
    deviations = (
        "One copy of each image in training unless the budget asks for more, also where the method that found the "
        "policy trains on several.",
        "At another image size the crop's padding, translations and Cutout keep their share of the side, as far as "
        "whole pixels allow.",
    )
    hyperparameters_type = GivenPolicyHyperparameters
    quick_hyperparameters: ClassVar[Mapping[str, Any]] = {
        "policy": {
            "kind": "affine",
            "compositions": [[{"block": "rotation", "probability": 0.5, "range": 0.3}, {"block": "flip"}]],
        }
    }

    @cached_property
    def draws(self) -> AffineDraws | OperationDraws:
        """What draws from the policy at the size of the images."""
        return draws_of(self.hyperparameters.policy, self.context.space.image_size, self.context.device)

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Make the augmented copies, each with a draw of its own."""
        return AugmentedBatch(self.draws.transform(repeat(images, self.copies), generator))

    def test_policy(self) -> Policy:
        """Draw as in training."""
        return self.draws.transform

    def sample_transforms(self, count: int, generator: torch.Generator) -> Tensor | None:
        """Draw maps of the plane from an affine policy; None for image operations."""
        return self.draws.sample_transforms(count, generator)

    def describe_policy(self) -> PolicyDescription:
        """The policy as it was given."""
        return self.hyperparameters.policy
