"""Whole epochs and runs through the ordinary training loop and evaluation, and whether a step waits for the device."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.acceleration import Acceleration
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import load_suite
from augbench.bench.training.evaluation import evaluate, summarise
from augbench.bench.training.probe import rotation_probe
from augbench.bench.training.stopping import StopRequested
from augbench.bench.training.trainer import Trainer
from benchmarks.gpu_networks import FAST, QUICK_NETWORK, budget_of, flops_of_a_step, peak_of
from benchmarks.gpu_pack import read_digits, read_photographs
from benchmarks.gpu_parts import Work, attempt
from benchmarks.made_up import new_run
from benchmarks.rows import Goal

QUICK_IMAGES = 32
NETWORK = "smallnet"
EPOCHS, FEWER_EPOCHS, QUICK_EPOCHS = 5, 3, 2  # measured: of a method's first run, and of its others
OF_A_RUN = "seconds of a run"
LONGEST_RUN = Goal(300.0)  # seconds of SCALE with the paper's budget on rotated digits
WAYS = {
    "bfloat16": FAST,
    "compiled": FAST.model_copy(update={"compiled": True, "cuda_graphs": True}),
    "by default": Acceleration(),
}
SHORT_NETWORK, SHORT_EPOCHS, SHORT_BATCH = "wrn-16-4", 15, 128
ALL_PHOTOGRAPHS = 50_000  # of CIFAR-10 to train on, a part of which is carried
QUICKER_LEARNING = 0.01  # SCALE's rate where there are a tenth of the paper's epochs
STEPS_OF_CHECK, BATCH_OF_CHECK = 6, 32


@dataclass
class Watch:
    """Observes a run: notes the ends of its phases, and calls a function after its steps.

    Attributes:
        epochs: Epochs after which the run is stopped.
        step_done: Called after each step that does not close an epoch.
        ends: When the first phase began, with what is compiled before it, and when each phase ended; monotonic clock.
    """

    epochs: int
    step_done: Callable[[Trainer], None] = lambda trainer: None
    ends: list[float] = field(default_factory=lambda: [time.monotonic()])

    def during_search(self, trainer: Trainer) -> None:
        """Continue the search."""

    def after_step(self, trainer: Trainer) -> None:
        """Call the function."""
        if trainer.step % trainer.steps_per_epoch:
            self.step_done(trainer)

    def after_phase(self, trainer: Trainer) -> None:
        """Note the time; stop after the last wanted epoch."""
        self.ends.append(time.monotonic())
        if len(trainer.rows) >= self.epochs:
            raise StopRequested

    @property
    def seconds(self) -> list[float]:
        """Seconds of each phase."""
        return [end - start for start, end in zip(self.ends, self.ends[1:], strict=False)]


def train(trainer: Trainer, watch: Watch) -> None:
    """Train until the watch stops the run."""
    with suppress(StopRequested):
        trainer.train(watch)


def measure_waiting(work: Work) -> None:
    """Train every method for an epoch and check whether its steps wait for the device."""
    count = STEPS_OF_CHECK * BATCH_OF_CHECK
    data = read_photographs(work.folder, count).to(work.device)
    waiting = 0
    for entry in methods():
        found = attempt(partial(_wait, work, entry.name, data))
        work.add(entry.name, found)
        waiting += "failed" in found
    work.add_goal("methods that wait for the device or fail", waiting, Goal(0))


def _wait(work: Work, name: str, data: ImageData) -> dict[str, Any]:
    budget = Budget(epochs=1, batch_size=BATCH_OF_CHECK)
    own = methods().get(name).quick_hyperparameters
    trainer = new_run(name, QUICK_NETWORK, data, work.device, budget, **own)
    with refusing_to_wait() as refuse:
        # the first steps may compile kernels and fill caches, and the last one closes the epoch
        train(trainer, Watch(1, lambda run: refuse(2 <= run.step < run.steps_per_epoch - 1)))
    return {"steps": STEPS_OF_CHECK - 3}


@contextmanager
def refusing_to_wait() -> Iterator[Callable[[bool], None]]:
    """Yield a function that makes CUDA refuse, or allow again, calls that wait for the device."""

    def refuse(refused: bool) -> None:
        torch.cuda.set_sync_debug_mode("error" if refused else "default")

    try:
        yield refuse
    finally:
        refuse(False)


def measure_paper_budget(work: Work) -> None:
    """Extrapolate the paper's budget on rotated digits from a few epochs, and evaluate after them.

    How steps are made faster does not touch the evaluation, which is measured once for each method.
    """
    data = read_digits(work.folder, QUICK_IMAGES if work.quick else None).to(work.device)
    evaluations: dict[str, float] = {}
    best = math.inf
    for method, label in (("scale", "bfloat16"), ("none", "bfloat16"), ("scale", "compiled"), ("scale", "by default")):
        if work.quick and WAYS[label].is_prepared:
            continue
        found = attempt(partial(_paper_budget, work, method, WAYS[label], data, evaluations))
        work.add(f"{method}, {label}", found)
        if method == "scale" and OF_A_RUN in found:
            best = min(best, found[OF_A_RUN])
            work.add_goal("SCALE on rotmnist with the paper's budget, seconds", best, LONGEST_RUN)


def _paper_budget(
    work: Work, method: str, acceleration: Acceleration, data: ImageData, evaluations: dict[str, float]
) -> dict[str, Any]:
    """Measure one run's epochs; they are extrapolated by the median of all but the first."""
    budget = budget_of(NETWORK, "rotmnist", acceleration, **({"batch_size": 8} if work.quick else {}))
    network = QUICK_NETWORK if work.quick else NETWORK
    trainer = new_run(method, network, data, work.device, budget)
    watch = Watch(QUICK_EPOCHS if work.quick else EPOCHS if method not in evaluations else FEWER_EPOCHS)
    train(trainer, watch)
    if method not in evaluations:
        evaluations[method] = _evaluation(trainer)["seconds"]
    epoch, compilation = statistics.median(watch.seconds[1:]), _clock(trainer, "compilation")
    operations = budget.epochs * len(data.train) * trainer.method.copies * flops_of_a_step(network, data)
    peak = peak_of(work, acceleration)
    return {
        "seconds of epochs": watch.seconds,
        "seconds to evaluate": evaluations[method],
        "seconds to compile": compilation,
        OF_A_RUN: budget.epochs * epoch + evaluations[method] + compilation,
        "seconds at the peak of matrix products": None if peak is None else operations / peak,
        "rows": trainer.rows,
    }


