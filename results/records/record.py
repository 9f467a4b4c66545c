"""What one run folder says, checked and typed."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    field_validator,
)

from augbench.bench.causes import Cause
from augbench.bench.plain_text import safe, safe_json
from augbench.bench.run_folder import DamagedError, RunState
from augbench.bench.run_states import recorded
from augbench.bench.spec import RunSpec, canonical_json
from augbench.bench.tuning.cost import TuningCost
from augbench.results.records.labels import same_run_key
from augbench.results.records.outcomes import Outcomes, read_outcomes
from augbench.results.records.stored import ADVICE, Stored

# As `RunFolder.write_spec` writes it: between identity and seed runs of one kind do not differ
_SPEC = re.compile(
    rb'\{\s*"identity":\s*"([0-9a-f]{64})",\s*"spec":\s*(\{.*)"seed":\s*(\d{1,18})\s*\}\s*\}\s*', re.DOTALL
)


class _Stored(BaseModel):
    """Base of what is read from a file: fields that a later release added are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


Share = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0)]
HIGHEST = {"accuracy": 1.0, "brier": 2.0, "ece": 1.0, "ece_equal_mass": 1.0}
"""Largest possible values of metrics; all metrics are at least 0."""


class Summary(_Stored):
    """One metric of one run: mean over the repeats and their standard deviation, None for a single repeat."""

    mean: Amount
    sd: Amount | None = None


def _possible(metrics: dict[str, Summary]) -> dict[str, Summary]:
    """Refuse what no evaluation can have given; a little more than the highest value may come of rounding."""
    for name, highest in HIGHEST.items():
        if name in metrics and metrics[name].mean > highest + 1e-6:
            raise ValueError(f"{name} cannot be more than {highest:g}")
    return metrics


class Probe(_Stored):
    """Accuracy in [0, 1] on the test images turned by each angle, in degrees; both (A,).

    Attributes:
        pixels: Side of the images when they were turned; None of versions that turned them last, shrunk or not.
    """

    degrees: tuple[float, ...]
    accuracy: tuple[Share, ...]
    pixels: PositiveInt | None = None


class Code(_Stored):
    """Git commit of the code that ran, and whether files differed from it; None outside a git checkout."""

    commit: str | None = None
    dirty: bool | None = None

    @property
    def label(self) -> str:
        """The first digits of the commit and whether there were changes; empty where nothing is known."""
        return f"{(self.commit or '')[:10]}{' with changes' if self.dirty else ''}"


class Planted(_Stored):
    """Name of the law that was planted in the data set, and the coordinates (see `bench/law.py`) that it changes."""

    law: str
    coordinates: tuple[str, ...]


class Result(_Stored):
    """Content of `result.json`.

    Attributes:
        identity: Identity of the run that it belongs to.
        metrics: By number of test-time draws, by metric.
        rotation_probe: Accuracy by angle; empty where the protocol asks for no angles.
        learned: Learned numbers at the end, in the units of `Method.learned`.
        learned_at_start: The same before the first step; empty where they are searched for or that is not known.
        seconds: By name of device, wall-clock seconds of each phase.
        image_passes: Images through a network in each phase, forwards.
        epochs: Epochs of the training phase; None of versions that trained every method for those of the budget.
        code: Git commit of the code and whether files differed from it, None where that is not known.
        train_images: Number of training images.
        test_images: Number of test images.
        planted: What was planted in the data set, None where that is not known.
        recovery: Distance of the learned law from the planted one by coordinate; empty where there is nothing to
            compare.
    """

    identity: str
    metrics: dict[NonNegativeInt, Annotated[dict[str, Summary], AfterValidator(_possible)]]
    rotation_probe: Probe
    learned: dict[str, float]
    learned_at_start: dict[str, float] = {}
    seconds: dict[str, dict[str, Amount]]
    image_passes: dict[str, NonNegativeInt]
    epochs: PositiveInt | None = None
    code: Code = Code()
    train_images: PositiveInt
    test_images: PositiveInt
    planted: Planted | None = None
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
    """The surroundings of one attempt at a run; whatever is not known is None or empty.

    Attributes:
        attempt: Its number, from 1.
        augbench: Version of augbench.
        code: Git commit of the code and whether files differed from it.
        command: What a person gave.
        python: Version of Python.
        platform: Operating system and machine.
        host: Name of the machine.
        packages: Versions of libraries by name.
        plugins: Files with code of the user's.
        plugin_packages: Installed packages with methods or data sets, with their versions.
        device: Name of the model of the device.
        device_uuid: Identifies a GPU; None on a CPU.
        threads: CPU threads.
        cores: CPU cores that the process could use.
        workers: Runs at the same time on the machine.
    """

    attempt: int | None = None
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
    threads: int | None = None
    cores: int | None = None
    workers: int | None = None


