"""Made-up images and runs on them: the cost of a step does not depend on the content of an image."""

from typing import Any

import torch
from torch import Tensor

from augbench.bench.data.dataset import ImageData, Split
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.spec import Component, RunSpec, method_component, network_component
from augbench.bench.training.trainer import Trainer, new_trainer

CLASSES = 10


def made_up_images(count: int, channels: int, size: int) -> Tensor:
    """Draw pixels, the same ones every time; (N, C, H, W), uint8."""
    source = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, channels, size, size), dtype=torch.uint8, generator=source)


def made_up_data(count: int, channels: int, size: int) -> ImageData:
    """Make a data set whose training images are the test images, too; class after class in turn."""
    split = Split(made_up_images(count, channels, size), torch.arange(count) % CLASSES)
    return ImageData(split, split, CLASSES, "made up")


def new_run(method: str, network: str, data: ImageData, device: torch.device, budget: Budget, **own: Any) -> Trainer:
    """Prepare a run at its first step, in training mode.

    Args:
        method: Registered method.
        network: Registered network.
        data: What is trained on.
        device: Where everything is to live.
        budget: Optimiser, batch and acceleration.
        own: Hyperparameters of the method.
    """
    spec = RunSpec(
        method=method_component(method, own, "the benchmark"),
        dataset=Component(name="given", version=1),
        network=network_component(network),
        budget=budget,
        seed=0,
    )
    trainer = new_trainer(spec, data, device)
    trainer.network.train()
    return trainer
