"""DADA: differentiable automatic data augmentation, in the affine space."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from augbench.bench.augmentation.affine_space import Draw
from augbench.bench.augmentation.policy_description import BLOCKS, CONTINUOUS, AffinePolicy, BlockLaw
from augbench.bench.contract.method import RunContext, SharedSpaceMethod
from augbench.bench.contract.search import SearchProblem
from augbench.bench.registry.registry import register
from augbench.methods.dada_policy import all_pairs
from augbench.methods.dada_search import SearchHyperparameters, search_policy


class DadaHyperparameters(SearchHyperparameters):
    """Hyperparameters of DADA."""

    kept: int = Field(5, ge=1, description="sub-policies of the final policy, those with the largest weights")


@register("dada")
class Dada(SharedSpaceMethod[DadaHyperparameters]):
    """Searches for pairs of blocks with probabilities and magnitudes, then trains with the best pairs.

    Sub-policies are all pairs of blocks. The search learns their weights, and a probability and a magnitude of each
    block in each pair (`dada_search.py`, `dada_estimator.py`). Of the K sub-policies the final policy keeps the `kept`
    with the largest weights (of equal ones the first) and chooses one of them uniformly for each image.
    """

    title = "pairs of blocks, found in a search by differentiation"
    paper = "Li et al., DADA: Differentiable Automatic Data Augmentation (ECCV 2020)"
    deviations = (
        "The blocks are those of the affine space, as in SCALE's comparison, for which no code exists. A magnitude m "
        "in [0, 1] means ±m·A; in DADA m spans −A to A, so m = ½ is the identity.",
        "The network of the search is the run's own, unless `search_network` names another; DADA takes `wrn-40-2`.",
        "The search holds out at most the data set's fixed validation split, a fifth of the training images, so it can "
        "hold out fewer images than it fits on; DADA holds out as many.",
        "5 of 21 sub-policies are kept, about the same share as DADA's 25 of 105.",
        "Sub-policy and outcomes are drawn for each image and not for each mini-batch. The reward of a draw is what "
        "its own image contributes to the validation loss, to first order; what it does to other images through batch "
        "normalisation moves the magnitudes but not the weights and probabilities.",
        "The derivative through the unrolled step is exact, momentum and clipping included, where DADA takes finite "
        "differences, and the network takes that same step. As in DADA its learning rate is left out.",
        "Magnitudes get the true gradient through the resampling; DADA takes every pixel's derivative to be 1.",
        "Errors of the reference code are not repeated: the validation batch differs from step to step, scores are not "
        "multiplied by the number of parameters, only the outcomes that were used enter, the control variate "
        "minimises the variance, and the seed fixes the policy.",
        "Probabilities stay in [0.05, 0.95] during the search, where DADA clamps them to [0, 1].",
        "Crop and flip before the policy and cutout after it, which DADA always has, are left to the `base` of a "
        "budget, in search and training.",
    )
    searches = True
    hyperparameters_type = DadaHyperparameters
    quick_hyperparameters: ClassVar[Mapping[str, Any]] = {
        "search_epochs": 1,
        "search_images": 64,
        "search_batch_size": 16,
    }

    def __init__(self, hyperparameters: DadaHyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.policies = all_pairs(context.space, context.device)
        self.kept = torch.arange(min(hyperparameters.kept, len(self.policies.logits)), device=context.device)
        self.learnable = {
            "logits": self.policies.logits,
            "probabilities": self.policies.probabilities,
            "magnitudes": self.policies.magnitudes,
            "kept": self.kept,
        }

    def search(self, problem: SearchProblem) -> None:
        """Search for the policy and keep the best sub-policies."""
        search_policy(self.policies, problem, self.hyperparameters)
        self.kept.copy_(largest(self.policies.logits, len(self.kept)))

    def draw(self, count: int, generator: torch.Generator) -> Draw:
        """Draw from the final policy; before the search that is the first sub-policies at their starts."""
        device, policies = generator.device, self.policies
        choice = self.kept[torch.randint(len(self.kept), (count,), device=device, generator=generator)]
        applied = torch.rand(count, 2, device=device, generator=generator) < policies.probabilities[choice]
        return policies.draw(choice, applied, generator, policies.magnitudes)

    def describe_policy(self) -> AffinePolicy:
        """One composition for each sub-policy that is kept."""
        policies = self.policies
        maxima = dict(zip(CONTINUOUS, policies.maxima.tolist(), strict=True))
        tables = (policies.blocks, policies.probabilities, policies.magnitudes)
        kept = (table[self.kept].tolist() for table in tables)
        compositions = tuple(
            tuple(
                BlockLaw(block=name, probability=probability, range=magnitude * maxima[name], levels=1)
                if (name := BLOCKS[index]) in maxima
                else BlockLaw(block=name, probability=probability)
                for index, probability, magnitude in zip(*pair, strict=True)
            )
            for pair in zip(*kept, strict=True)
        )
        return AffinePolicy.of(compositions, self.context.space)

    def learned(self) -> dict[str, float]:
        """Share of the final policy's draws that have each block, and the mean magnitude of the continuous ones.

        `magnitude/<block>` is the mean of m·A over the kept sub-policies with that block; absent where none has it.
        """
        blocks = self.policies.blocks[self.kept].tolist()
        probabilities = self.policies.probabilities[self.kept].tolist()
        magnitudes = self.policies.magnitudes[self.kept].tolist()
        numbers: dict[str, float] = {}
        for index, block in enumerate(self.context.space.blocks):
            places = [(row, column) for row, pair in enumerate(blocks) for column in (0, 1) if pair[column] == index]
            used = sum(probabilities[row][column] for row, column in places)
            numbers[f"probability/{block.name}"] = used / len(blocks)
            if block.maximum is not None and places:
                mean = sum(magnitudes[row][column] for row, column in places) / len(places)
                numbers[f"magnitude/{block.name}"] = mean * block.maximum
        return numbers


def largest(logits: Tensor, count: int) -> Tensor:
    """Indices of the largest logits, largest first, of equal ones the first; (count,) long."""
    return logits.sort(descending=True, stable=True).indices[:count]
