"""Reading the files of thousands of runs, most of which differ in their seed only."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json

from augbench.bench.common.files import read_file
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.completeness import check_whole
from augbench.bench.runs.run_folder import RunFolder


@dataclass(frozen=True)
class StoredSpec:
    """What `spec.json` of a run folder says.

    Attributes:
        like: Specification of a run with the same configuration; its seed may be another one.
        seed: Seed of this run.
        identity: Identity of this run, as the file has it.
    """

    like: RunSpec
    seed: object
    identity: object


class SpecReader:
    """Reads specifications; those that differ in their seed only are validated once."""

    def __init__(self) -> None:
        self._specs: dict[bytes, RunSpec] = {}  # one of each configuration, by its text without the seed

    def read(self, folder: RunFolder) -> StoredSpec:
        """Read what a run is.

        Raises:
            DamagedError: If the folder has no sound specification.
        """
        content = read_content(folder, "spec.json")
        written = content.get("spec")
        if not isinstance(written, dict):
            spec = folder.read_spec()  # says what is wrong
            return StoredSpec(spec, spec.seed, spec.identity)
        text = to_json({**written, "seed": None})
        if text not in self._specs:
            self._specs[text] = folder.read_spec()
        return StoredSpec(self._specs[text], written.get("seed"), content.get("identity"))


def read_result(folder: RunFolder, identity: object) -> dict[str, Any] | None:
    """Read the result of a run whose identity is known, or None; like that of the folder, but faster.

    Raises:
        DamagedError: If it is there but truncated or of another run.
    """
    result = read_content(folder, "result.json")
    if result.get("identity") == identity:
        with suppress(ValueError):  # explained below
            check_whole(folder.path, result)
            return result
    return folder.read_result()


def read_content(folder: RunFolder, name: str) -> dict[str, Any]:
    """Read a JSON object without explaining what is wrong with it: empty if there is none."""
    try:
        # no Path here: with thousands of runs it takes as long as the rest
        content = from_json(read_file(f"{folder.path}/{name}"))  # twice as fast as json
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