class Environment(_Stored):
    """Content of `environment.json`."""

    attempts: tuple[Attempt, ...]


class StoredTuning(TuningCost):
    """Content of `tuning.json` in a run folder."""

    model_config = ConfigDict(extra="ignore")


class Epoch(_Stored):
    """One line of `metrics.jsonl`: training loss, training accuracy in [0, 1] and learned numbers; counts from 1."""

    epoch: int
    loss: float
    accuracy: float
    learned: dict[str, float] = {}


@dataclass(frozen=True)
class Kind:
    """What runs have in common that differ in nothing but their seed.

    Attributes:
        spec: One of them.
        text: Text that two kinds share if they differ in nothing, not even in which settings are defaults.
        same: Text that two kinds share if they differ in nothing, no matter which of their settings were defaults.
    """

    spec: RunSpec
    text: str
    same: str


@dataclass(frozen=True)
class Record:
    """One run.

    Attributes:
        stored: The files that it was read from.
        kind: What it has in common with runs of other seeds.
        spec: What the run is.
        state: How far it is.
        cause: Why it has no result; None if it has one, or nothing is known.
        reason: The same in words; empty if it has one, or nothing is known.
        result: Its result, None unless it is done.
        attempts: The surroundings of each attempt, the last one at the end.
        tuning: What it cost to find its hyperparameters, None where that is not known.
    """

    stored: Stored
    kind: Kind
    spec: RunSpec
    state: RunState
    cause: Cause | None
    reason: str
    result: Result | None
    attempts: tuple[Attempt, ...]
    tuning: TuningCost | None = None

    @property
    def name(self) -> str:
        """Name of its folder."""
        return self.stored.name

    @property
    def probe(self) -> Probe:
        """Its rotation probe; empty if it has no result or a blurred one, whose accuracies are too low."""
        return (
            self.result.rotation_probe if self.result and not self.has_blurred_probe else Probe(degrees=(), accuracy=())
        )

    @property
    def has_blurred_probe(self) -> bool:
        """Whether an earlier version turned its test images after the data set had shrunk them."""
        options, probe = self.spec.dataset.all_settings, self.result.rotation_probe if self.result else None
        shrinks = options.get("shrink", 1) != 1 or options.get("size", 28) == 14
        return shrinks and probe is not None and bool(probe.degrees) and probe.pixels is None

    @property
    def same(self) -> tuple[str, int]:
        """What two records share that are of the same run."""
        return self.kind.same, self.spec.seed

    @property
    def on_gpu(self) -> bool | None:
        """Whether its seconds were spent on a GPU; None where that is not known or only some were."""
        devices = set(self.result.seconds) if self.result else {attempt.device for attempt in self.attempts[-1:]}
        found = {attempt.device_uuid is not None for attempt in self.attempts if attempt.device in devices}
        known = devices <= {attempt.device for attempt in self.attempts}
        return found.pop() if known and len(found) == 1 else None

    def outcomes(self) -> Outcomes:
        """What became of each test image; nothing is known of a run that is not done.

        Raises:
            DamagedError: If the predictions are damaged.
        """
        if self.result is None:
            return {}
        if self.stored.outcomes is not None:
            return self._checked(self.stored.outcomes(), self.result)
        if self.stored.folder is None:
            return {}
        try:
            return read_outcomes(self.stored.folder.predictions, self.spec.protocol.calibration_bins)
        except ValueError as error:
            raise self.stored.damaged_predictions(error) from None

    def _checked(self, outcomes: Outcomes, result: Result) -> Outcomes:
        """Check what was stored in place of predictions, as the predictions of a folder are checked."""
        if 0 not in outcomes:
            raise self.stored.damaged_predictions("it has no predictions without test-time draws")
        images = {drawn.images for drawn in outcomes.values()}
        if images != {result.test_images}:
            raise self.stored.damaged_predictions(_other_images(max(images - {result.test_images}), result))
        return outcomes

    @cached_property
    def epochs(self) -> tuple[Epoch, ...]:
        """What was recorded of each finished epoch.

        Raises:
            DamagedError: If a line is no JSON or has wrong fields.
        """
        text = safe_json(b"[" + b",".join(self.stored.metrics.splitlines()) + b"]")
        try:
            return TypeAdapter(tuple[Epoch, ...]).validate_json(text)
        except ValidationError as error:
            raise _wrong(self.stored, "metrics.jsonl", error) from None


