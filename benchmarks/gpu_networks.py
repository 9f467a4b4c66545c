"""Training steps of each network with each way of making them faster, as a fraction of the peak of the machine."""

import gc
from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.acceleration import Acceleration
from augbench.bench.experiment.budgets import budgets
from augbench.bench.experiment.protocol import Budget
from augbench.bench.training.building import build_network
from augbench.bench.training.trainer import Trainer
from benchmarks.gpu_kernel import PEAK
from benchmarks.gpu_pack import read_digits, read_photographs
from benchmarks.gpu_parts import Work, attempt
from benchmarks.made_up import new_run
from benchmarks.rows import Goal
from benchmarks.timing import Contestant, device_clock, paired_ratio, spread, take_turns

ROUNDS = 6
SHORTEST_TURN = 0.05  # seconds
QUICK_NETWORK, QUICK_IMAGES = "tiny", 16
IMAGES = 8192
PAPER_BATCH, LARGE_BATCH = {"smallnet": 128, "resnet34": 64, "wrn-28-10": 64}, 512
OF_DIGITS = "smallnet"
AUGMENTED, LARGEST_SHARE = "wrn-28-10", Goal(0.03)

FAST = Acceleration(precision="bfloat16", fused_optimizer=True)
VARIANTS = {
    "float32": Acceleration(channels_last=False),
    "float32, channels last": Acceleration(),
    "bfloat16": Acceleration(precision="bfloat16", channels_last=False),
    "bfloat16, channels last": Acceleration(precision="bfloat16"),
    "the same, fused optimiser": FAST,
    "the same, CUDA graphs": FAST.model_copy(update={"cuda_graphs": True}),
    "the same, compiled instead": FAST.model_copy(update={"compiled": True}),
    "the same, compiled and CUDA graphs": FAST.model_copy(update={"compiled": True, "cuda_graphs": True}),
}


def measure(work: Work, name: str) -> None:
    """Measure a network's steps without augmentation at the paper's batch and at a large one, way after way.

    What is compiled or recorded, which takes long, is measured at the paper's batch only.
    """
    data = carried_images(work, of_digits=name == OF_DIGITS)
    network = QUICK_NETWORK if work.quick else name
    flops = flops_of_a_step(network, data)
    work.add("floating-point operations of a step, per image", flops)
    batches = (4,) if work.quick else (PAPER_BATCH[name], LARGE_BATCH)
    for label, acceleration in VARIANTS.items():
        if work.quick and acceleration.is_prepared:
            continue
        for batch in batches[:1] if acceleration.is_prepared else batches:
            key = f"batch {batch}, {label}"
            work.add(key, attempt(partial(_step, work, network, data, batch, acceleration, flops)))


def carried_images(work: Work, *, of_digits: bool) -> ImageData:
    """Return whole batches of real images, on the device."""
    count = QUICK_IMAGES if work.quick else IMAGES
    data = (read_digits if of_digits else read_photographs)(work.folder, count)
    return data.to(work.device)


def budget_of(name: str, data: str, acceleration: Acceleration, **changes: Any) -> Budget:
    """Return the paper's budget for a network and a data set, made faster and otherwise changed."""
    return budgets().paper(data, name).model_copy(update={"acceleration": acceleration, **changes})


def flops_of_a_step(network: str, data: ImageData) -> float:
    """Count the operations of a forward and backward pass through a network, per image, without doing any of them."""
    images = torch.empty(2, *data.train.images.shape[1:], device="meta")
    module = build_network(network, data, data.train.images.device).to("meta")
    with FlopCounterMode(display=False) as counter:
        module(images).sum().backward()
    return float(counter.get_total_flops()) / len(images)


def _step(
    work: Work, network: str, data: ImageData, batch: int, acceleration: Acceleration, flops: float
) -> dict[str, Any]:
    """Measure steps of one kind: images per second, fraction of the peak, memory and time of compilation."""
    _forget(work.device)
    budget = Budget(epochs=1000, batch_size=batch, optimizer="sgd", learning_rate=0.01, acceleration=acceleration)
    trainer = new_run("none", network, data, work.device, budget)
    trainer.compile()
    seconds = _in_turn(work, {"step": steps(trainer, batch)})["step"]
    rate = batch / spread(seconds).median
    peak = peak_of(work, acceleration)
    clocks = trainer.cost.seconds.values()
    return {
        "seconds of a step": seconds,
        "images per second": rate,
        "share of peak": None if peak is None else rate * flops / peak,
        "seconds to compile": sum(clock["compilation"] for clock in clocks),
        "bytes at the peak": torch.cuda.max_memory_allocated(work.device) if work.device.type == "cuda" else None,
    }


def peak_of(work: Work, acceleration: Acceleration) -> float | None:
    """Return the operations per second of a large matrix product in the precision of the network, if measured."""
    found: float | None = work.earlier.get("machine", {}).get(f"{PEAK}, {acceleration.precision}")
    return found


def _forget(device: torch.device) -> None:
    """Free the memory of the last step, so that the peak is that of the next one."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def _in_turn(work: Work, contestants: Mapping[str, Contestant]) -> dict[str, list[float]]:
    rounds, turn = (2, 0.0) if work.quick else (ROUNDS, SHORTEST_TURN)
    return take_turns(contestants, rounds, device_clock(work.device), turn)


def steps(trainer: Trainer, batch: int) -> Callable[[], None]:
    """Return a function that takes the next training step of a run, batch after batch, again and again."""
    indices = torch.arange(len(trainer.data.train), device=trainer.device)
    batches = cycle(indices.split(batch))
    return lambda: trainer.train_step(next(batches))


def measure_augmentation(work: Work) -> None:
    """Measure what part of a step of the largest network SCALE's images and its other additions are.

    `augment` draws, composes and resamples alone, started from Python; of that, the device may be idle a part of the
    time. The goal is for that time. The gradient's way back to the ranges is not in it, but in `scale / none`.
    """
    data = carried_images(work, of_digits=False)
    network, batch = (QUICK_NETWORK, 4) if work.quick else (AUGMENTED, PAPER_BATCH[AUGMENTED])
    budget = budget_of(AUGMENTED, "cifar10", FAST, batch_size=batch)
    learner = new_run("scale", network, data, work.device, budget)
    copies = learner.method.copies
    plain = new_run("none", network, data, work.device, budget.model_copy(update={"baseline_copies": copies}))
    indices = torch.arange(batch, device=work.device)
    augment = partial(learner.method.augment_indexed, data.train.images, indices, learner.augmentation)
    contestants: dict[str, Contestant] = {
        "scale": steps(learner, batch),
        "none": steps(plain, batch),
        "augment": augment,
    }
    seconds = _in_turn(work, contestants)
    work.add("seconds", seconds)
    work.add("scale / none", vars(paired_ratio(seconds["scale"], seconds["none"])))
    fraction = paired_ratio(seconds["augment"], seconds["scale"])
    work.add_goal(f"augmentation, share of a step on {copies} copies of {batch} images", fraction.median, LARGEST_SHARE)
    if work.device.type == "cuda":
        work.add("seconds that the device works for augment", device_seconds(augment))


def device_seconds(function: Callable[[], object], calls: int = 20) -> float:
    """Seconds that a GPU's kernels take for one call, without the gaps between them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(calls):
            function()
        torch.cuda.synchronize()
    # events of the CPU repeat the time of the kernels that they have started
    events = [event for event in profile.key_averages() if event.device_type.name != "CPU"]
    return sum(float(event.self_device_time_total) for event in events) / calls / 1e6
