"""What one run folder says, checked and typed."""

import zipfile
import zlib
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from augbench.bench.files import read_json
from augbench.bench.metrics import ReliabilityBins, check_probabilities, equal_width_bins
from augbench.bench.run_folder import DamagedError, RunFolder, RunState
from augbench.bench.spec import RunSpec
from augbench.bench.tuning.cost import NAME as TUNING
from augbench.bench.tuning.cost import TuningCost


class _Stored(BaseModel):
    """Base of what is read from a file: fields that a later release added are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Summary(_Stored):
    """One metric of one run: mean over the repeats and their standard deviation, None for a single repeat."""

    mean: float
    sd: float | None = None


class Probe(_Stored):
    """Accuracy in [0, 1] on the test images turned by each angle, in degrees; both (A,)."""

    degrees: tuple[float, ...]
    accuracy: tuple[float, ...]


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
        metrics: By number of test-time draws, by metric.
        rotation_probe: Accuracy by angle; empty where the protocol asks for no angles.
        learned: Learned numbers at the end, in the units of `Method.learned`.
        seconds: By name of device, wall-clock seconds of each phase.
        image_passes: Images through a network in each phase, forwards.
        code: Git commit of the code and whether files differed from it, None where that is not known.
        train_images: Number of training images.
        test_images: Number of test images.
        planted: What was planted in the data set, None where that is not known.
        recovery: Distance of the learned law from the planted one by coordinate; empty where there is nothing to
            compare.
    """

    metrics: dict[int, dict[str, Summary]]
    rotation_probe: Probe
    learned: dict[str, float]
    seconds: dict[str, dict[str, float]]
    image_passes: dict[str, int]
    code: Code = Code()
    train_images: int
    test_images: int
    planted: Planted | None = None
    recovery: dict[str, float] = {}


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
class Record:
    """One run folder.

    Attributes:
        folder: Where it lies.
        spec: What the run is.
        state: How far it is.
        epochs: What was recorded of each finished epoch.
        result: Its result, None unless it is done.
        reliability: Test images without test-time draws by confidence, None unless it is done.
        tuning: What it cost to find its hyperparameters, None where that is not known.
    """

    folder: RunFolder
    spec: RunSpec
    state: RunState
    epochs: tuple[Epoch, ...]
    result: Result | None
    reliability: ReliabilityBins | None
    tuning: TuningCost | None = None


def read_record(folder: RunFolder) -> Record:
    """Read a run folder completely.

    Raises:
        DamagedError: If a file is missing, truncated, foreign or of a newer protocol version.
    """
    spec, state = folder.read_spec(), folder.state()
    try:
        epochs = tuple(Epoch.model_validate(row) for row in folder.read_metrics())
        # Only what the state calls done has a result here, also where a run finishes while it is being read.
        result = Result.model_validate(folder.read_result()) if state == RunState.DONE else None
        tuning = _read_tuning(folder)
    except ValidationError as error:
        places = ", ".join(sorted({".".join(str(part) for part in problem["loc"]) for problem in error.errors()}))
        raise DamagedError(
            f"{folder.path} holds a {error.title.lower()} with missing or wrong fields: {places or 'all'}. Move the "
            "folder away or delete it and run the suite again; the other runs are not affected."
        ) from None
    if result is not None and len(epochs) != spec.budget.epochs:
        raise DamagedError(
            f"{folder.metrics} holds {len(epochs)} of {spec.budget.epochs} epochs of a finished run. Move the folder "
            "away or delete it and run the suite again; the other runs are not affected."
        )
    reliability = None if result is None else _read_reliability(folder, result, spec.protocol.calibration_bins)
    return Record(folder, spec, state, epochs, result, reliability, tuning)


def _read_tuning(folder: RunFolder) -> TuningCost | None:
    path = folder.path / TUNING
    if not path.exists():
        return None
    try:
        return StoredTuning.model_validate(read_json(path))
    except ValueError:
        raise DamagedError(
            f"{path} is damaged. Delete it and run the suite of `augbench tune` again, which writes it anew; the other "
            "runs are not affected."
        ) from None


def _read_reliability(folder: RunFolder, result: Result, bins: int) -> ReliabilityBins:
    """Group the predictions without test-time draws by their confidence."""
    try:
        # Opened here, since NumPy leaves a file open that is no archive.
        with folder.predictions.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            labels, probabilities = arrays["labels"], arrays["draws_0"][0]
        check_probabilities(probabilities, labels)
        if len(labels) != result.test_images:
            raise ValueError(f"it holds {len(labels)} images and the result speaks of {result.test_images}")
    except (OSError, EOFError, ValueError, LookupError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise DamagedError(
            f"{folder.predictions} is damaged: {error}. Move the folder away or delete it and run the suite again; the "
            "other runs are not affected."
        ) from None
    return equal_width_bins(probabilities, labels, bins)
