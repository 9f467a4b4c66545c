"""Runs in an output folder."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from augbench.bench.common.errors import UserError
from augbench.bench.common.wording import few_names
from augbench.bench.runs.output_folder import MARKER, run_folders
from augbench.bench.runs.run_folder import DamagedError
from augbench.results.records.problems import Problem
from augbench.results.records.stored import Stored, read_stored

WRITTEN_FIRST = {"spec.json", "status.json", "metrics.jsonl", "result.json"}
"""Files of which every run folder has at least one, whatever else it lost."""


def stored_runs(
    root: Path, source: str, place: Callable[[Path], str] = str, *, skip_damaged: bool = False
) -> Iterator[Stored | Problem]:
    """Read the files of every run of an output folder.

    Args:
        root: The folder, or its sub-folder `runs`.
        source: What was given with --from.
        place: Says what messages call a run folder.
        skip_damaged: Yield a problem in place of a damaged folder.

    Yields:
        A run, or what was found in place of one.

    Raises:
        DamagedError: If a folder is damaged, unless `skip_damaged`.
        UserError: If the folder does not exist, holds no runs or was written under a newer protocol version.
    """
    folders = run_folders(root)
    foreign = [folder for folder in folders if _is_foreign(folder.path)]
    if len(foreign) == len(folders):
        raise UserError(
            f"{root} holds folders, but none of a run: {few_names([folder.path.name for folder in foreign])}. Give the "
            "folder that `augbench run` or `augbench demo` wrote to with --out, or make one: `augbench demo`."
        )
    for path in sorted(folders[0].path.parent.iterdir()):
        if not path.is_dir() and path.name != MARKER and not path.name.startswith("."):
            yield Problem("foreign", f"{place(path)} is no run folder and is ignored.", path.name)
    for folder in folders:
        if folder in foreign:
            yield Problem("foreign", f"{place(folder.path)} is no run folder and is ignored.", folder.path.name)
            continue
        try:
            yield read_stored(folder, source, place(folder.path))
        except DamagedError as error:
            if not skip_damaged:
                raise
            yield Problem("damaged", str(error), folder.path.name)


def _is_foreign(folder: Path) -> bool:
    """Whether a folder never held a run; one that cannot be listed is taken for a run."""
    try:
        return WRITTEN_FIRST.isdisjoint(os.listdir(folder))  # noqa: PTH208 - names are all that is needed
    except OSError:
        return False