def measure_leaderboard(work: Work) -> None:
    """Begin runs of the suite `leaderboard-full` on the carried part of CIFAR-10: what whole ones would take."""
    data = read_photographs(work.folder, QUICK_IMAGES if work.quick else None).to(work.device)
    first = {spec.method.name: spec for spec in reversed(load_suite("leaderboard-full").specs()) if _is_shown(spec)}
    for method, is_compiled in (("none", False), ("scale", False), ("none", True)):
        if not (work.quick and is_compiled):
            key = f"{method}, {'compiled' if is_compiled else 'not compiled'}"
            work.add(key, attempt(partial(_begin, work, first[method], data, is_compiled)))


def _is_shown(spec: RunSpec) -> bool:
    return spec.dataset.name == "cifar10" and spec.budget.equal == "passes"


def _begin(work: Work, spec: RunSpec, data: ImageData, is_compiled: bool) -> dict[str, Any]:
    """Measure a run's first epochs, and extrapolate the median of all but the first to all images and epochs."""
    acceleration = spec.budget.acceleration.model_copy(update={"compiled": is_compiled})
    smaller = {"batch_size": 8} if work.quick else {}
    budget = spec.budget.model_copy(update={"acceleration": acceleration, **smaller})
    network = QUICK_NETWORK if work.quick else spec.network.name
    trainer = new_run(spec.method.name, network, data, work.device, budget, **spec.method.settings)
    watch = Watch(QUICK_EPOCHS if work.quick else FEWER_EPOCHS)
    train(trainer, watch)
    images = trainer.epochs * ALL_PHOTOGRAPHS / len(data.train)
    return {
        "seconds of epochs": watch.seconds,
        "seconds to compile": _clock(trainer, "compilation"),
        "seconds to train on all images": images * statistics.median(watch.seconds[1:]),
        "rows": trainer.rows,
    }


def _clock(trainer: Trainer, phase: str) -> float:
    return sum(seconds[phase] for seconds in trainer.cost.seconds.values())


def _evaluation(trainer: Trainer) -> dict[str, Any]:
    """Evaluate as a run does in the end; accuracies by number of test-time draws."""
    spec, test, cost = trainer.spec, trainer.data.test, trainer.cost
    predictions = evaluate(trainer.network, trainer.method.test_policy(), test, spec.protocol, spec.seed, cost)
    probed, side = trainer.data.probe_images, trainer.data.image_size
    rotation_probe(trainer.network, probed, spec.protocol.probe_angles, cost, side=side)
    metrics = summarise(predictions, spec.protocol.calibration_bins)
    accuracies = {draws: values["accuracy"]["mean"] for draws, values in metrics.items()}
    return {"accuracy": accuracies, "seconds": _clock(trainer, "evaluation")}


def measure_short_runs(work: Work) -> None:
    """Train and evaluate `none` and `scale` on the carried part of CIFAR-10, from beginning to end."""
    data = read_photographs(work.folder, QUICK_IMAGES if work.quick else None).to(work.device)
    work.add("data", data.provenance)
    network, epochs, batch = (QUICK_NETWORK, 1, 8) if work.quick else (SHORT_NETWORK, SHORT_EPOCHS, SHORT_BATCH)
    work.add("setting", f"{network}, {epochs} epochs, batch {batch}")
    budget = budget_of("wrn-28-10", "cifar10", FAST, epochs=epochs, batch_size=batch)
    for method, own in (("none", {}), ("scale", {"learning_rate": QUICKER_LEARNING})):
        trainer = new_run(method, network, data, work.device, budget, **own)
        watch = Watch(epochs)
        train(trainer, watch)
        found = {"rows": trainer.rows, "seconds of epochs": watch.seconds, "learned": trainer.method.learned()}
        work.add(method, found)
        work.add(f"{method}, evaluated", _evaluation(trainer))
