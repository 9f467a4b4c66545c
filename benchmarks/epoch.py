"""A whole epoch of the training loop, as a multiple of the time of the bare network for as many images.

`bare network` is forward, loss and backward on batches that lie ready: float, normalised, in the network's memory
order, on the device. `with optimiser` adds the step of the budget's optimiser, which is no harness either. The rest of
an epoch's time is ours: gathering, augmenting, normalising, what a method learns, sums, and closing the epoch.
"""

from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.catalogues import networks
from augbench.bench.experiment.protocol import Budget
from augbench.bench.training.optimizer import network_optimizer
from augbench.bench.training.stopping import StopRequested
from augbench.bench.training.trainer import Trainer
from benchmarks.made_up import made_up_data, new_run
from benchmarks.rows import Entry, Goal, Row, Settings, compare

SECTION = "epoch"
GOAL = Goal(1.10)
BARE = "bare network"
# network, size, batch, batches in an epoch: on a CPU and on a GPU
ON_CPU = (("tiny", 14, 128, 10), ("tiny", 28, 128, 5), ("smallnet", 14, 32, 2))
ON_GPU = (("tiny", 28, 128, 40), ("smallnet", 28, 128, 20))
QUICK = (("tiny", 14, 8, 2),)


class OneEpoch:
    """An observer that stops a run after every epoch; training it again continues with the next one."""

    def during_search(self, trainer: Trainer) -> None:
        """Go on."""

    def after_step(self, trainer: Trainer) -> None:
        """Go on."""

    def after_phase(self, trainer: Trainer) -> None:
        """Stop."""
        raise StopRequested


def measure(settings: Settings) -> list[Row]:
    """Compare epochs of `none` and of `scale` with the bare network, which gets as many images in a batch."""
    networks = ON_GPU if settings.device.type == "cuda" else ON_CPU
    cases = [(*network, method) for network in (QUICK if settings.quick else networks) for method in ("none", "scale")]
    rows = []
    for done, (network, size, batch, batches, method) in enumerate(cases):
        case = f"{method}, {network}, {size}×{size}, batch {batch}"
        settings.progress(done, len(cases), case)
        data = made_up_data(batch * batches, 1, size)
        trainer = new_run(method, network, data, settings.device, Budget(epochs=100_000, batch_size=batch))
        images = len(data.train) * trainer.method.copies
        rows += compare(SECTION, case, contestants(trainer, data), settings, images=images)
    return rows


def contestants(trainer: Trainer, data: ImageData) -> dict[str, Entry]:
    """Prepare the training loop and the bare network, with the optimiser and without."""
    trained, bare = (bare_network(trainer, data, with_optimizer) for with_optimizer in (True, False))
    return {
        BARE: Entry(bare.epoch),
        "with optimiser": Entry(trained.epoch, BARE),
        trainer.spec.method.name: Entry(lambda: one_epoch(trainer), BARE, GOAL),
    }


def one_epoch(trainer: Trainer) -> None:
    """Train for one more epoch."""
    with suppress(StopRequested):
        trainer.train(OneEpoch())


class BareNetwork:
    """A network and batches that lie ready for it.

    Args:
        network: From normalised images to logits.
        batches: Normalised images (N, C, H, W) with labels (N,).
        optimizer: Whose steps are taken; None for none.
    """

    def __init__(
        self,
        network: torch.nn.Module,
        batches: Sequence[tuple[Tensor, Tensor]],
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        self.network, self.batches, self.optimizer = network, batches, optimizer

    def epoch(self) -> None:
        """Go through all batches."""
        for images, labels in self.batches:
            self.network.zero_grad(set_to_none=True)
            F.cross_entropy(self.network(images), labels).backward()
            if self.optimizer is not None:
                self.optimizer.step()


def bare_network(trainer: Trainer, data: ImageData, with_optimizer: bool) -> BareNetwork:
    """Prepare the network of a run, freshly initialised, and the batches of an epoch for it, copies included.

    Args:
        trainer: The run.
        data: Its data, on the CPU.
        with_optimizer: Whether steps of the budget's optimiser are taken too.
    """
    network = networks().get(trainer.spec.network.name)().build(data.channels, data.classes)
    network = network.to(trainer.device).to(memory_format=torch.channels_last).train()
    mean, deviation = (numbers.to(trainer.device).view(-1, 1, 1) for numbers in data.mean_and_deviation)
    batches = []
    for split in torch.arange(len(data.train)).split(trainer.spec.budget.batch_size):
        part = data.train.subset(split.repeat(trainer.method.copies)).to(trainer.device)
        normalised = (to_unit_interval(part.images) - mean) / deviation
        batches.append((normalised.contiguous(memory_format=torch.channels_last), part.labels))
    optimizer = network_optimizer(network, trainer.spec.budget) if with_optimizer else None
    return BareNetwork(network, batches, optimizer)
