"""What one run folder says, checked and typed."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from augbench.bench.common.errors import shortened
from augbench.bench.common.plain_text import safe, safe_json
from augbench.bench.experiment.labels import same_run_key
from augbench.bench.experiment.spec import RunSpec, canonical_json
from augbench.bench.experiment.tuning_cost import TuningCost
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.run_folder import DamagedError, RunState
from augbench.bench.runs.run_states import recorded
from augbench.results.records.contents import Attempt, Environment, Epoch, Probe, Result, StoredTuning
from augbench.results.records.outcomes import Kept, Outcomes, outcomes_of, read_kept, read_outcomes
from augbench.results.records.stored import ADVICE, Stored, damaged_predictions

# As `RunFolder.write_spec` writes it: between identity and seed runs of one configuration do not differ
_SPEC = re.compile(
    rb'\{\s*"identity":\s*"([0-9a-f]{64})",\s*"spec":\s*(\{.*)"seed":\s*(\d{1,18})\s*\}\s*\}\s*', re.DOTALL
)
AGREEMENT = 1e-6
"""Largest difference between a metric in `result.json` and the same of the predictions."""
MOST_TOLD = 3  # of the fields that are wrong


@dataclass(frozen=True)
class Configuration:
    """What runs that differ only in their seed have in common.

    Attributes:
        spec: One of them.
        text: Equal for two equal configurations with the same settings at their defaults.
        same: Equal for two equal configurations, whichever settings were defaults.
    """

    spec: RunSpec
    text: str
    same: str


@dataclass(frozen=True)
class Record:
    """One run.

    Attributes:
        stored: The files that it was read from.
        configuration: What it has in common with runs of other seeds.
        spec: What the run is.
        state: How far it is.
        cause: Why it has no result; None if it has one, or the cause is unknown.
        reason: The same in words; empty if it has one, or the cause is unknown.
        result: Its result, None unless it is done.
        attempts: The surroundings of each attempt, the last one at the end.
        tuning: What it cost to find its hyperparameters; None if unknown.
    """

    stored: Stored
    configuration: Configuration
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
        """Equal for two records of the same run."""
        return self.configuration.same, self.spec.seed

    @property
    def on_gpu(self) -> bool | None:
        """Whether its seconds were spent on a GPU; None if unknown, or only some were."""
        devices = set(self.result.seconds) if self.result else {attempt.device for attempt in self.attempts[-1:]}
        found = {attempt.device_uuid is not None for attempt in self.attempts if attempt.device in devices}
        known = devices <= {attempt.device for attempt in self.attempts}
        return found.pop() if known and len(found) == 1 else None

    def outcomes(self) -> Outcomes:
        """What became of each test image; empty for a run that is not done.

        Raises:
            DamagedError: If the predictions are damaged.
        """
        if self.result is None:
            return {}
        try:
            if self.stored.folder is not None:
                found = read_outcomes(self.stored.folder.predictions, self.spec.protocol.calibration_bins)
            else:
                found = self.stored.outcomes() if self.stored.outcomes is not None else {}
            _check_agreement(found, self.result)
        except ValueError as error:
            raise damaged_predictions(self.stored.place, error) from None
        return found

    def kept(self) -> Kept | None:
        """Probabilities of the test images without test-time draws; None for a run that is not done or kept none.

        Raises:
            DamagedError: If the predictions are damaged.
        """
        if self.result is None or self.stored.folder is None:
            return None
        try:
            if (found := read_kept(self.stored.folder.predictions)) is None:
                return None
            bins = self.spec.protocol.calibration_bins
            _check_agreement({0: outcomes_of(found.probabilities[None], found.labels, bins)}, self.result)
        except ValueError as error:
            raise damaged_predictions(self.stored.place, error) from None
        return found

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


def _check_agreement(outcomes: Outcomes, result: Result) -> None:
    """Check that a result is that of its predictions; a calibration error is one number only without repeats.

    Raises:
        ValueError: If it is not.
    """
    if 0 not in outcomes:
        raise ValueError("it has no predictions without test-time draws")
    for draws, drawn in outcomes.items():
        if drawn.images != result.test_images:
            raise ValueError(_other_images(drawn.images, result))
        found = {"accuracy": float(drawn.right.mean())}
        found |= {"ece": drawn.bins.calibration_error} if drawn.repeats == 1 else {}
        metrics = result.metrics.get(draws, {})
        for name, value in found.items():
            if name in metrics and abs(metrics[name].mean - value) > AGREEMENT:
                raise ValueError(
                    f"with {draws} test-time draws they give the {name} {value:.4f}, and result.json says "
                    f"{metrics[name].mean:.4f}; one of the two files is of another run or changed"
                )


M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class RecordReader:
    """Makes records of stored files, and works out once what runs of one configuration have in common."""

    configurations: dict[bytes, Configuration] = field(default_factory=dict)

    def read(self, stored: Stored) -> Record:
        """Check and type the files of a run.

        Raises:
            DamagedError: If a file is missing, truncated, foreign or of a newer protocol version.
        """
        configuration, spec = self._spec(stored)
        result = _parsed(Result, stored, "result.json", stored.result) if stored.state is RunState.DONE else None
        if result is not None and result.identity != spec.identity:
            raise DamagedError(f"The result in {stored.place} is damaged: it belongs to another run. {ADVICE}")
        surroundings = stored.environment or b'{"attempts": []}'
        attempts = _parsed(Environment, stored, "environment.json", surroundings).attempts
        _check_completeness(stored, spec, result)
        tuning = _tuning(stored)
        observed = recorded(stored.status_content(), stored.state)
        cause, reason = observed.cause, safe(observed.reason)
        return Record(stored, configuration, spec, stored.state, cause, reason, result, attempts, tuning)

    def _spec(self, stored: Stored) -> tuple[Configuration, RunSpec]:
        found = _SPEC.fullmatch(stored.spec)
        configuration = self.configurations.get(found[2]) if found else None
        if found is None or configuration is None:
            spec = stored.read_spec()
            text = canonical_json(spec.model_dump(mode="json", exclude={"seed"}))
            configuration = Configuration(spec, text, same_run_key(spec.with_seed(0)))
            if found:
                self.configurations[found[2]] = configuration
            return configuration, spec
        spec = configuration.spec.with_seed(int(found[3]))
        return configuration, spec if spec.identity == found[1].decode() else stored.read_spec()


def _parsed(model: type[M], stored: Stored, name: str, text: bytes) -> M:
    try:
        return model.model_validate_json(safe_json(text))
    except ValidationError as error:
        raise _wrong(stored, name, error) from None


def _wrong(stored: Stored, name: str, error: ValidationError) -> DamagedError:
    problems = error.errors(include_url=False)
    if any(problem["type"] == "json_invalid" for problem in problems):
        return DamagedError(f"{name} in {stored.place} is truncated or foreign. {ADVICE}")
    told = "; ".join(_in_words(problem, name) for problem in problems[:MOST_TOLD])
    more = f"; and {len(problems) - MOST_TOLD} more" if len(problems) > MOST_TOLD else ""
    return DamagedError(f"{stored.place} holds a {name} with missing or wrong fields: {told}{more}. {ADVICE}")


def _in_words(problem: ErrorDetails, name: str) -> str:
    """Name the wrong field, its value and the valid ones; entries and lines count from 1."""
    parts = [str(part + 1) if isinstance(part, int) else part for part in problem["loc"]]
    line = [f"line {parts.pop(0)}"] if parts and name.endswith(".jsonl") else []
    where = ", ".join([*line, *[".".join(parts)] * bool(parts)]) or "all"
    reason = problem["msg"].removeprefix("Input ").removeprefix("Value error, ")
    if problem["type"] == "missing":
        return f"{where} is missing"
    value = problem["input"]
    shown = f"{shortened(repr(value))}, " if isinstance(value, int | float | str) else ""
    return f"{where} ({shown}{reason[:1].lower()}{reason[1:]})"


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
        raise damaged_predictions(stored.place, _other_images(seen.images, result))


def _other_images(images: int, result: Result) -> str:
    return f"it holds {images} images, but the result counts {result.test_images}"


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
