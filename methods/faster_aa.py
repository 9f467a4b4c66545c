"""Faster AutoAugment: sub-policies learned by gradients against a critic before training."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation.image_operations import OPERATIONS, ImageSpace
from augbench.bench.augmentation.policy_description import OperationPolicy
from augbench.bench.contract.method import RunContext
from augbench.bench.contract.search import SearchProblem
from augbench.bench.registry.registry import register
from augbench.methods.faster_aa_search import AdversarialSearch, AdversarialSearchHyperparameters, MixturePolicy
from augbench.methods.subpolicies import (
    SEARCHED,
    STAGES,
    SubPolicyMethod,
    draw_applications,
    one_sided_mapping,
)
from augbench.methods.wide_policy import Application


@register("faster-aa")
class FasterAutoAugment(SubPolicyMethod[AdversarialSearchHyperparameters]):
    """Each image gets one sub-policy, drawn uniformly; each of its two stages draws an operation by learned weights.

    The operation is applied with a learned probability at a learned level. All of them are learned before training.
    """

    title = "sub-policies of image operations learned against a critic"
    paper = "Hataya et al., Faster AutoAugment: Learning Augmentation Strategies using Backpropagation (ECCV 2020)"
    deviations = (
        "The operations are the 15 of `fast-aa`; the authors' code has a horizontal flip and TranslateY twice, but "
        "neither TranslateX nor Cutout.",
        "Enhancing operations, Posterize, Solarize and Cutout have the ranges of `fast-aa`; the authors' code gives "
        "them others.",
        "The gradient penalty uses the norm over the whole image, for images in [0, 1]; the authors' code uses the "
        "norm over the channels at each pixel, for images in [−1, 1].",
        "Batch normalisation in the trunk makes an image's score depend on the others of its batch, and with it "
        "the gradient penalty, as in the authors' code.",
        "The trunk is by default the run's network with 64 outputs; the authors' is `wrn-40-2` without its last layer.",
        "After each step probabilities and levels are brought back into their ranges (probabilities to 0.001…0.999); "
        "the authors' code clamps probabilities where they are used and levels not at all.",
        "The search images are the same for every seed of a run.",
        "One draw of augmented images serves the steps of critic and policy; the authors' code draws twice.",
        "In training each image draws a sub-policy; in the authors' code all images of a chunk share one.",
        "Posterize and Equalize pass gradients to images as the identity does, Solarize and AutoContrast their own; in "
        "the authors' code AutoContrast and Equalize are straight-through and Posterize and Solarize pass none.",
        "Test-time draws are those of training; the paper has no test-time augmentation.",
        "Crop and flip are left to the `base` of a budget, in search and training. Its cutout is not in the search, as "
        "in the authors' code.",
    )
    searches = True
    hyperparameters_type = AdversarialSearchHyperparameters
    quick_hyperparameters: ClassVar[Mapping[str, Any]] = {
        "search_images": 200,
        "search_epochs": 1,
        "search_batch_size": 40,
        "search_network": "tiny",
    }

    def __init__(self, hyperparameters: AdversarialSearchHyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.mapping = one_sided_mapping(context.device)
        self.operations = torch.tensor(SEARCHED, device=context.device)
        shape = (3, hyperparameters.sub_policies, STAGES, len(SEARCHED))
        # no operation is applied until the search is over
        self.policy = MixturePolicy(*torch.zeros(shape, device=context.device).unbind())
        self.learnable = {
            "weights": self.policy.weights,
            "probabilities": self.policy.probabilities,
            "levels": self.policy.levels,
        }

    @cached_property
    def image_space(self) -> ImageSpace:
        """The image-operation space, resampled bilinearly, which gives gradients in the search."""
        return ImageSpace(self.context.space.image_size, "bilinear")

    def search(self, problem: SearchProblem) -> None:
        """Learn the policy against a critic."""
        search = AdversarialSearch(self.hyperparameters, problem, self.image_space, self.mapping, self.context)
        for tensor, found in zip(self.policy.tensors(), search.search().tensors(), strict=True):
            tensor.copy_(found.detach())

    def choice(self) -> Tensor:
        """Probability of choosing each operation; (S, 2, 15)."""
        return self.policy.choice(self.hyperparameters.weight_temperature)

    def draw(self, count: int, generator: torch.Generator) -> list[Application]:
        """Draw a sub-policy for each image and an operation for each of its stages."""
        policy, device = self.policy, generator.device
        drawn = torch.randint(self.hyperparameters.sub_policies, (count,), device=device, generator=generator)
        choice = self.choice()[drawn]
        arrival = torch.empty_like(choice).exponential_(generator=generator) / choice  # the first one is chosen
        chosen = arrival.argmin(2, keepdim=True)
        probabilities = policy.probabilities[drawn].gather(2, chosen)[..., 0]
        levels = policy.levels[drawn].gather(2, chosen)[..., 0]
        operations = self.operations[chosen[..., 0]]
        return draw_applications(operations, probabilities, levels, self.mapping, generator)

    def describe_policy(self) -> OperationPolicy:
        """The sub-policies that were learned: each stage has all operations, with their chances to be drawn."""
        tables = (self.choice(), self.policy.probabilities, self.policy.levels)
        sub_policies = zip(*(table.tolist() for table in tables), strict=True)
        return OperationPolicy(
            sub_policies=tuple(
                tuple(
                    tuple(
                        self.mapping.law(operation, level, probability=probability, weight=weight)
                        for operation, weight, probability, level in zip(SEARCHED, *stage, strict=True)
                    )
                    for stage in zip(*stages, strict=True)
                )
                for stages in sub_policies
            ),
            interpolation="bilinear",
        )

    def rates(self) -> Tensor:
        """Probability of choosing an operation times that of applying it; (S, 2, 16)."""
        by_operation = F.one_hot(torch.tensor(SEARCHED), len(OPERATIONS)).to(self.policy.weights)
        return (self.choice() * self.policy.probabilities) @ by_operation
