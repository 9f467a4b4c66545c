"""Measure some training steps and some of the evaluation here, to know what a whole run costs."""

import hashlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.common.files import NotReadError, make_folder, read_json, write_json
from augbench.bench.common.randomness import epoch_order, generator
from augbench.bench.data.dataset import ImageData, Split
from augbench.bench.experiment.spec import RunSpec, canonical_json
from augbench.bench.training.evaluation import CHUNK, chunks_at_once, predict, predict_with_draws
from augbench.bench.training.probe import accuracies
from augbench.bench.training.probe_kinds import ROTATION
from augbench.bench.training.provenance import describe_device
from augbench.bench.training.stopping import StopRequested
from augbench.bench.training.trainer import Trainer, new_trainer

FILE = "calibration.json"
FEWEST = 2  # images to begin with: what normalises over a batch needs as many
LONG_STEP = 2.0  # seconds; a batch for which a step takes longer is not doubled any more
LONG_PASS = 0.4  # seconds, the same for a pass of the evaluation
WARM_UP_STEPS = 3
TIMED_STEPS = 20
MOST_SECONDS = 6.0  # of timed steps, after the second one

Clock = Callable[[], float]


class Measurement(BaseModel):
    """What was measured of a kind of runs on a device.

    Attributes:
        kind: The kind.
        device: Model of the device.
        gpu: Whether it is a GPU.
        what: Method, data set and network, for people.
        seconds: Expected seconds of each phase that can be known.
        steps: Training steps that were timed.
        whole_batch: Whether they had a whole batch each. Where that takes seconds they have a part of one, and what
            belongs to a step and not to its images is counted too often.
        search_unknown: Whether there is a search phase besides, of unknown length.
        time: When it was measured.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    kind: str
    device: str
    gpu: bool
    what: str
    seconds: dict[str, float]
    steps: int = Field(ge=1)
    whole_batch: bool
    search_unknown: bool
    time: str

    @property
    def key(self) -> str:
        """Under what it is stored: a later measurement of the same kind on the same device takes its place."""
        return hashlib.sha256(canonical_json([self.kind, self.device]).encode()).hexdigest()


def read_measurements(out: Path) -> list[Measurement]:
    """Read what was measured for an output folder; empty where nothing was.

    Raises:
        UserError: If the file is damaged or cannot be read.
    """
    path = out / FILE
    if not path.exists():
        return []
    try:
        return [Measurement.model_validate(entry) for entry in read_json(path)["measurements"].values()]
    except NotReadError as error:
        raise UserError(
            f"{out}: {error}. Have its owner make it readable for you, or choose another folder with --out."
        ) from None
    except (ValueError, KeyError, AttributeError, ValidationError):
        again = to_paste("plan", "SUITE", "--out", out, "--calibrate")
        raise UserError(f"{path} is damaged. Delete it; `{again}` measures again.") from None


def add_measurement(out: Path, measurement: Measurement) -> None:
    """Keep a measurement beside the runs.

    Raises:
        UserError: If the file is damaged or cannot be written.
    """
    known = {one.key: one for one in read_measurements(out)} | {measurement.key: measurement}
    content = {key: one.model_dump(mode="json") for key, one in sorted(known.items())}
    write_json(make_folder(out) / FILE, {"measurements": content})


def measure(spec: RunSpec, data: ImageData, device: torch.device, clock: Clock | None = None) -> Measurement:
    """Time some steps and some of the evaluation of a run and work out what all of it takes.

    Nothing is written and no result is made. It takes some ten seconds at most unless two single steps on two images
    take longer. The random state of torch is left changed.

    Args:
        spec: A run of the kind.
        data: Its data set, whole.
        device: Where to measure; the number of threads is that of this process.
        clock: Seconds now, when the device has done all that it was told; for tests.
    """
    now = clock or _clock_of(device)
    trainer = new_trainer(spec, data, device)
    searched = _search_seconds(trainer, now) if trainer.method.searches else 0.0
    compiled = {"compilation": _seconds_of(trainer.compile, now)} if trainer.compiles else {}
    step = _time_steps(trainer, now)
    epochs, images = trainer.epochs, len(trainer.data.train)
    training = step.seconds / step.images * images * epochs
    seconds = compiled | {"training": training, "evaluation": _evaluation_seconds(trainer, now)}
    return Measurement(
        kind=spec.configuration,
        device=describe_device(device),
        gpu=device.type == "cuda",
        what=f"{spec.method.label}, {spec.dataset.label}, {spec.network.label}, {epochs} epochs",
        seconds=seconds if searched is None else seconds | {"search": searched},
        steps=step.timed,
        whole_batch=step.images >= min(trainer.batch_size, images),
        search_unknown=searched is None,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _clock_of(device: torch.device) -> Clock:
    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.monotonic()

    return now


class _Interrupter:
    """Breaks a run off at the first image that its search looks at, or where there is nothing to search for."""

    def during_search(self, trainer: Trainer) -> None:
        """Break off."""
        raise StopRequested

    def after_step(self, trainer: Trainer) -> None:
        """Break off."""
        raise StopRequested

    def after_phase(self, trainer: Trainer) -> None:
        """Break off."""
        raise StopRequested


def _search_seconds(trainer: Trainer, now: Clock) -> float | None:
    """Return how long a search takes that looks at no image, as with a policy that was given; None for others."""
    start = now()
    try:
        trainer.train(_Interrupter())
    except StopRequested:
        pass
    return now() - start if trainer.searched else None


@dataclass(frozen=True)
class StepTime:
    """Time of a training step.

    Attributes:
        seconds: Median.
        images: Images in the batch, copies not counted.
        timed: Steps that were timed.
    """

    seconds: float
    images: int
    timed: int


def _time_steps(trainer: Trainer, now: Clock) -> StepTime:
    trainer.method.start_epoch(0)
    trainer.network.train()
    batch = epoch_order(trainer.spec.seed, 0, len(trainer.data.train)).to(trainer.device)
    most = min(trainer.batch_size, len(batch))

    def step(images: int) -> None:
        trainer.train_step(batch[:images])

    size, taken = doubled(step, most, LONG_STEP, now)
    if taken <= LONG_STEP:
        for _ in range(WARM_UP_STEPS):
            step(size)
    times = repeated(lambda: step(size), now)
    return StepTime(statistics.median(times), size, len(times))


def doubled(work: Callable[[int], object], most: int, long: float, now: Clock) -> tuple[int, float]:
    """Do something with twice as many images each time, until there are no more or it takes long.

    Args:
        work: What to do with a number of images.
        most: Largest number of images.
        long: Seconds after which the number is not doubled any more.
        now: The clock.

    Returns:
        The last number of images, and the seconds that it took, the shorter of two times.
    """
    images = min(FEWEST, most)
    while True:
        on_these = partial(work, images)
        taken = _seconds_of(on_these, now)
        if images >= most or taken > long:
            # At first there is work that is done only once, so what ends the doubling is timed a second time.
            taken = min(taken, _seconds_of(on_these, now))
            if images >= most or taken > long:
                return images, taken
        images = min(2 * images, most)


def _seconds_of(work: Callable[[], object], now: Clock) -> float:
    start = now()
    work()
    return now() - start


def repeated(work: Callable[[], object], now: Clock) -> list[float]:
    """Do something some times over, and at least twice; returns the seconds of each time."""
    times: list[float] = []
    while len(times) < TIMED_STEPS and (len(times) < 2 or sum(times) < MOST_SECONDS):
        times.append(_seconds_of(work, now))
    return times


@torch.no_grad()
def _evaluation_seconds(trainer: Trainer, now: Clock) -> float:
    """Work out what an evaluation takes from some test images: each of its parts costs as much for each image."""
    network, protocol, test = trainer.network.eval(), trainer.spec.protocol, trainer.data.test
    source = generator(trainer.spec.seed, "test/0", trainer.device)
    policy = trainer.method.test_policy()

    def per_image(split: Split, work: Callable[[Split], object]) -> float:
        def on_first(images: int) -> None:
            work(Split(split.images[:images], split.labels[:images]))

        most = CHUNK * chunks_at_once(trainer.device)
        images, taken = doubled(on_first, min(most, len(split)), LONG_PASS, now)
        return taken / images

    def turned(split: Split) -> None:
        accuracies(network, split, ROTATION, [45.0], side=trainer.data.image_size)

    plain = per_image(test, lambda split: predict(network, split.images))
    passes = 1 + (trainer.epochs if protocol.evaluated_on == "validation" else 0)
    seconds = passes * plain * len(test)
    draws = protocol.test_time_repeats * max(protocol.test_time_draws, default=0)
    if policy is not None and draws:
        drawn = per_image(test, lambda split: predict_with_draws(network, split.images, policy, (1,), source))
        seconds += draws * drawn * len(test)
    if protocol.probed_angles:
        probed = trainer.data.probe_images
        seconds += protocol.probed_angles * per_image(probed, turned) * len(probed)
    return seconds
