"""Accuracies of finished runs of an output folder, which tell how much runs vary with the seed."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from augbench.bench.experiment.labels import comparison_key
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.planning.plan import Plan, accuracy_in, folder_names
from augbench.bench.runs.run_folder import DamagedError, RunFolder
from augbench.bench.runs.specifications import SpecReader, read_content


@dataclass(frozen=True)
class Recorded:
    """Finished runs that differ in nothing but method and seed.

    Attributes:
        spec: Specification of one of them.
        accuracies: Of each method, by its configuration, and by seed, in [0, 1].
    """

    spec: RunSpec
    accuracies: dict[str, dict[int, float]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of runs."""
        return sum(map(len, self.accuracies.values()))


def recorded_accuracies(plan: Plan, out: Path) -> dict[str, Recorded]:
    """Find the accuracies of all finished runs on the data sets of a plan, also of those that are not in the plan.

    Damaged folders outside the plan are skipped, since nobody has asked for them.

    Args:
        plan: The plan.
        out: Its output folder.

    Returns:
        Runs that tables compare with each other, by `comparison_key`.
    """
    of_plan = ((run.spec, run.spec.seed, run.accuracy) for run in plan.runs)
    keys: dict[str, str] = {}
    found: dict[str, Recorded] = {}
    for spec, seed, accuracy in (*of_plan, *_others(plan, out)):
        if accuracy is None:
            continue
        if spec.configuration not in keys:
            keys[spec.configuration] = comparison_key(spec)
        recorded = found.setdefault(keys[spec.configuration], Recorded(spec))
        recorded.accuracies.setdefault(spec.configuration, {})[seed] = accuracy
    return found


def _others(plan: Plan, out: Path) -> Iterator[tuple[RunSpec, int, float | None]]:
    """Read finished runs outside the plan: a specification like each one's, its seed and its accuracy."""
    planned = {run.folder.path.name for run in plan.runs}
    parts = {f"_{run.spec.dataset.name}_" for run in plan.runs}
    reader = SpecReader()
    for name in sorted(folder_names(out) - planned):
        folder = RunFolder(out / "runs" / name)
        if not any(part in name for part in parts) or not (result := read_content(folder, "result.json")):
            continue
        with suppress(DamagedError):
            stored = reader.read(folder)
            if isinstance(stored.seed, int) and stored.identity == result.get("identity"):
                yield stored.like, stored.seed, accuracy_in(result)