M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class RecordReader:
    """Makes records of stored files; what runs of one kind have in common is worked out once."""

    kinds: dict[bytes, Kind] = field(default_factory=dict)

    def read(self, stored: Stored) -> Record:
        """Check and type the files of a run.

        Raises:
            DamagedError: If a file is missing, truncated, foreign or of a newer protocol version.
        """
        kind, spec = self._spec(stored)
        result = _parsed(Result, stored, "result.json", stored.result) if stored.state is RunState.DONE else None
        if result is not None and result.identity != spec.identity:
            raise DamagedError(f"The result in {stored.place} is damaged: it belongs to another run. {ADVICE}")
        surroundings = stored.environment or b'{"attempts": []}'
        attempts = _parsed(Environment, stored, "environment.json", surroundings).attempts
        _check_completeness(stored, spec, result)
        tuning = _tuning(stored)
        observed = recorded(stored.status_content(), stored.state)
        cause, reason = observed.cause, safe(observed.reason)
        return Record(stored, kind, spec, stored.state, cause, reason, result, attempts, tuning)

    def _spec(self, stored: Stored) -> tuple[Kind, RunSpec]:
        found = _SPEC.fullmatch(stored.spec)
        kind = self.kinds.get(found[2]) if found else None
        if found is None or kind is None:
            spec = stored.read_spec()
            text = canonical_json(spec.model_dump(mode="json", exclude={"seed"}))
            kind = Kind(spec, text, same_run_key(spec.with_seed(0)))
            if found:
                self.kinds[found[2]] = kind
            return kind, spec
        spec = kind.spec.with_seed(int(found[3]))
        return kind, spec if spec.identity == found[1].decode() else stored.read_spec()


def _parsed(model: type[M], stored: Stored, name: str, text: bytes) -> M:
    try:
        return model.model_validate_json(safe_json(text))
    except ValidationError as error:
        raise _wrong(stored, name, error) from None


def _wrong(stored: Stored, name: str, error: ValidationError) -> DamagedError:
    problems = error.errors()
    if any(problem["type"] == "json_invalid" for problem in problems):
        return DamagedError(f"{name} in {stored.place} is truncated or foreign. {ADVICE}")
    places = ", ".join(sorted({".".join(str(part) for part in problem["loc"]) for problem in problems}))
    return DamagedError(f"{stored.place} holds a {name} with missing or wrong fields: {places or 'all'}. {ADVICE}")


def _check_completeness(stored: Stored, spec: RunSpec, result: Result | None) -> None:
    """Check that nothing is cut off or missing; what stands in the epochs is read when it is needed."""
    lines = stored.metrics.count(b"\n")
    if stored.metrics and not stored.metrics.endswith(b"\n"):
        raise DamagedError(f"metrics.jsonl in {stored.place} is truncated or foreign. {ADVICE}")
    epochs = (result.epochs if result else None) or spec.budget.epochs
    if result is not None and lines != epochs:
        raise DamagedError(
            f"metrics.jsonl in {stored.place} holds {lines} of {epochs} epochs of a finished run. {ADVICE}"
        )
    seen = stored.predictions
    if result is not None and seen is not None and seen.images != result.test_images:
        raise stored.damaged_predictions(_other_images(seen.images, result))


def _other_images(images: int, result: Result) -> str:
    return f"it holds {images} images and the result speaks of {result.test_images}"


def _tuning(stored: Stored) -> TuningCost | None:
    if not stored.tuning:
        return None
    try:
        return StoredTuning.model_validate_json(safe_json(stored.tuning))
    except ValidationError:
        raise DamagedError(
            f"tuning.json is damaged in {stored.place}. Delete it and run the suite of `augbench tune` again, which "
            "writes it anew; the other runs are not affected."
        ) from None
