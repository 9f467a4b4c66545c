"""What a tuning cost, kept in the folders of the runs that use its values."""

from pathlib import Path
from typing import Any

from augbench.bench.common.files import read_json, write_json
from augbench.bench.experiment.suite import Suite
from augbench.bench.experiment.tuning_cost import NAME
from augbench.bench.planning.plan import Plan


def record_tuning(suite: Suite, planned: Plan) -> None:
    """Write into the run folders of a suite what the tuning of their hyperparameters cost, where the suite says so.

    Folders that are not there yet are passed over.
    """
    costs = suite.tunings()
    for run in planned.runs if costs else ():
        cost, file = costs.get(run.spec.configuration), run.folder.path / NAME
        if cost is None or not run.folder.path.is_dir():
            continue
        content = cost.model_dump(mode="json")
        if not _holds(file, content):
            write_json(file, content)


def _holds(file: Path, content: dict[str, Any]) -> bool:
    try:
        return file.exists() and read_json(file) == content
    except ValueError:  # damaged
        return False
