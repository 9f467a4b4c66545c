"""Methods with one fault each, and sound ones, as a plug-in file: what the conformance checks are tested on.

Most faults are a table of what differs from a sound method. Some are slips that newcomers make: something forgotten,
misspelt or returned in another type.
"""

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from augbench import (
    AffinePolicy,
    AugmentedBatch,
    BlockLaw,
    Draw,
    Hyperparameters,
    Method,
    Policy,
    RunContext,
    SearchProblem,
    SharedSpaceMethod,
    register,
    repeat,
    to_unit_interval,
)

# Sound methods


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


@register("given")
class Given(SharedSpaceMethod[Hyperparameters]):
    """Keeps a fixed tensor where it is saved; its search has nothing to look for. Nothing is wrong with that."""

    title = "a given range"
    paper = "unpublished"
    searches = True

    def __init__(self, hyperparameters: Hyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.fraction = torch.full((), 0.5, device=context.device)
        self.learnable = {"share": self.fraction}

    def search(self, problem: SearchProblem) -> None:
        """Nothing to look for."""

    def draw(self, count: int, generator: torch.Generator) -> Draw:
        """Draw from half of every range."""
        space = self.context.space
        probabilities = torch.full((len(space.blocks),), 0.5, device=generator.device)
        return space.sample(count, probabilities, self.fraction * space.maxima(generator.device), generator)


# Faults that need a class of their own


class OwnHyperparameters(Hyperparameters):
    """Hyperparameters of a method that does not name them."""

    rate: float = Field(0.1, gt=0, le=1, description="a rate")


def use_rate(self: Any, hyperparameters: Any, context: RunContext) -> None:
    """Start with a hyperparameter."""
    Method.__init__(self, hyperparameters, context)
    self.rate = hyperparameters.rate


@register("no-hyperparameters-type")
class NoHyperparametersType(Method[OwnHyperparameters]):
    """Announces hyperparameters and does not name them."""

    title = "forgetful"
    paper = "unpublished"
    __init__ = use_rate


class Undescribed(SoundHyperparameters):
    """One has no description."""

    strength: float = Field(0.5, ge=0)


class Unlimited(SoundHyperparameters):
    """One has no limits."""

    strength: float | None = Field(0.5, description="strength")


# The table


def planted(name: str, base: type[Any] = Sound, **members: Any) -> None:
    """Register a class that differs from another one in some members, as if it were written down in this file."""
    told = {"__doc__": f"Has the fault {name!r}.", "__module__": __name__}
    if base in (Method, SharedSpaceMethod):
        told |= {"title": "faulty", "paper": "unpublished"}
    target = type("".join(map(str.title, name.split("-"))), (base,), told | members)
    globals()[target.__name__] = register(name)(target)


def starts(change: Callable[[Any], object]) -> Callable[..., None]:
    """Start as the sound method, then change something."""

    def start(self: Any, hyperparameters: Any, context: RunContext) -> None:
        Sound.__init__(self, hyperparameters, context)
        change(self)

    return start


def steps(change: Callable[[Any, Tensor], object]) -> Callable[..., None]:
    """Change something, then step as the sound method."""

    def after_backward(self: Any, losses: Tensor, copies: AugmentedBatch) -> None:
        change(self, losses)
        Sound.after_backward(self, losses, copies)

    return after_backward


def draws(draw: Callable[[Any, Tensor, torch.Generator], Tensor]) -> Callable[[Any], Policy]:
    """Draw for a test in some way."""
    return lambda self: lambda images, generator: draw(self, images, generator)


def changed(change: Callable[..., Tensor]) -> Callable[..., AugmentedBatch]:
    """Augment as the sound method, then change the images, for which the batch and the method may be looked at."""
    return lambda self, images, generator: AugmentedBatch(
        change(Sound.augment(self, images, generator).images, images, self)
    )


def blacken(images: Tensor) -> Tensor:
    """Blacken a corner for good."""
    images[:, :, :2, :2] = 0
    return images


def slow_down(self: Any, losses: Tensor) -> None:
    """Anneal the learning rate by a counter."""
    self.steps += 1
    self.optimizers["raw"].param_groups[0]["lr"] = 0.05 / self.steps


def peek(self: Any, problem: SearchProblem) -> float:
    """Find the way to the test images and look at them."""
    owner = getattr(problem.build_network, "__self__", None)
    seen = 0.0 if owner is None else owner.data.test.images.float().mean().item()
    return SoundSearch.find(self, problem) + seen


def destroy(self: Any, problem: SearchProblem) -> float:
    """Find the way to the data set itself and turn one label."""
    owner = getattr(problem.build_network, "__self__", None)
    if owner is not None:
        owner.data.train.labels[0] = 1 - owner.data.train.labels[0]
    return SoundSearch.find(self, problem)


def seeded_by_the_clock(self: Any, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
    """Ignore the generator."""
    own = torch.Generator()
    own.seed()
    return Sound.augment(self, images, own)


def printing(self: Any, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
    """Print in every step."""
    print("augmenting")  # noqa: T201 - this is what is looked for
    return Sound.augment(self, images, generator)


# What it says about itself
planted("no-paper", paper="")
planted("undescribed", hyperparameters_type=Undescribed)
planted("unlimited", hyperparameters_type=Unlimited)
planted("quick-typo", quick_hyperparameters={"learning_rat": 0.1})
planted("no-hyperparameters-type-said", Method, __init__=use_rate)

# Images
planted(
    "wrong-shape",
    transform=lambda self, images, generator: Sound.transform(self, images, generator)[:, :, 1:],
    test_policy=lambda self: None,
)
planted("one-copy", augment=lambda self, images, generator: AugmentedBatch(self.transform(images, generator)))
planted(
    "grey-only",  # smooths with a kernel for one channel
    transform=lambda self, images, generator: F.conv2d(
        Sound.transform(self, images, generator), torch.full((1, 1, 3, 3), 1 / 9), padding=1
    ),
)
planted("bytes", augment=changed(lambda made, batch, self: (made * 255).to(torch.uint8)))
planted("out-of-range", augment=changed(lambda made, batch, self: 3 * made - 1))
planted("one-image", augment=changed(lambda made, batch, self: made + torch.zeros(1) / (len(batch) - 1)))
planted("in-place", augment=lambda self, images, generator: Sound.augment(self, blacken(images), generator))
planted(
    "global-torch",
    transform=lambda self, images, generator: (
        to_unit_interval(images) * (1 - self.strength * torch.rand(len(images), 1, 1, 1))
    ),
)
planted("global-numpy", augment=changed(lambda made, batch, self: made * float(np.random.rand())))
planted(
    "global-python",
    test_policy=draws(lambda self, images, generator: self.transform(images, generator) * random.random()),  # noqa: S311
)
planted("unseeded", augment=seeded_by_the_clock)
planted("ends-the-process", augment=lambda self, images, generator: sys.exit(3))
planted("draw-of-numbers", SharedSpaceMethod, draw=lambda self, count, generator: [0.0] * count)

half_mirrored = torch.tensor([0, 0, 0, 0, 0, 0.5, 0])
planted(
    "mirrors-other-than-it-says",
    SharedSpaceMethod,
    draw=lambda self, count, generator: self.context.space.sample(count, half_mirrored, torch.ones(4), generator),
    describe_policy=lambda self: AffinePolicy.of([(BlockLaw(block="flip", probability=0.7),)], self.context.space),
)

# Loss and learning
planted("mean-loss", loss=lambda self, logits, labels: Sound.loss(self, logits, labels).mean(0))
planted("loss-without-gradient", loss=lambda self, logits, labels: Sound.loss(self, logits.detach(), labels))
planted("raises", after_backward=lambda self, losses, copies: self.context.epochs / 0)
planted("detached", strength=property(lambda self: torch.tensor(self.raw.item()).sigmoid()))
planted("frozen", after_backward=lambda self, losses, copies: setattr(self.raw, "grad", None))
planted("not-a-leaf", __init__=starts(lambda self: self.learnable.update(raw=self.raw + 0)))
planted("says-the-same", learned=lambda self: {"strength": 0.5})
planted("nan-learned", learned=lambda self: {"strength": float("nan")})
planted("tensor-learned", learned=lambda self: {"strength": self.strength.expand(2)})
planted("probability-above-one", learned=lambda self: {"probability/darkening": 1 + self.strength.item()})
planted("diverges", after_backward=steps(lambda self, losses: self.learnable.update(other=torch.zeros(1) / 0)))
planted("forgetful-step", Given, after_backward=lambda self, losses, copies: None)
planted("regulariser-tuple", regulariser=lambda self: (self.strength, self.strength))
planted("regulariser-vector", regulariser=lambda self: torch.stack([self.strength, self.strength]))
planted("learned-list", learned=lambda self: [self.strength.item()])

# Resuming
planted(
    "hidden-state",  # an average of the losses, which nobody saves
    average=0.0,
    after_backward=steps(
        lambda self, losses: setattr(self, "average", 0.9 * self.average + 0.1 * losses.mean().item())
    ),
    augment=changed(lambda made, batch, self: made / (1 + self.average)),
)
planted("counts-steps", steps=0, after_backward=steps(slow_down))
planted(
    "forgets-schedule",  # which a resumed run does not start after the last epoch
    fraction=0.0,
    start_epoch=lambda self, epoch: setattr(self, "fraction", 1 / (1 + epoch)),
    test_policy=draws(lambda self, images, generator: self.transform(images, generator) * self.fraction),
)
planted("saves-an-object", state_dict=lambda self: Sound.state_dict(self) | {"setting": self.context})
planted("empty-state", state_dict=lambda self: {})
planted("no-zero-grad", after_backward=lambda self, losses, copies: self.optimizers["raw"].step())

# Search
planted("unseeded-search", SoundSearch, find=lambda self, problem: SoundSearch.find(self, problem) + np.random.rand())
planted("peeking-search", SoundSearch, find=peek)
planted("destroys-data", SoundSearch, find=destroy)
planted(
    "uncounted-search",
    SoundSearch,
    find=lambda self, problem: (
        problem.build_network()(to_unit_interval(problem.train.images)),
        SoundSearch.find(self, problem),
    )[1],
)
planted(
    "destructive-search",
    SoundSearch,
    find=lambda self, problem: (problem.train.images.zero_(), SoundSearch.find(self, problem))[1],
)
planted(
    "forgetful-search",
    Given,
    search=lambda self, problem: (
        problem.build_network()(problem.validation.images.float() / 255),
        problem.count_passes(len(problem.validation)),
    ),
)

# Evaluation
planted("policy-of-another-shape", test_policy=draws(lambda self, *given: self.augment(*given).images))
planted("policy-changes-images", test_policy=draws(lambda self, images, *more: self.transform(blacken(images), *more)))
planted("policy-learns", test_policy=draws(lambda self, *given: (self.transform(*given), self.raw.data.add_(0.1))[0]))
planted(
    "policy-uses-network",  # while that counts statistics
    wrap_network=lambda self, network: (setattr(self, "network", network), network)[1],
    test_policy=draws(
        lambda self, *given: (
            made := self.transform(*given),
            self.network.train(),
            self.network(made),
            self.network.eval(),
        )[0]
    ),
)
planted("policy-text", test_policy=lambda self: "flip")
planted("flat-transforms", sample_transforms=lambda self, count, generator: torch.eye(2).expand(count, 2, 2))

# Hooks that are never called
planted("search-without-searches", search=lambda self, problem: None)
planted("searches-without-search", searches=True)
planted("american-hook", regularizer=lambda self: -self.strength)
planted("underscored-hook", after_epoch_=lambda self, epoch: None)
planted("joined-hook", afterepoch=lambda self, epoch: None)
planted("draw-without-base", Method, draw=lambda self, count, generator: None)
planted("spoken", augment=printing, losses=lambda self: None)  # a little like `loss`, and no fault

# Made of the wrong parts
planted("no-base-start", Method, __init__=lambda self, hyperparameters, context: setattr(self, "factor", 0.5))
planted("no-base-start-used", Method, __init__=lambda self, *given: setattr(self, "device", self.context.device))
planted("no-draw", SharedSpaceMethod)
planted("no-network", wrap_network=lambda self, network: None)
planted("learnable-list", __init__=starts(lambda self: setattr(self, "learnable", [self.raw])))
planted("learnable-number", __init__=starts(lambda self: setattr(self, "learnable", {"raw": 0.5})))
planted("bare-optimizer", __init__=starts(lambda self: setattr(self, "optimizers", torch.optim.Adam([self.raw]))))
