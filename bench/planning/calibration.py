"""Time some training steps and part of the evaluation here, to estimate the cost of a whole run."""

import hashlib
import statistics
from collections.abc import Callable
from contextlib import suppress
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
from augbench.bench.training.corrupted_images import recomputed_images
from augbench.bench.training.cost import Clock, repeated
from augbench.bench.training.evaluation import CHUNK, chunks_at_once, predict, predict_with_draws
from augbench.bench.training.probe import accuracies
from augbench.bench.training.probe_kinds import ROTATION
from augbench.bench.training.provenance import describe_device
from augbench.bench.training.shift import corrupted_scores
from augbench.bench.training.stopping import StopRequested
from augbench.bench.training.trainer import Trainer, new_trainer

FILE = "calibration.json"
FEWEST = 2  # images to begin with; batch normalisation needs two
LONG_STEP = 2.0  # seconds of a step above which the batch is not doubled again
LONG_PASS = 0.4  # the same for a pass of the evaluation
LONG_SHIFT = 2.0  # the same for all corruptions, some of which take long however few the images
WARM_UP_STEPS = 3
TIMED_STEPS = 20
MOST_SECONDS = 6.0  # of timed steps, after the second one


class Measurement(BaseModel):
    """Measured cost of a configuration on a device.

    Attributes:
        kind: The configuration, `RunSpec.configuration`.
        device: Model of the device.
        gpu: Whether it is a GPU.
        what: Method, data set and network, for people.
        seconds: Expected seconds of each phase of known length.
        steps: Training steps that were timed.
        whole_batch: Whether each step had a whole batch. If that takes seconds, steps have a part of one, and their
            fixed cost is counted too often.
        search_unknown: Whether there is also a search phase, of unknown length.
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
        """Key it is stored under: a later measurement of the same configuration and device replaces it."""
        return hashlib.sha256(canonical_json([self.kind, self.device]).encode()).hexdigest()


def read_measurements(out: Path) -> list[Measurement]:
    """Read the measurements of an output folder; empty if there are none.

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
    """Store a measurement beside the runs.

    Raises:
        UserError: If the file is damaged or cannot be written.
    """
    known = {one.key: one for one in read_measurements(out)} | {measurement.key: measurement}
    content = {key: one.model_dump(mode="json") for key, one in sorted(known.items())}
    write_json(make_folder(out) / FILE, {"measurements": content})


def measure(spec: RunSpec, data: ImageData, device: torch.device, clock: Clock | None = None) -> Measurement:
    """Time some steps and part of the evaluation of a run, and compute what the whole run takes.

    Nothing is written. It takes about ten seconds at most, and a few more with corrupted test images, unless two steps
    on two images take longer. It changes the random state of torch.

    Args:
        spec: A run of the configuration.
        data: Its whole data set.
        device: Where to measure, with the threads of this process.
        clock: Returns the seconds when the device has finished its work; for tests.
    """
    trainer = new_trainer(spec, data, device)
    now = clock or trainer.cost.now
    searched = _search_seconds(trainer, now) if trainer.method.searches else 0.0
    compiled = {"compilation": _seconds_of(trainer.compile, now)} if trainer.compiles else {}
    times, batch = _time_steps(trainer, now)
    epochs, images = trainer.epochs, len(trainer.data.train)
    training = statistics.median(times) / batch * images * epochs
    seconds = compiled | {"training": training, "evaluation": _evaluation_seconds(trainer, now)}
    return Measurement(
        kind=spec.configuration,
        device=describe_device(device),
        gpu=device.type == "cuda",
        what=f"{spec.learner_label}, {spec.dataset.label}, {spec.network.label}, {epochs} epochs",
        seconds=seconds if searched is None else seconds | {"search": searched},
        steps=len(times),
        whole_batch=batch >= min(trainer.batch_size, images),
        search_unknown=searched is None,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )


class _Interrupter:
    """Stops a run at the first image that its search looks at, or after a search that looks at none."""

    def during_search(self, trainer: Trainer) -> None:
        """Stop."""
        raise StopRequested

    after_step = after_phase = during_search


def _search_seconds(trainer: Trainer, now: Clock) -> float | None:
    """Return the seconds of a search that looks at no image, as with a given policy; None for other searches."""
    start = now()
    with suppress(StopRequested):
        trainer.train(_Interrupter())
    return now() - start if trainer.searched else None


def _time_steps(trainer: Trainer, now: Clock) -> tuple[list[float], int]:
    """Time training steps; return the seconds of each, and the images in their batch, copies not counted."""
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
    return repeated(lambda: step(size), now, fewest=2, most=TIMED_STEPS, seconds=MOST_SECONDS), size


def doubled(work: Callable[[int], object], most: int, long: float, now: Clock) -> tuple[int, float]:
    """Do work with twice as many images each time, until there are no more or it takes long.

    Args:
        work: What to do with a number of images.
        most: Largest number of images.
        long: Seconds above which the number is not doubled again.
        now: The clock.

    Returns:
        The last number of images, and its seconds, the shorter of two times.
    """
    images = min(FEWEST, most)
    while True:
        on_these = partial(work, images)
        taken = _seconds_of(on_these, now)
        if images >= most or taken > long:
            # The first time may include work that is done only once, so time it again before ending the doubling.
            taken = min(taken, _seconds_of(on_these, now))
            if images >= most or taken > long:
                return images, taken
        images = min(2 * images, most)


def _seconds_of(work: Callable[[], object], now: Clock) -> float:
    start = now()
    work()
    return now() - start


@torch.no_grad()
def _evaluation_seconds(trainer: Trainer, now: Clock) -> float:
    """Extrapolate from some test images what an evaluation takes: the cost of each part is proportional to images."""
    network, protocol, test = trainer.network.eval(), trainer.spec.protocol, trainer.data.test
    source = generator(trainer.spec.seed, "test/0", trainer.device)
    policy = trainer.method.test_policy()

    def per_image(split: Split, work: Callable[[Split], object], long: float = LONG_PASS) -> float:
        def on_first(images: int) -> None:
            work(Split(split.images[:images], split.labels[:images]))

        most = CHUNK * chunks_at_once(trainer.device)
        images, taken = doubled(on_first, min(most, len(split)), long, now)
        return taken / images

    def turned(split: Split) -> None:
        accuracies(network, split, ROTATION, [45.0], side=trainer.data.image_size)

    def shifted(split: Split) -> None:
        corrupted_scores(network, recomputed_images(split, protocol.probed_shift or ""), protocol.calibration_bins)

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
    if protocol.probed_shift:
        seconds += per_image(test, shifted, LONG_SHIFT) * len(test)
    return seconds
