"""The files of one run as they are stored in a folder, an archive or a parquet file, not yet parsed."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from augbench.bench.common.files import parse_json, read_json
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.tuning_cost import NAME as TUNING
from augbench.bench.runs.run_folder import DamagedError, RunFolder, RunState, parse_spec
from augbench.bench.runs.sound_status import sound_status
from augbench.results.records.outcomes import Glance, Outcomes, glance

ADVICE = "Move the folder away or delete it and run the suite again; the other runs are not affected."
TEXTS = {
    "spec": "spec.json",
    "status": "status.json",
    "result": "result.json",
    "metrics": "metrics.jsonl",
    "environment": "environment.json",
    "tuning": TUNING,
}
"""Files of a run that are text, by the names of the attributes of `Stored`."""


@dataclass(frozen=True)
class Stored:
    """The text files of one run; each is empty if it does not exist.

    Attributes:
        name: Name of the run's folder.
        place: Where it is, as messages say it.
        source: What was given with --from.
        state: How far the run is.
        spec: Content of a file, as are the next five; see `TEXTS`. Only runs that are done have a result.
        predictions: Size of `predictions.npz` of a run that is done, else None.
        folder: The folder with the predictions; None for a run in a parquet file.
        outcomes: Reads what became of each test image from a parquet file, which stores it in place of predictions.
        needs: Keeps alive what the folder needs.
    """

    name: str
    place: str
    source: str
    state: RunState
    spec: bytes
    status: bytes
    result: bytes
    metrics: bytes
    environment: bytes
    tuning: bytes
    predictions: Glance | None = None
    folder: RunFolder | None = None
    outcomes: Callable[[], Outcomes] | None = None
    needs: object = None

    def read_spec(self) -> RunSpec:
        """Read what the run is.

        Raises:
            DamagedError: If it is truncated, foreign, changed by hand or of a newer protocol version.
        """
        return parse_spec(lambda: parse_json(self.spec, "spec.json"), self.place)

    def status_content(self) -> dict[str, Any]:
        """Read the last status without entries that no worker can have written; empty if there is none."""
        try:
            return sound_status(parse_json(self.status, "status.json"))
        except ValueError:
            return {}


def read_stored(folder: RunFolder, source: str = "", place: str = "") -> Stored:
    """Read the files of a run folder; the predictions are only looked at.

    Args:
        folder: The folder.
        source: What was given with --from.
        place: What messages call the folder; its path if left out.

    Raises:
        DamagedError: If it has no specification, a file cannot be read or a finished run has no predictions.
    """
    place = place or str(folder.path)
    try:
        present = set(os.listdir(folder.path))  # noqa: PTH208 - names are all that is needed
        if TEXTS["spec"] not in present:
            parse_spec(lambda: read_json(folder.path / TEXTS["spec"]), place)  # raises
        state = RunState.DONE if TEXTS["result"] in present else folder.state()
        if state is RunState.DONE:  # perhaps by now only
            present.add(TEXTS["result"])
        spec, status, result, metrics, environment, tuning = (
            _read(f"{folder.path}/{name}") if name in present else b"" for name in TEXTS.values()
        )
        seen = glance(folder.predictions) if state is RunState.DONE else None
    except ValueError as error:
        raise damaged_predictions(place, error) from None
    except PermissionError as error:  # perhaps a colleague's, so nothing is to be deleted
        raise DamagedError(f"{place} cannot be read: {error.strerror}. Let its owner permit it.") from None
    except OSError as error:
        raise DamagedError(f"{place} cannot be read: {error.strerror}. {ADVICE}") from None
    name = folder.path.name
    return Stored(name, place, source, state, spec, status, result, metrics, environment, tuning, seen, folder)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - with path objects this takes three times as long
        return file.read()


def damaged_predictions(place: str, problem: object) -> DamagedError:
    """Make the error that says what is wrong with `predictions.npz`."""
    return DamagedError(f"predictions.npz in {place} is damaged: {problem}. {ADVICE}")
