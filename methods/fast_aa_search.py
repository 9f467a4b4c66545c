"""Density matching, the search of Fast AutoAugment (Lim et al., NeurIPS 2019, algorithm 1).

A network that was trained without a policy judges policies by how many held-out images it still gets right when they
are transformed: such a policy leads back into the distribution of the training images.
"""

import math
from dataclasses import dataclass
from itertools import islice

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.augmentation.image_operations import ImageSpace
from augbench.bench.common.errors import UserError
from augbench.bench.contract.method import Hyperparameters, repeat
from augbench.bench.contract.search import SearchProblem, shuffled_batches
from augbench.bench.contract.search_space import tunable
from augbench.bench.data.dataset import Split, split_off_validation
from augbench.bench.experiment.catalogues import NetworkName
from augbench.methods.subpolicies import SEARCHED, STAGES, LevelMapping, SubPolicies
from augbench.methods.wide_policy import apply_in_turn

MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
LARGEST_GRADIENT = 5.0


class DensityMatchingHyperparameters(Hyperparameters):
    """Hyperparameters of the search; defaults are the paper's or its code's where they state them.

    Values to be tried reach from well below to well above the authors', who vary none of them.
    """

    search_images: int = Field(4000, ge=20, description="training images, classes balanced, that the search uses")
    search_network: NetworkName | None = Field(None, description="network that judges policies; the run's by default")
    search_epochs: int | None = Field(None, ge=1, description="epochs of each such network; the run's by default")
    search_batch_size: int = Field(128, ge=1, description="images in a batch of the search")
    search_learning_rate: float = tunable(
        0.1, low=0.01, high=0.3, log=True, gt=0, le=10, description="rate of SGD at the start; falls as a cosine"
    )
    folds: int = Field(5, ge=1, le=100, description="random splits, each with a network of its own")
    hold_out: float = tunable(
        0.4, low=0.2, high=0.6, gt=0, lt=1, description="share of each class's images that a split holds out"
    )
    rounds: int = Field(2, ge=1, le=10, description="rounds T of trials for each split; each keeps its best")
    trials: int = Field(200, ge=1, description="policies tried for each split and round")
    sub_policies: int = tunable(5, low=2, high=10, ge=1, le=100, description="sub-policies of a tried policy")
    draws: int = Field(5, ge=1, le=100, description="draws, at least one of which must be classified right")
    kept_trials: int = Field(10, ge=1, description="best tried policies N that are kept of each split and round")

    @model_validator(mode="after")
    def _enough_trials(self) -> "DensityMatchingHyperparameters":
        if self.kept_trials > self.trials:
            raise ValueError(f"kept_trials must not exceed trials, which are {self.trials}")
        return self

    @property
    def most_sub_policies(self) -> int:
        """Sub-policies that a search finds where no two of a tried policy have the same operations."""
        return self.folds * self.rounds * self.kept_trials * self.sub_policies


