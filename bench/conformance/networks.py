"""Checks of a network: what `augbench check network` examines, on made-up images."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from augbench.bench.conformance.outcome import Check, ConformanceError, Outcome, Report, go_through
from augbench.bench.conformance.problem import CLASSES
from augbench.bench.networks.base import NetworkSource, build_checked
from augbench.bench.training.process_state import put_back

IMAGES = 8


@dataclass
class Built:
    """A network that is checked.

    Attributes:
        source: The network.
        image_size: Height and width of the images that it is checked on, in pixels.
        changed: What building and using it has changed in the process.
    """

    source: NetworkSource
    image_size: int
    changed: list[str] = field(default_factory=list)

    @property
    def members(self) -> int:
        """Logits of each image in training: one set for every member of a predictor."""
        return 1

    def new(self, channels: int = 1) -> nn.Module:
        """Build it freshly, always with the same weights."""
        torch.manual_seed(0)
        return build_checked(self.source, channels, self.image_size, CLASSES)

    def images(self, channels: int = 1) -> Tensor:
        """Make images as a network gets them; (N, C, H, W)."""
        source = torch.Generator().manual_seed(1)
        return torch.randn(IMAGES, channels, self.image_size, self.image_size, generator=source)


def build(built: Built) -> str:
    """It is built for grey and colour images, and returns a logit for each class."""
    with put_back(built.changed.extend):
        for channels in (1, 3):
            network = built.new(channels)
            shape, wanted = tuple(network(built.images(channels)).shape), (built.members * IMAGES, CLASSES)
            if shape != wanted:
                raise ConformanceError(
                    f"It returned {shape} for {IMAGES} images and {CLASSES} classes, not {wanted}.",
                    "Return a logit for each class of each image.",
                )
    parameters = sum(parameter.numel() for parameter in built.new().parameters())
    return f"{parameters:,} parameters for grey images of {built.image_size} pixels"


def seed(built: Built) -> None:
    """The seed of torch's global generator decides the weights."""
    first, second = built.new().state_dict(), built.new().state_dict()
    for name, value in first.items():
        if not torch.equal(value, second[name]):
            raise ConformanceError(
                f"{name} starts with different values for the same seed.", "Initialise it with torch's generator."
            )


def gradients(built: Built) -> None:
    """Every parameter gets a gradient."""
    network = built.new().train()
    labels = (torch.arange(IMAGES) % CLASSES).repeat(built.members)
    F.cross_entropy(network(built.images()), labels).backward()
    unused = [name for name, one in network.named_parameters() if one.requires_grad and one.grad is None]
    if unused:
        raise ConformanceError(
            f"No gradient reaches {', '.join(unused[:5])}.", "Use it on the way to the logits, or do not register it."
        )


def evaluation(built: Built) -> None:
    """In evaluation mode it draws nothing, changes nothing, and looks at each image alone."""
    network = built.new().eval()
    images = built.images()
    with torch.no_grad():
        first, second, single = network(images), network(images), network(images[:1])
    if not torch.equal(first, second):
        raise ConformanceError("A second pass gives different logits.", "Draw and count in training mode only.")
    if not torch.allclose(first[:1], single, atol=1e-4, rtol=1e-3):
        raise ConformanceError(
            "The logits of an image depend on the other images of the batch.",
            "Use running statistics in evaluation mode.",
        )


def state(built: Built) -> None:
    """What `state_dict` returns restores it."""
    network, other = built.new(), built.new()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.01)
        network.train()(built.images())  # running statistics move
        other.load_state_dict(network.state_dict())
        if not torch.equal(network.eval()(built.images()), other.eval()(built.images())):
            raise ConformanceError(
                "A network restored from `state_dict` gives different logits.",
                "Register everything that it keeps as a parameter or a buffer.",
            )


def process(built: Built) -> None:
    """It leaves the process as it was."""
    if built.changed:
        raise ConformanceError(
            f"It changes settings of the whole process: {', '.join(built.changed)}.", "Undo it where it was done."
        )


CHECKS = (
    Check("build", build),
    *(Check(examine.__name__, examine, ("build",)) for examine in (seed, gradients, evaluation, state, process)),
)


def check_network(source: NetworkSource, image_size: int, begin: Callable[[str], None] = lambda name: None) -> Report:
    """Check whether runs can use a network.

    Args:
        source: The network.
        image_size: Height and width of the images that it is checked on, in pixels.
        begin: Called with the name of each check when it begins.
    """
    built = Built(source, image_size)
    outcomes: dict[str, Outcome] = {}
    go_through(CHECKS, built, outcomes, begin)
    return Report(source.name, tuple(outcomes.values()))
