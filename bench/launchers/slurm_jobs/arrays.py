"""From runs to job arrays: one array, or a few, for each set of resources, which share one limit of runs at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from augbench.bench.planning.plan import PlannedRun
from augbench.bench.planning.profile import Profile, Resources


@dataclass(frozen=True)
class RunArray:
    """Runs that are submitted together.

    Attributes:
        resources: What each needs.
        runs: The runs.
        max_parallel: Runs of it that are executed at the same time at most.
        follows: Place, in the list of arrays, of the one that has to end before; None for none.
    """

    resources: Resources
    runs: tuple[PlannedRun, ...]
    max_parallel: int
    follows: int | None


def make_arrays(runs: Sequence[PlannedRun], profile: Profile, largest: int) -> list[RunArray]:
    """Group runs by what they need, in the order in which they come, and split what is too large for one array.

    Slurm limits each array by itself. So the arrays share what the profile allows at a time, in proportion to their
    runs, one at least; where there are more arrays than that, some follow others.

    Args:
        runs: The runs.
        profile: What each needs.
        largest: Jobs that an array may have at most.
    """
    per_job = profile.slurm.runs_per_job
    groups: dict[str, tuple[Resources, list[PlannedRun]]] = {}
    for run in runs:
        resources = profile.resources_for(run.spec.method.name)
        groups.setdefault(resources.model_dump_json(), (resources, []))[1].append(run)
    parts = [
        (resources, tuple(members[start : start + largest * per_job]))
        for resources, members in groups.values()
        for start in range(0, len(members), largest * per_job)
    ]
    lanes = min(len(parts), profile.slurm.max_parallel)  # arrays of a lane are executed one after the other
    jobs = [sum(-(-len(some) // per_job) for _, some in parts[lane::lanes]) for lane in range(lanes)]
    limits = share_out(jobs, profile.slurm.max_parallel)
    return [
        RunArray(resources, some, limits[place % lanes], place - lanes if place >= lanes else None)
        for place, (resources, some) in enumerate(parts)
    ]


def share_out(sizes: Sequence[int], limit: int) -> list[int]:
    """Share a limit in proportion to sizes, one at least for each.

    Args:
        sizes: At most as many as the limit, each 1 or more.
        limit: What the shares add up to at most.

    Returns:
        The shares, none above its size.
    """
    limits = [1] * len(sizes)
    for _ in range(min(limit, sum(sizes)) - len(sizes)):
        # whoever has least for its size gets one more
        neediest = min(range(len(sizes)), key=lambda place: (limits[place] / sizes[place], place))
        limits[neediest] += 1
    return limits