@dataclass(frozen=True)
class DensityMatching:
    """A search with operations of `space`, at levels that mean what `mapping` says.

    `epochs` are those of each network unless the hyperparameters name others.
    """

    hyperparameters: DensityMatchingHyperparameters
    problem: SearchProblem
    space: ImageSpace
    mapping: LevelMapping
    epochs: int

    def search(self) -> SubPolicies:
        """Find sub-policies: those of the best trials of every split and round, one after the other."""
        found = []
        for train, held_out in split_folds(self.problem, self.hyperparameters):
            network = self.train(train)
            for _ in range(self.hyperparameters.rounds):
                found += self.best(network, held_out)
        return joined(found)

    def train(self, split: Split) -> nn.Module:
        """Train a network without a policy and set it to evaluation."""
        settings = self.hyperparameters
        network = self.problem.build_network(settings.search_network)
        parameters = list(network.parameters())
        optimizer = torch.optim.SGD(
            parameters, settings.search_learning_rate, MOMENTUM, weight_decay=WEIGHT_DECAY, nesterov=True
        )
        steps = (settings.search_epochs or self.epochs) * math.ceil(len(split) / settings.search_batch_size)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        batches = shuffled_batches(split, settings.search_batch_size, self.problem.generator)
        for batch in islice(batches, steps):
            images = self.problem.base.after(to_unit_interval(self.problem.base.before(batch.images)))
            loss = F.cross_entropy(network(images), batch.labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, LARGEST_GRADIENT)
            optimizer.step()
            schedule.step()
            self.problem.count_passes(len(batch))
        return network.eval()

    def best(self, network: nn.Module, held_out: Split) -> list[SubPolicies]:
        """Try policies and return the best ones without their duplicates, the best first."""
        settings = self.hyperparameters
        tried = [propose(settings.sub_policies, self.problem.generator) for _ in range(settings.trials)]
        rewards = torch.stack([self.reward(network, held_out, policy) for policy in tried])
        return [without_duplicates(tried[trial]) for trial in best_trials(rewards, settings.kept_trials)]

    @torch.no_grad()
    def reward(self, network: nn.Module, held_out: Split, policy: SubPolicies) -> Tensor:
        """Share of the held-out images that the network gets right under at least one of the draws; a scalar."""
        draws, generator = self.hyperparameters.draws, self.problem.generator
        right = torch.zeros((), dtype=torch.long, device=held_out.labels.device)
        for part in torch.arange(len(held_out), device=right.device).split(self.hyperparameters.search_batch_size):
            batch = held_out.subset(part)
            images = self.problem.base.before(repeat(batch.images, draws))
            images = apply_in_turn(images, policy.draw(len(images), self.mapping, generator), self.space, generator)
            predictions = network(self.problem.base.after(images)).argmax(1)
            right += right_at_least_once(predictions.view(draws, -1), batch.labels).sum()
            self.problem.count_passes(len(images))
        return right / len(held_out)


def split_folds(problem: SearchProblem, settings: DensityMatchingHyperparameters) -> list[tuple[Split, Split]]:
    """Split a class-balanced part of the training images, several times over, alike for every seed.

    Returns:
        For each fold the images to train on and those held out, class shares kept. As in the authors' code, the folds
        are independent splits, not a partition.

    Raises:
        UserError: If one of the two would be empty.
    """
    reduced = problem.reduced(settings.search_images)
    folds = [split_off_validation(reduced, settings.hold_out, fold) for fold in range(settings.folds)]
    if not all(len(part) for part in folds[0]):  # all folds are of the same size
        raise UserError(
            f"Holding out {settings.hold_out} of each class of {len(reduced)} images leaves none to train on or none "
            "to judge by. Raise `search_images` in the suite, or move `hold_out` towards 0.5."
        )
    return folds


def propose(count: int, generator: torch.Generator) -> SubPolicies:
    """Draw sub-policies uniformly: operations from the 15 that are searched, probabilities and levels from [0, 1]."""
    device, shape = generator.device, (count, STAGES)
    chosen = torch.randint(len(SEARCHED), shape, device=device, generator=generator)
    probabilities, levels = torch.rand(2, *shape, device=device, generator=generator)
    return SubPolicies(torch.tensor(SEARCHED, device=device)[chosen], probabilities, levels)


def right_at_least_once(predictions: Tensor, labels: Tensor) -> Tensor:
    """Say which images are right in at least one draw: predicted classes (D, N) and labels (N,) to (N,) bool."""
    return (predictions == labels).any(0)


def best_trials(rewards: Tensor, count: int) -> list[int]:
    """Positions of the largest rewards, the largest first, of equal ones the earlier first."""
    best: list[int] = rewards.argsort(descending=True, stable=True)[:count].tolist()
    return best


def without_duplicates(policy: SubPolicies) -> SubPolicies:
    """Keep the first of the sub-policies that have the same operations in the same order."""
    first: dict[tuple[int, ...], int] = {}
    for position, operations in enumerate(policy.operations.tolist()):
        first.setdefault(tuple(operations), position)
    return policy.subset(torch.tensor(list(first.values()), device=policy.operations.device))


def joined(parts: list[SubPolicies]) -> SubPolicies:
    """Put sub-policies one after the other."""
    return SubPolicies(
        torch.cat([part.operations for part in parts]),
        torch.cat([part.probabilities for part in parts]),
        torch.cat([part.levels for part in parts]),
    )
