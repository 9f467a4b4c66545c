"""From runs to job arrays: one array, or a few, for each set of resources."""

from collections.abc import Sequence
from dataclasses import dataclass

from augbench.bench.plan import PlannedRun
from augbench.bench.profile import Profile, Resources


@dataclass(frozen=True)
class RunArray:
    """Runs that are submitted together.

    Attributes:
        resources: What each needs.
        runs: The runs.
    """

    resources: Resources
    runs: tuple[PlannedRun, ...]


def make_arrays(runs: Sequence[PlannedRun], profile: Profile, largest: int) -> list[RunArray]:
    """Group runs by what they need, in the order in which they come, and split what is too large for one array.

    Args:
        runs: The runs.
        profile: What each needs.
        largest: Jobs that an array may have at most.
    """
    groups: dict[str, tuple[Resources, list[PlannedRun]]] = {}
    for run in runs:
        resources = profile.resources_for(run.spec.method.name)
        groups.setdefault(resources.model_dump_json(), (resources, []))[1].append(run)
    return [
        RunArray(resources, tuple(members[start : start + largest]))
        for resources, members in groups.values()
        for start in range(0, len(members), largest)
    ]
