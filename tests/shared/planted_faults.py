"""Methods with one fault each, and a sound one, as a plug-in file: what the conformance checks are tested on.

These are faults of what a method says, of its images, loss and learning; `planted_run_faults.py` has the others.
"""

import random
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Method, Policy, RunContext, repeat
from augbench.bench.registry.registry import register


class SoundHyperparameters(Hyperparameters):
    """Hyperparameters of the sound method."""

    learning_rate: float = Field(0.05, gt=0, le=1, description="rate of Adam")


@register("sound")
class Sound(Method[Any]):
    """Learns how much to darken images at random; nothing is wrong with it."""

    title = "learned darkening"
    paper = "unpublished"
    hyperparameters_type = SoundHyperparameters

    def __init__(self, hyperparameters: Any, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.raw = torch.zeros((), device=context.device, requires_grad=True)
        self.learnable = {"raw": self.raw}
        self.optimizers = {"raw": torch.optim.Adam([self.raw], lr=getattr(hyperparameters, "learning_rate", 0.05))}

    @property
    def strength(self) -> Tensor:
        """The strength, in (0, 1)."""
        return self.raw.sigmoid()

    def transform(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Darken each image by a random factor."""
        noise = torch.rand(len(images), 1, 1, 1, device=images.device, generator=generator)
        return to_unit_interval(images) * (1 - self.strength * noise)

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Darken every copy."""
        return AugmentedBatch(self.transform(repeat(images, self.copies), generator))

    def regulariser(self) -> Tensor:
        """Reward the strength."""
        return -0.1 * self.strength

    def after_backward(self, losses: Tensor, copies: AugmentedBatch) -> None:
        """Step."""
        self.optimizers["raw"].step()
        self.optimizers["raw"].zero_grad()

    def test_policy(self) -> Policy | None:
        """Draw as in training."""
        return self.transform

    def learned(self) -> dict[str, float]:
        """The strength."""
        return {"strength": self.strength.item()}


# What it says about itself


@register("no-paper")
class NoPaper(Sound):
    """Says nothing of a paper."""

    paper = ""


class Undescribed(SoundHyperparameters):
    """One has no description."""

    strength: float = Field(0.5, ge=0)


@register("undescribed")
class UndescribedMethod(Sound):
    """Has a hyperparameter without a description."""

    hyperparameters_type = Undescribed


class Unlimited(SoundHyperparameters):
    """One has no limits."""

    strength: float | None = Field(0.5, description="strength")


@register("unlimited")
class UnlimitedMethod(Sound):
    """Has a number without limits."""

    hyperparameters_type = Unlimited


@register("quick-typo")
class QuickTypo(Sound):
    """Has quick hyperparameters that do not exist."""

    quick_hyperparameters: ClassVar[Mapping[str, Any]] = {"learning_rat": 0.1}


# Images


@register("wrong-shape")
class WrongShape(Sound):
    """Cuts a row off."""

    def transform(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Cut."""
        return super().transform(images, generator)[:, :, 1:]

    def test_policy(self) -> Policy | None:
        """None."""
        return None


@register("one-copy")
class OneCopy(Sound):
    """Makes one copy whatever it announces."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Forget the copies."""
        return AugmentedBatch(self.transform(images, generator))


@register("grey-only")
class GreyOnly(Sound):
    """Cannot do colour."""

    def transform(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Smooth with a kernel for one channel."""
        return F.conv2d(super().transform(images, generator), torch.full((1, 1, 3, 3), 1 / 9), padding=1)


@register("bytes")
class Bytes(Sound):
    """Makes uint8."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Go back to uint8."""
        return AugmentedBatch((super().augment(images, generator).images * 255).to(torch.uint8))


@register("out-of-range")
class OutOfRange(Sound):
    """Standardises images."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Go beyond [0, 1]."""
        return AugmentedBatch(3 * super().augment(images, generator).images - 1)


@register("one-image")
class OneImage(Sound):
    """Makes numbers that are not finite of a batch of one image."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Divide by 0 images."""
        made = super().augment(images, generator).images
        return AugmentedBatch(made + torch.zeros(1) / (len(images) - 1))


@register("in-place")
class InPlace(Sound):
    """Changes the batch that it is given."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Blacken a corner for good."""
        images[:, :, :2, :2] = 0
        return super().augment(images, generator)


@register("global-torch")
class GlobalTorch(Sound):
    """Draws from torch's global generator."""

    def transform(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Darken at random."""
        return to_unit_interval(images) * (1 - self.strength * torch.rand(len(images), 1, 1, 1))


@register("global-numpy")
class GlobalNumpy(Sound):
    """Draws from NumPy's global generator."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Darken all at random."""
        return AugmentedBatch(super().augment(images, generator).images * float(np.random.rand()))


@register("global-python")
class GlobalPython(Sound):
    """Draws from Python's global generator, in its test policy."""

    def test_policy(self) -> Policy | None:
        """Darken all at random."""
        return lambda images, generator: self.transform(images, generator) * random.random()  # noqa: S311


@register("unseeded")
class Unseeded(Sound):
    """Has a generator of its own, seeded by the clock."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Ignore the generator."""
        own = torch.Generator()
        own.seed()
        return super().augment(images, own)


@register("ends-the-process")
class EndsTheProcess(Sound):
    """Calls sys.exit."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Leave."""
        sys.exit(3)


# Loss and learning


@register("mean-loss")
class MeanLoss(Sound):
    """Averages the loss."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Average over the copies."""
        return super().loss(logits, labels).mean(0)


@register("loss-without-gradient")
class LossWithoutGradient(Sound):
    """Cuts the gradient off."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Detach."""
        return super().loss(logits.detach(), labels)


@register("raises")
class Raises(Sound):
    """Divides by 0 after the backward pass."""

    def after_backward(self, losses: Tensor, copies: AugmentedBatch) -> None:
        """Fail."""
        self.context.epochs / 0


@register("detached")
class Detached(Sound):
    """Cuts what it learns off from the images."""

    @property
    def strength(self) -> Tensor:
        """A number that no gradient reaches."""
        return torch.tensor(self.raw.item()).sigmoid()


@register("frozen")
class Frozen(Sound):
    """Gets gradients and never steps."""

    def after_backward(self, losses: Tensor, copies: AugmentedBatch) -> None:
        """Forget the gradient."""
        self.raw.grad = None


@register("not-a-leaf")
class NotALeaf(Sound):
    """Declares what is computed from something else as learnable."""

    def __init__(self, hyperparameters: Any, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.learnable = {"raw": self.raw + 0}


@register("says-the-same")
class SaysTheSame(Sound):
    """Names its start as what it has learned."""

    def learned(self) -> dict[str, float]:
        """Always the same."""
        return {"strength": 0.5}


@register("nan-learned")
class NanLearned(Sound):
    """Names a number that is none."""

    def learned(self) -> dict[str, float]:
        """Not a number."""
        return {"strength": float("nan")}


@register("tensor-learned")
class TensorLearned(Sound):
    """Names a tensor."""

    def learned(self) -> dict[str, float]:
        """A tensor."""
        return {"strength": self.strength.expand(2)}  # type: ignore[dict-item]


@register("probability-above-one")
class ProbabilityAboveOne(Sound):
    """Names a probability that is none."""

    def learned(self) -> dict[str, float]:
        """Too large."""
        return {"probability/darkening": 1 + self.strength.item()}


@register("diverges")
class Diverges(Sound):
    """Leaves what it learns without a value, and does not say so."""

    def after_backward(self, losses: Tensor, copies: AugmentedBatch) -> None:
        """Divide by 0."""
        super().after_backward(losses, copies)
        self.learnable["other"] = torch.zeros(1) / 0
