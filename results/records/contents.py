"""Contents of the files of a run, typed and within bounds: whatever passes here can be computed with."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from augbench.bench.experiment.tuning_cost import TuningCost


class _Stored(BaseModel):
    """Base of what is read from a file: fields that a later release added are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


Share = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0, le=1e12)]
Number = Annotated[float, Field(ge=-1e100, le=1e100)]
"""Any number whose square is a number, too."""
Degrees = Annotated[float, Field(ge=-360, le=360)]
Count = Annotated[int, Field(ge=0, le=2**53)]
"""Any count that floating-point numbers hold to the last digit."""
Positive = Annotated[Count, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, le=1e12)]
HIGHEST = {"accuracy": 1.0, "brier": 2.0, "ece": 1.0, "ece_equal_mass": 1.0}
"""Largest possible values of metrics; all metrics are at least 0."""


class Summary(_Stored):
    """One metric of one run: mean over the repeats and their standard deviation, None for a single repeat."""

    mean: Amount
    sd: Amount | None = None


def _possible(metrics: dict[str, Summary]) -> dict[str, Summary]:
    """Refuse impossible values; rounding may exceed the highest value a little."""
    for name, highest in HIGHEST.items():
        if name in metrics and metrics[name].mean > highest + 1e-6:
            raise ValueError(f"{name} cannot be more than {highest:g}")
    return metrics


class Probe(_Stored):
    """Accuracy in [0, 1] on the test images turned by each angle, in degrees; both (A,).

    Attributes:
        pixels: Side of the images when they were turned; None of versions that turned them last, shrunk or not.
    """

    degrees: tuple[Degrees, ...]
    accuracy: tuple[Share, ...]
    pixels: Positive | None = None

    @model_validator(mode="after")
    def _in_pairs(self) -> "Probe":
        if len(self.degrees) != len(self.accuracy):
            raise ValueError(f"there are {len(self.degrees)} angles and {len(self.accuracy)} accuracies")
        return self


class CorruptedScore(_Stored):
    """Scores on one corruption and severity; those of the clean images have severity 0."""

    corruption: Annotated[str, Field(pattern="^[a-z0-9-]{1,40}$")]
    severity: Annotated[int, Field(ge=0, le=5)]
    extra: bool
    accuracy: Share
    nll: Amount
    ece: Annotated[float, Field(ge=0, le=1 + 1e-6)]


class Shift(_Stored):
    """Scores on corrupted test images.

    Attributes:
        name: Name of the set of corruptions.
        images: Whether they were recomputed, or are the original ones.
        scores: For each corruption and severity.
    """

    name: Annotated[str, Field(pattern="^[a-z0-9-]{1,40}$")]
    images: Literal["recomputed", "original"]
    scores: tuple[CorruptedScore, ...]


class Code(_Stored):
    """Git commit of the code that ran, and whether files differed from it; None outside a git checkout."""

    commit: str | None = None
    dirty: bool | None = None

    @property
    def label(self) -> str:
        """The first digits of the commit and whether there were changes; empty if unknown."""
        return f"{(self.commit or '')[:10]}{' with changes' if self.dirty else ''}"


class Planted(_Stored):
    """Name of the distribution planted in the data set, and the coordinates of a map of the plane that it changes."""

    law: str
    coordinates: tuple[str, ...]


class PlainStepTiming(_Stored):
    """How the plain step was timed in one attempt: the median of some steps and their three quartiles, in seconds."""

    seconds: Seconds
    quartiles: tuple[Seconds, Seconds, Seconds]


class Result(_Stored):
    """Content of `result.json`.

    Attributes:
        identity: Identity of the run that it belongs to.
        metrics: By number of test-time draws, by metric.
        rotation_probe: Accuracy by angle; empty where the protocol asks for no angles.
        shift: Scores on corrupted test images; None where the protocol asks for none.
        learned: Learned numbers at the end, in the units of `Method.learned`.
        learned_at_start: The same before the first step; empty if they are searched for or unknown.
        seconds: By name of device, wall-clock seconds of each phase.
        image_passes: Images through a network in each phase, forwards.
        plain_steps: The seconds of each phase divided by those of a plain step in the same attempt; None if a part of
            the run did not time one, as in earlier versions.
        plain_step_timings: How that was timed, for each attempt that did.
        epochs: Epochs of the training phase; None of versions that trained every method for those of the budget.
        code: Git commit of the code and whether files differed from it.
        train_images: Number of training images.
        test_images: Number of test images.
        planted: What was planted in the data set, if anything is known.
        policy: Description of the learned policy, not yet checked; None if there is none, or none was kept.
        recovery: Distance of the learned distribution from the planted one by coordinate; empty without one.
    """

    identity: str
    metrics: dict[Count, Annotated[dict[str, Summary], AfterValidator(_possible)]]
    rotation_probe: Probe
    shift: Shift | None = None
    learned: dict[str, Number]
    learned_at_start: dict[str, Number] = {}
    seconds: dict[str, dict[str, Amount]]
    image_passes: dict[str, Count]
    plain_steps: dict[str, Amount] | None = None
    plain_step_timings: tuple[PlainStepTiming, ...] = ()
    epochs: Positive | None = None
    code: Code = Code()
    train_images: Positive
    test_images: Positive
    planted: Planted | None = None
    policy: dict[str, JsonValue] | None = None
    recovery: dict[str, Amount] = {}

    @field_validator("metrics")
    @classmethod
    def _without_draws(cls, metrics: dict[int, dict[str, Summary]]) -> dict[int, dict[str, Summary]]:
        if "accuracy" not in metrics.get(0, {}):
            raise ValueError("there is no accuracy without test-time draws")
        return metrics


class Plugin(_Stored):
    """A file with code of the user's that was loaded, and its checksum."""

    path: str = ""
    sha256: str = ""


class Attempt(_Stored):
    """The surroundings of one attempt at a run; whatever is unknown is None or empty.

    Attributes:
        attempt: Its number, from 1.
        augbench: Version of augbench, as `python` of Python and `packages` of libraries by name.
        command: The command line.
        platform: Operating system and machine.
        plugin_packages: Installed packages with methods or data sets, with their versions.
        device: Name of the model of the device.
        device_uuid: Identifies a GPU; None on a CPU.
        cores: CPU cores that the process could use.
        workers: Runs at the same time on the machine.
    """

    attempt: Count | None = None
    augbench: str | None = None
    code: Code = Code()
    command: str | None = None
    python: str | None = None
    platform: str | None = None
    host: str | None = None
    packages: dict[str, str | None] = {}
    plugins: tuple[Plugin, ...] = ()
    plugin_packages: tuple[str, ...] = ()
    device: str | None = None
    device_uuid: str | None = None
    threads: Count | None = None
    cores: Count | None = None
    workers: Count | None = None


class Environment(_Stored):
    """Content of `environment.json`."""

    attempts: tuple[Attempt, ...]


class StoredTuning(TuningCost):
    """Content of `tuning.json` in a run folder."""

    model_config = ConfigDict(extra="ignore")


class Epoch(_Stored):
    """One line of `metrics.jsonl`: training loss, training accuracy in [0, 1] and learned numbers; counts from 1."""

    epoch: Positive
    loss: Number
    accuracy: Annotated[float, Field(ge=0, le=1 + 1e-6)]
    learned: dict[str, Number] = {}
