"""Predictors: the second axis of a comparison, beside its methods.

A method says what the network sees; a predictor, what becomes of the network: dropout that stays on, members that share
weights, a Gaussian process as the last layer. Every method can be compared with every predictor.

A predictor changes a network when it is built, in `convert`, and keeps all its state in the parameters and buffers of
what that returns, so that a run is saved, resumed and loaded as without one. In training, the changed network returns
the logits of every member, (K·N, classes) member by member; the loss of an image is the mean over members. In
evaluation it returns (N, classes): logits, or the logarithms of mean probabilities. The softmax of both are the
prediction, so that evaluation, test-time draws and probes need not know of predictors.

In evaluation nothing is random: a sample of dropout or of weights comes from a stream of its own, and is the same for
all images (as in Kirsch et al., NeurIPS 2019, section 4). So the prediction of an image does not depend on those beside
it, nor on how many go through the network together.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn


class PredictorSettings(BaseModel):
    """Settings of a predictor, checked before anything is run; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


S = TypeVar("S", bound=PredictorSettings)


@dataclass(frozen=True)
class PredictorContext:
    """What a predictor may know of the run that it is part of.

    Attributes:
        network: Name of the network, for messages.
        channels: Colour channels of the images.
        side: Height and width of the images, in pixels.
        classes: Number of classes.
        train_size: Number of training images.
        copies: Augmented copies of each image in a batch.
        seed: Seed of the run.
        build: Builds the network once more, with other weights from torch's global generator.
    """

    network: str
    channels: int
    side: int
    classes: int
    train_size: int
    copies: int
    seed: int
    build: Callable[[], nn.Module]


class Predictor(Generic[S]):
    """How a network becomes class probabilities; this one leaves it as it is.

    The training loop calls `convert` when it builds the network, `start_epoch` before the first step of each epoch, and
    `regulariser` in every step.

    Attributes:
        name: The registered name; set by the decorator.
        version: To be raised whenever results change; part of a run's identity.
        title: One line for tables and lists.
        paper: Where the predictor was published.
        deviations: What differs from the paper or its code, and why.
        settings_type: The class of its settings.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    title: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    deviations: ClassVar[tuple[str, ...]] = ()
    settings_type: ClassVar[type[PredictorSettings]] = PredictorSettings

    def __init__(self, settings: S, context: PredictorContext) -> None:
        self.settings = settings
        self.context = context

    @property
    def members(self) -> int:
        """Members K: passes through the network of each image in training."""
        return 1

    @property
    def evaluation_passes(self) -> int:
        """Passes through the network of each image in evaluation."""
        return self.members

    def convert(self, network: nn.Module) -> nn.Module:
        """Return what is trained in place of a network, which may be changed.

        Args:
            network: From normalised images (N, C, H, W) to logits (N, classes), freshly initialised.

        Returns:
            A module from normalised images to logits: (K·N, classes) in training, (N, classes) in evaluation. What it
            draws to start with comes from torch's global generator.

        Raises:
            UserError: If the network has a layer that the predictor cannot carry.
        """
        return network

    def start_epoch(self) -> None:
        """Get ready for the first step of an epoch; an epoch that goes on after a stop is not started again."""

    def regulariser(self, progress: float) -> Tensor | None:
        """Return what is added to the mean loss before the backward pass, a scalar, or nothing.

        Args:
            progress: Fraction of the training's steps that are done, this one included; in (0, 1].
        """
        return None
