"""What methods are checked on: two small made-up data sets that can be learned in a moment."""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import shared_space
from augbench.bench.common.randomness import generator
from augbench.bench.contract.method import RunContext
from augbench.bench.data.dataset import ImageData, Split
from augbench.bench.experiment.protocol import Budget, Protocol

CLASSES = 5
TRAIN_IMAGES = 120
TEST_IMAGES = 40
BATCH_SIZE = 28  # the last of the five batches of an epoch has 8 images
EPOCHS = 2
NETWORK = "tiny"
PROTOCOL = Protocol(test_time_draws=(1, 2), test_time_repeats=2)
BUDGET = Budget(epochs=EPOCHS, batch_size=BATCH_SIZE, baseline_copies=2)


@dataclass(frozen=True)
class Problem:
    """The kind of images that a method is checked on.

    Attributes:
        name: What messages call it.
        channels: Colour channels.
        image_size: Height and width in pixels.
    """

    name: str
    channels: int
    image_size: int

    def data(self, test_seed: int = 1) -> ImageData:
        """Make the data set: a smooth pattern for each class, under noise; the same each time.

        Args:
            test_seed: Seed of the test images, so that there can be others for the same training images.
        """
        coarse = torch.rand(CLASSES, self.channels, 4, 4, generator=generator(0, f"patterns/{self.name}"))
        patterns = F.interpolate(coarse, size=self.image_size, mode="bilinear", align_corners=False)
        train, test = _split(patterns, TRAIN_IMAGES, 0), _split(patterns, TEST_IMAGES, test_seed)
        return ImageData(train, test, CLASSES, "made up for conformance checks")


GREY = Problem("grey", channels=1, image_size=14)
COLOUR = Problem("colour", channels=3, image_size=16)
PROBLEMS = (GREY, COLOUR)


def _split(patterns: torch.Tensor, count: int, seed: int) -> Split:
    labels = torch.arange(count) % len(patterns)
    noise = torch.rand(count, *patterns.shape[1:], generator=generator(seed, "noise"))
    return Split((255 * (0.8 * patterns[labels] + 0.2 * noise)).to(torch.uint8), labels)


def small_context(channels: int = 1, image_size: int = 14, copies: int = 1, device: str = "cpu") -> RunContext:
    """Make a context for a method's own tests.

    Args:
        channels: Colour channels, 1 or 3.
        image_size: Height and width, in pixels.
        copies: Copies of each image for methods that have no number of their own.
        device: Where the method lives.

    Examples:
        >>> from augbench import Hyperparameters, Method, small_context
        >>> Method(Hyperparameters(), small_context(copies=3)).copies
        3
    """
    return RunContext(shared_space(image_size), channels, CLASSES, TRAIN_IMAGES, EPOCHS, copies, torch.device(device))
