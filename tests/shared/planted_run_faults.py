"""Methods with one fault each, and a sound one: faults of resuming, search and evaluation, as a plug-in file."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.contract.method import AugmentedBatch, Policy
from augbench.bench.contract.search import SearchProblem
from augbench.bench.registry.plugins import load_plugin
from augbench.bench.registry.registry import register

Sound: Any = vars(load_plugin(Path(__file__).with_name("planted_faults.py")).module)["Sound"]


# Resuming


@register("hidden-state")
class HiddenState(Sound):
    """Keeps an average of the losses where nobody saves it, and darkens by it."""

    average = 0.0

    def after_backward(self, losses: Tensor, copies: AugmentedBatch) -> None:
        """Average."""
        super().after_backward(losses, copies)
        self.average = 0.9 * self.average + 0.1 * losses.mean().item()

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Darken."""
        return AugmentedBatch(super().augment(images, generator).images / (1 + self.average))


@register("counts-steps")
class CountsSteps(Sound):
    """Anneals its learning rate by a counter."""

    steps = 0

    def after_backward(self, losses: Tensor, copies: AugmentedBatch) -> None:
        """Lower the rate."""
        self.steps += 1
        self.optimizers["raw"].param_groups[0]["lr"] = 0.05 / self.steps
        super().after_backward(losses, copies)


@register("forgets-schedule")
class ForgetsSchedule(Sound):
    """Draws for a test by what start_epoch has set, which a resumed run does not call after the last epoch."""

    fraction = 0.0

    def start_epoch(self, epoch: int) -> None:
        """Anneal."""
        self.fraction = 1 / (1 + epoch)

    def test_policy(self) -> Policy | None:
        """Draw by the share."""
        return lambda images, generator: self.transform(images, generator) * self.fraction


@register("saves-an-object")
class SavesAnObject(Sound):
    """Saves what cannot be loaded safely."""

    def state_dict(self) -> dict[str, Any]:
        """Add an object."""
        return super().state_dict() | {"setting": self.context}


# Search


@register("sound-search")
class SoundSearch(Sound):
    """Looks for a start in a search; nothing is wrong with it either."""

    searches = True

    def search(self, problem: SearchProblem) -> None:
        """Take the loss of an untrained network as the start."""
        with torch.no_grad():
            self.raw.fill_(self.find(problem))

    def find(self, problem: SearchProblem) -> float:
        """Compute the loss on a random part of the validation images."""
        chosen = torch.randperm(len(problem.validation), generator=problem.generator)[:20]
        part = problem.validation.subset(chosen)
        logits = problem.build_network()(to_unit_interval(part.images))
        problem.count_passes(len(part))
        return F.cross_entropy(logits, part.labels).item()


@register("unseeded-search")
class UnseededSearch(SoundSearch):
    """Searches with NumPy's global generator."""

    def find(self, problem: SearchProblem) -> float:
        """Draw."""
        return super().find(problem) + float(np.random.rand())


@register("peeking-search")
class PeekingSearch(SoundSearch):
    """Finds its way to the test images."""

    def find(self, problem: SearchProblem) -> float:
        """Look."""
        owner = getattr(problem.build_network, "__self__", None)
        seen = 0.0 if owner is None else owner.data.test.images.float().mean().item()
        return super().find(problem) + seen


@register("uncounted-search")
class UncountedSearch(SoundSearch):
    """Passes more images through a network than it says."""

    def find(self, problem: SearchProblem) -> float:
        """Pass some more."""
        problem.build_network()(to_unit_interval(problem.train.images))
        return super().find(problem)


@register("destructive-search")
class DestructiveSearch(SoundSearch):
    """Changes the training images that it is given."""

    def find(self, problem: SearchProblem) -> float:
        """Blacken."""
        problem.train.images.zero_()
        return super().find(problem)


@register("destroys-data")
class DestroysData(SoundSearch):
    """Finds its way to the data set itself and changes it."""

    def find(self, problem: SearchProblem) -> float:
        """Turn one label."""
        owner = getattr(problem.build_network, "__self__", None)
        if owner is not None:
            owner.data.train.labels[0] = 1 - owner.data.train.labels[0]
        return super().find(problem)


# Evaluation


@register("policy-of-another-shape")
class PolicyOfAnotherShape(Sound):
    """Draws all copies for a test."""

    def test_policy(self) -> Policy | None:
        """Repeat."""
        return lambda images, generator: self.augment(images, generator).images


@register("policy-changes-images")
class PolicyChangesImages(Sound):
    """Changes the test images."""

    def test_policy(self) -> Policy | None:
        """Blacken a corner for good."""

        def draw(images: Tensor, generator: torch.Generator) -> Tensor:
            images[:, :, 0, 0] = 0
            return self.transform(images, generator)

        return draw


@register("policy-learns")
class PolicyLearns(Sound):
    """Goes on learning in the evaluation."""

    def test_policy(self) -> Policy | None:
        """Step."""

        def draw(images: Tensor, generator: torch.Generator) -> Tensor:
            made = self.transform(images, generator)
            with torch.no_grad():
                self.raw += 0.1
            return made

        return draw


@register("policy-uses-network")
class PolicyUsesNetwork(Sound):
    """Passes test images through the network while that counts statistics."""

    network: nn.Module

    def wrap_network(self, network: nn.Module) -> nn.Module:
        """Remember the network."""
        self.network = network
        return network

    def test_policy(self) -> Policy | None:
        """Use it."""

        def draw(images: Tensor, generator: torch.Generator) -> Tensor:
            made = self.transform(images, generator)
            self.network.train()
            self.network(made)
            self.network.eval()
            return made

        return draw


@register("flat-transforms")
class FlatTransforms(Sound):
    """Returns transforms of another shape."""

    def sample_transforms(self, count: int, generator: torch.Generator) -> Tensor | None:
        """Leave the translation out."""
        return torch.eye(2).expand(count, 2, 2)
