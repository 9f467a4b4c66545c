"""The plain step: a training step without augmentation, the unit in which costs on different machines are compared."""

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.common.randomness import epoch_order
from augbench.bench.contract.method import AugmentedBatch, repeat
from augbench.bench.runs.run_log import logger
from augbench.bench.training.building import build_network
from augbench.bench.training.cost import Clock, repeated
from augbench.bench.training.forward_pass import ForwardPass
from augbench.bench.training.optimizer import network_optimizer
from augbench.bench.training.provenance import describe_device
from augbench.bench.training.stopping import StopRequested, StopSignal
from augbench.bench.training.trainer import Trainer

WARM_UP_STEPS, WARM_UP_SECONDS = 3, 0.3
FEWEST_STEPS = 3  # however long they take
MOST_SECONDS = 1.0  # of timed steps, after these
ENOUGH_STEPS, SHARE_OF_RUN = 20, 0.05  # of the run's steps: a short run is not to take much longer


def time_plain_step(trainer: Trainer, stop: StopSignal, clock: Clock | None = None) -> None:
    """Time the plain step of a run and have its cost count in it from now on.

    A step without augmentation is timed on as many images as go through the network in a step of the run, copies
    included: gather them, scale them to [0, 1], forwards, backwards, optimiser. Precision, memory order and optimiser
    are those of the budget; nothing is compiled, which would take minutes. Of that time, the plain step is the share of
    a batch with one copy of each image. So it is the same unit for all methods of a comparison, and does not depend on
    how much better than a small batch a device does a large one.

    Nothing of the run changes: the network is another one, and torch's random state is set back.

    Args:
        trainer: The run.
        stop: Looked at before each step.
        clock: Returns the seconds when the device has finished its work; for tests.

    Raises:
        StopRequested: If the run was asked to stop.
    """
    now = clock or trainer.cost.now
    most = max(ENOUGH_STEPS, int(SHARE_OF_RUN * trainer.total_steps))
    images = min(trainer.batch_size, len(trainer.data.train)) * trainer.method.copies
    in_plain_batch = min(trainer.spec.budget.images_in_batch(1), len(trainer.data.train))
    try:
        with torch.random.fork_rng([trainer.device] if trainer.device.type == "cuda" else []):
            step = _unless_stopped(_plain_step(trainer, images), stop)
            repeated(step, now, fewest=1, most=WARM_UP_STEPS, seconds=WARM_UP_SECONDS)
            times = repeated(step, now, fewest=FEWEST_STEPS, most=most, seconds=MOST_SECONDS)
    except torch.OutOfMemoryError as error:  # a second network, which is not compiled, may not fit beside the run's own
        logger.warning("The plain step does not fit into memory, so this run has no cost in plain steps: %s", error)
        return
    share = in_plain_batch / images
    trainer.cost.count_in_plain_steps(share * statistics.median(times), _described(trainer, images, times, share))


def _plain_step(trainer: Trainer, images: int) -> Callable[[], object]:
    """Build the step; its learning rate is 0, so that it is the same every time."""
    budget, train, device = trainer.spec.budget, trainer.data.train, trainer.device
    channels_last = budget.acceleration.channels_last
    network = build_network(trainer.spec.network.name, trainer.data, device, channels_last=channels_last).train()
    forward_pass, optimizer = ForwardPass(network, budget.acceleration, device), network_optimizer(network, budget)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    order = epoch_order(trainer.spec.seed, 0, len(train))
    batch = repeat(order[: images // trainer.method.copies], trainer.method.copies).to(device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = forward_pass(AugmentedBatch(to_unit_interval(train.images.index_select(0, batch))))
        F.cross_entropy(logits, train.labels[batch]).backward()
        optimizer.step()

    return step


def _unless_stopped(step: Callable[[], object], stop: StopSignal) -> Callable[[], object]:
    def checked() -> None:
        if cause := stop.look():
            raise StopRequested(cause)
        step()

    return checked


def _described(trainer: Trainer, images: int, times: list[float], share: float) -> dict[str, Any]:
    """Describe the timing for the record, with the quartiles of the plain step in seconds."""
    return {
        "device": describe_device(trainer.device),
        "threads": torch.get_num_threads(),
        "images": images,
        "steps": len(times),
        "quartiles": [share * quartile for quartile in statistics.quantiles(times, n=4, method="inclusive")],
    }
