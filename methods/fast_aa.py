"""Fast AutoAugment: sub-policies found by density matching, or given by the user."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation.image_operations import OPERATIONS
from augbench.bench.augmentation.policy_description import OperationPolicy
from augbench.bench.contract.method import RunContext
from augbench.bench.contract.search import SearchProblem
from augbench.bench.registry.registry import register
from augbench.methods.fast_aa_search import DensityMatching, DensityMatchingHyperparameters
from augbench.methods.policy_file import PolicyContent, SubPolicy
from augbench.methods.subpolicies import IDENTITY, STAGES, SubPolicies, SubPolicyMethod, symmetric_mapping
from augbench.methods.wide_policy import Application


class FastAutoAugmentHyperparameters(DensityMatchingHyperparameters):
    """Hyperparameters of Fast AutoAugment: a policy, or how to search for one."""

    policy: PolicyContent = Field(None, description="JSON file of sub-policies to use instead of searching for them")

    @model_validator(mode="after")
    def _either_given_or_searched(self) -> "FastAutoAugmentHyperparameters":
        searching = DensityMatchingHyperparameters.model_fields
        changed = [name for name, field in searching.items() if getattr(self, name) != field.default]
        if self.policy is not None and changed:
            raise ValueError(
                f"{', '.join(changed)} {'means' if len(changed) == 1 else 'mean'} nothing beside `policy`, since then "
                "nothing is searched for: leave out the one or the other"
            )
        return self


@register("fast-aa")
class FastAutoAugment(SubPolicyMethod[FastAutoAugmentHyperparameters]):
    """Each image gets one sub-policy, drawn uniformly, of two operations with their probabilities and levels.

    A search before training finds them. With `policy`, they come from a file and nothing is searched for.
    """

    title = "sub-policies of image operations by density matching"
    paper = "Lim et al., Fast AutoAugment (NeurIPS 2019)"
    deviations = (
        "Trials are drawn at random; the paper proposes them by Bayesian optimisation (the code's is HyperOpt's TPE).",
        "The network that judges policies and its epochs are the run's own by default; the paper takes `wrn-40-2`.",
        "That network is trained without warm-up, which the authors' code has. Weight decay acts on batch "
        "normalisation too.",
        "The search images and their folds are the same for every seed of a run.",
        "Crop, flip and cutout are left to the `base` of a budget, in that network's training, in the draws that it is "
        "judged on and in the final training; the authors' code always has them there, crop and flip after the policy.",
        "`rounds` = 2 is the paper's T; the authors' code makes one pass, but has as many policies as two find.",
        "A trial counts images that are right in one draw of 5, as in the authors' code; the paper speaks of accuracy.",
        "Images stay floats between operations, and Cutout is black; the authors' code has 256 grey levels and a grey "
        "Cutout.",
        "Test-time draws are those of training; the paper has no test-time augmentation.",
    )
    searches = True
    hyperparameters_type = FastAutoAugmentHyperparameters
    quick_hyperparameters: ClassVar[Mapping[str, Any]] = {
        "search_images": 200,
        "search_network": "tiny",
        "search_epochs": 2,
        "folds": 2,
        "rounds": 1,
        "trials": 5,
        "draws": 2,
        "kept_trials": 2,
    }

    def __init__(self, hyperparameters: FastAutoAugmentHyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.mapping = symmetric_mapping(context.device)
        given = hyperparameters.policy
        size = len(given) if given else hyperparameters.most_sub_policies
        # one sub-policy that does nothing, until a policy is there
        self.policy = SubPolicies(
            operations=torch.full((size, STAGES), IDENTITY, device=context.device),
            probabilities=torch.zeros(size, STAGES, device=context.device),
            levels=torch.zeros(size, STAGES, device=context.device),
        )
        self.count = torch.ones((), dtype=torch.long, device=context.device)
        self.learnable = {
            "operations": self.policy.operations,
            "probabilities": self.policy.probabilities,
            "levels": self.policy.levels,
            "count": self.count,
        }
        if given:
            self.use(from_content(given, context.device))

    def use(self, found: SubPolicies) -> None:
        """Take sub-policies as the policy; there may be fewer than there is room for."""
        for name in ("operations", "probabilities", "levels"):
            getattr(self.policy, name)[: len(found)] = getattr(found, name)
        self.count.fill_(len(found))

    def search(self, problem: SearchProblem) -> None:
        """Search by density matching, unless the policy was given."""
        if self.hyperparameters.policy is None:
            search = DensityMatching(
                self.hyperparameters, problem, self.context.image_space, self.mapping, self.context.epochs
            )
            self.use(search.search())

    def draw(self, count: int, generator: torch.Generator) -> list[Application]:
        """Draw a sub-policy for each image and its operations."""
        return self.policy.draw(count, self.mapping, generator, self.count)

    def describe_policy(self) -> OperationPolicy:
        """The sub-policies that were found or given."""
        policy = self.policy.subset(slice(int(self.count)))
        tables = zip(policy.operations.tolist(), policy.probabilities.tolist(), policy.levels.tolist(), strict=True)
        return OperationPolicy(
            sub_policies=tuple(
                tuple(
                    (self.mapping.law(operation, level, probability=probability),)
                    for operation, probability, level in zip(*steps, strict=True)
                )
                for steps in tables
            )
        )

    def rates(self) -> Tensor:
        """Probability of each stage's own operation; (S, 2, 16)."""
        policy = self.policy.subset(slice(int(self.count)))
        return F.one_hot(policy.operations, len(OPERATIONS)) * policy.probabilities[..., None]


def from_content(content: tuple[SubPolicy, ...], device: torch.device) -> SubPolicies:
    """Make tensors of what a policy file contains."""
    operations = [[OPERATIONS.index(name) for name, _, _ in steps] for steps in content]
    probabilities = [[probability for _, probability, _ in steps] for steps in content]
    levels = [[level for _, _, level in steps] for steps in content]
    return SubPolicies(
        torch.tensor(operations, device=device),
        torch.tensor(probabilities, device=device),
        torch.tensor(levels, device=device),
    )
