"""Made-up images and runs on them: what a step costs does not depend on what is in an image."""

import torch
from torch import Tensor

from augbench.bench.dataset import ImageData, Split
from augbench.bench.protocol import Budget
from augbench.bench.spec import Component, RunSpec, method_component, network_component
from augbench.bench.training import Trainer, new_trainer

CLASSES = 10


def made_up_images(count: int, channels: int, size: int) -> Tensor:
    """Draw pixels, the same ones every time; (N, C, H, W), uint8."""
    source = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, channels, size, size), dtype=torch.uint8, generator=source)


def made_up_data(count: int, channels: int, size: int) -> ImageData:
    """Make a data set of images that are the test images too; class after class in turn."""
    split = Split(made_up_images(count, channels, size), torch.arange(count) % CLASSES)
    return ImageData(split, split, CLASSES, "made up")


def new_run(
    method: str, network: str, data: ImageData, device: torch.device, *, batch: int, copies: int = 1, epochs: int = 100
) -> Trainer:
    """Prepare a run at its first step.

    Args:
        method: Registered method, with its default hyperparameters.
        network: Registered network.
        data: Its data.
        device: Where everything is to live.
        batch: Images in a batch, copies not counted.
        copies: Copies of each image, for methods with no number of their own.
        epochs: Length of the run.
    """
    spec = RunSpec(
        method=method_component(method, {}, "the benchmark"),
        dataset=Component(name="made up", version=1),
        network=network_component(network),
        budget=Budget(epochs=epochs, batch_size=batch, baseline_copies=copies),
        seed=0,
    )
    trainer = new_trainer(spec, data, device)
    trainer.network.train()
    return trainer
