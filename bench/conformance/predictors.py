"""Checks of a predictor: what `augbench check predictor` examines, on made-up images and a network of ours."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from augbench.bench.conformance.networks import CHECKS, IMAGES, Built
from augbench.bench.conformance.outcome import Check, ConformanceError, Outcome, Report, go_through
from augbench.bench.conformance.problem import CLASSES
from augbench.bench.networks.base import NetworkSource
from augbench.bench.predictors.base import Predictor, PredictorContext, PredictorSettings


@dataclass
class Converted(NetworkSource):
    """A network that is converted by a predictor as soon as it is built.

    Attributes:
        kind: The predictor.
        settings: Its settings.
        network: Builds the network.
        image_size: Height and width of the images, in pixels.
        last: The predictor of the network built last.
    """

    kind: type[Predictor[Any]]
    settings: PredictorSettings
    network: NetworkSource
    image_size: int
    last: Predictor[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.last = self._new(1, CLASSES)

    def build(self, channels: int, classes: int) -> nn.Module:
        """Build and convert it."""
        self.last = self._new(channels, classes)
        return self.last.convert(self.network.build(channels, classes))

    def _new(self, channels: int, classes: int) -> Predictor[Any]:
        context = PredictorContext(
            network=self.network.name,
            channels=channels,
            side=self.image_size,
            classes=classes,
            train_size=IMAGES,
            copies=1,
            seed=0,
            build=lambda: self.network.build(channels, classes),
        )
        return self.kind(self.settings, context)


@dataclass
class BuiltWithPredictor(Built):
    """A converted network that is checked."""

    source: Converted

    @property
    def members(self) -> int:
        """Members of the predictor."""
        return self.source.last.members


def hooks(built: BuiltWithPredictor) -> None:
    """An epoch can be started, and what is added to the loss is one finite number or nothing."""
    built.new().train()(built.images())
    predictor = built.source.last
    predictor.start_epoch()
    for progress in (0.01, 1.0):
        added = predictor.regulariser(progress)
        if added is not None and not (isinstance(added, Tensor) and added.numel() == 1 and bool(added.isfinite())):
            raise ConformanceError(
                f"`regulariser` returned {added!r} at {progress:.0%} of the training.",
                "Return a scalar tensor that is finite, or None.",
            )


def passes(built: BuiltWithPredictor) -> None:
    """It says how often an image goes through the network, as whole numbers from 1."""
    predictor = built.source.last
    for name in ("members", "evaluation_passes"):
        number = getattr(predictor, name)
        if type(number) is not int or number < 1:
            raise ConformanceError(f"`{name}` is {number!r}.", "Make it a whole number from 1.")


def check_predictor(source: Converted, begin: Callable[[str], None] = lambda name: None) -> Report:
    """Check whether runs can use a predictor with a network.

    Args:
        source: The predictor with its settings, and the network.
        begin: Called with the name of each check when it begins.
    """
    built, outcomes = BuiltWithPredictor(source, source.image_size), dict[str, Outcome]()
    own = (Check("passes", passes, ("build",)), Check("hooks", hooks, ("build", "passes")))
    with torch.random.fork_rng([]):
        go_through(CHECKS, built, outcomes, begin)
        go_through(own, built, outcomes, begin)
    return Report(source.kind.name, tuple(outcomes.values()))
