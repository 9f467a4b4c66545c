"""A plug-in for runs on Slurm: a data set of a moment, and methods whose steps take as long as a test wants."""

import os
import time
from pathlib import Path

import torch

from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Method
from augbench.bench.contract.search_space import tunable
from augbench.bench.data.dataset import DatasetOptions, DatasetSource, ImageData, Split
from augbench.bench.registry.registry import register


def pause() -> None:
    """Wait as long as a variable says, or until a file is there that another one names."""
    end = time.monotonic() + float(os.environ.get("AUGBENCH_TEST_PAUSE", "0"))
    gate = Path(os.environ.get("AUGBENCH_TEST_GATE", "/"))
    while time.monotonic() < end and not gate.exists():
        time.sleep(0.02)


@register("paced")
class Paced(Method[Hyperparameters]):
    """No augmentation, and a pause before each step."""

    title = "no augmentation, with pauses"

    def augment(self, images: torch.Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Make a pause first."""
        pause()
        noise = torch.rand(len(images), 1, 1, 1, generator=generator)  # a stream that a resumed run has to continue
        return AugmentedBatch(super().augment(images, generator).images * (0.5 + noise))


@register("paced-too")
class PacedToo(Paced):
    """The same under another name, which a profile can give other resources."""

    title = "the same under another name"


class Strength(Hyperparameters):
    """Something to tune."""

    strength: float = tunable(0.5, low=0.1, high=1.0, gt=0, le=1, description="share of the noise")


@register("paced-tuned")
class PacedTuned(Method[Strength]):
    """Noise whose strength is tuned, and a pause before each step."""

    title = "noise, with pauses"
    hyperparameters_type = Strength

    def augment(self, images: torch.Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Make a pause first."""
        pause()
        noise = torch.rand(len(images), 1, 1, 1, generator=generator)
        return AugmentedBatch(super().augment(images, generator).images * (1 - self.hyperparameters.strength * noise))


@register("raising")
class Raising(Method[Hyperparameters]):
    """Fails at its first step."""

    title = "fails at its first step"

    def augment(self, images: torch.Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Fail."""
        raise RuntimeError("this method is meant to fail")


@register("dots")
class Dots(DatasetSource):
    """Images of random dots, a pattern for each class: 160 to train on, 40 to test on, 4 classes, 14 pixels a side."""

    title = "random dots"
    checksum = "sha256:none"

    def load(self, options: DatasetOptions, root: Path) -> ImageData:
        """Make the images."""
        generator = torch.Generator().manual_seed(0)
        patterns = torch.rand(4, 1, 14, 14, generator=generator)
        labels = torch.arange(200) % 4
        images = (patterns[labels] + torch.rand(200, 1, 14, 14, generator=generator)) * 127
        splits = [Split(images[part].to(torch.uint8), labels[part]) for part in (slice(160), slice(160, 200))]
        return ImageData(*splits, classes=4, provenance="made from random numbers")
