"""The cost of a tuning, stored in the folders of the runs that use its values."""

from collections.abc import Mapping
from contextlib import suppress

from augbench.bench.common.files import read_json, write_json
from augbench.bench.experiment.tuning_cost import NAME, TuningCost
from augbench.bench.planning.plan import Plan


def record_tuning(costs: Mapping[str, TuningCost], planned: Plan) -> None:
    """Write the cost of tuning, by `RunSpec.configuration`, into the existing run folders of a plan."""
    for run in planned.runs if costs else ():
        cost, file = costs.get(run.spec.configuration), run.folder.path / NAME
        if cost is None or not run.folder.path.is_dir():
            continue
        content, stored = cost.model_dump(mode="json", exclude_defaults=True), None
        with suppress(ValueError):  # missing or damaged
            stored = read_json(file)
        if stored != content:
            write_json(file, content)
