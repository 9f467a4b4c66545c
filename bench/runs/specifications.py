"""Reading the files of thousands of runs, most of which differ in their seed only."""

from contextlib import suppress
from typing import Any

from pydantic_core import from_json

from augbench.bench.common.files import read_file
from augbench.bench.runs.completeness import check_whole
from augbench.bench.runs.run_folder import RunFolder


def read_result(folder: RunFolder, identity: str) -> dict[str, Any] | None:
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
