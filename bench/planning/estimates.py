"""The cost of the runs of a plan: from finished runs of the same configuration, else from measured steps."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from augbench.bench.common.files import read_json
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.planning.calibration import Measurement, read_measurements
from augbench.bench.planning.plan import Plan, PlannedRun, seconds_of_others
from augbench.bench.planning.profile import Profile
from augbench.bench.runs.run_folder import RunFolder, RunState

SECONDS_IN_AN_HOUR = 3600
SHORTEST_SEARCH = 1.0  # seconds; finding out that there is nothing to search for takes less


class Source(StrEnum):
    """What an estimate was made from."""

    RUNS = "finished runs"
    STEPS = "measured steps"


@dataclass(frozen=True)
class Estimate:
    """Expected cost of one run of a configuration on a device.

    Attributes:
        device: Model of the device.
        gpu: Whether it is a GPU.
        seconds: Wall-clock seconds of each phase of known length.
        source: What the seconds were made from.
        count: Number of finished runs or of measured steps.
        search_unknown: Whether there is also a search phase, of unknown length.
        too_high: Whether it is an upper estimate, since each measured step had a part of a batch.
    """

    device: str
    gpu: bool
    seconds: Mapping[str, float]
    source: Source
    count: int
    search_unknown: bool = False
    too_high: bool = False

    @property
    def known_hours(self) -> float:
        """Hours of the phases of known length."""
        return sum(self.seconds.values()) / SECONDS_IN_AN_HOUR

    @property
    def hours(self) -> float | None:
        """Hours of one run on its device; None if the length of a phase is unknown."""
        return None if self.search_unknown else self.known_hours


def finished_runs(plan: Plan, out: Path) -> list[PlannedRun]:
    """List the finished runs of an output folder whose configuration is in a plan, also those outside the plan."""
    others = [PlannedRun(spec, folder, RunState.DONE, cost) for spec, folder, cost in seconds_of_others(plan.runs, out)]
    return [run for run in plan.runs if run.state is RunState.DONE] + others


def estimates(finished: Iterable[PlannedRun], measurements: Iterable[Measurement], here: str) -> dict[str, Estimate]:
    """Estimate what one run of each configuration costs.

    Seconds of different devices are never mixed. The device with most finished runs counts; for a configuration
    without any there, the device with most of its own. A run that moved between devices counts for none. Measured
    steps count for configurations without finished runs, those of this device first.

    Args:
        finished: Finished runs.
        measurements: Measured steps.
        here: Model of this device.

    Returns:
        Estimates by configuration; those of unknown cost are absent.
    """
    runs = [run for run in finished if len(run.seconds) == 1]
    on_device = Counter(device for run in runs for device in run.seconds)
    found: dict[str, Estimate] = {}
    for measured in sorted(measurements, key=lambda one: (one.device != here, one.device)):
        found.setdefault(measured.kind, _from_steps(measured))
    by_kind: dict[str, dict[str, list[PlannedRun]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        by_kind[run.spec.configuration][next(iter(run.seconds))].append(run)
    usual = max(on_device, key=lambda device: (on_device[device], device), default="")
    is_gpu: dict[str, bool] = {}
    for kind, devices in by_kind.items():
        device = max(devices, key=lambda name: (name == usual, len(devices[name]), name))
        if device not in is_gpu:
            is_gpu[device] = _was_gpu(devices[device][0].folder, device)
        found[kind] = _from_runs(device, is_gpu[device], devices[device])
    return found


def _from_steps(measured: Measurement) -> Estimate:
    return Estimate(
        device=measured.device,
        gpu=measured.gpu,
        seconds=measured.seconds,
        source=Source.STEPS,
        count=measured.steps,
        search_unknown=measured.search_unknown,
        too_high=not measured.whole_batch,
    )


def _from_runs(device: str, gpu: bool, runs: Sequence[PlannedRun]) -> Estimate:
    sums: Counter[str] = Counter()
    for run in runs:
        sums.update(run.seconds[device])
    seconds = {phase: total / len(runs) for phase, total in sums.items()}
    return Estimate(device, gpu, seconds, Source.RUNS, len(runs))


def _was_gpu(folder: RunFolder, device: str) -> bool:
    """Tell from the recorded environment of a finished run whether a device is a GPU."""
    try:
        attempts = read_json(folder.path / "environment.json")["attempts"]
        return any(one["device"] == device and one["device_uuid"] is not None for one in attempts)
    except (ValueError, KeyError, TypeError):
        return False


@dataclass(frozen=True)
class Group:
    """The runs of a plan that differ only in their seed.

    Attributes:
        spec: Specification of one of them.
        states: Number of runs in each state.
        estimate: Cost of one of them; None if unknown.
        gpus: GPUs that each of them holds.
        limit_minutes: Time limit of one job; None for none.
        searches: Whether there is a search phase, which is not saved midway.
    """

    spec: RunSpec
    states: Counter[RunState]
    estimate: Estimate | None
    gpus: float
    limit_minutes: int | None
    searches: bool

    @property
    def to_do(self) -> int:
        """Runs that `augbench run` would execute; failed ones are not among them."""
        return self.states.total() - self.states[RunState.DONE] - self.states[RunState.FAILED]

    @property
    def device_hours(self) -> float | None:
        """Device hours of one run: hours on a CPU, hours times GPUs on a GPU; None if unknown."""
        hours = self.estimate.hours if self.estimate else None
        return None if hours is None or self.estimate is None else hours * (self.gpus if self.estimate.gpu else 1)


@dataclass(frozen=True)
class Hours:
    """A sum of device hours.

    Attributes:
        by_device: Device hours by model of the device, never summed over different models.
        runs: Runs in the sum.
        unknown: Runs of unknown cost, which the sum excludes.
    """

    by_device: Mapping[str, float]
    runs: int
    unknown: int

    @property
    def known(self) -> float:
        """Hours on all devices together, to compare with a limit."""
        return sum(self.by_device.values())


def groups_of(plan: Plan, out: Path, profile: Profile, here: str, known: Plan | None = None) -> list[Group]:
    """Sum up a plan by configuration, in the order of the plan.

    Args:
        plan: The plan.
        out: Its output folder.
        profile: Resources of each run.
        here: Model of this device.
        known: A larger plan, whose finished runs give the estimates; this one by default.

    Raises:
        UserError: If the file with measured steps is damaged.
    """
    costs = estimates(finished_runs(known or plan, out), read_measurements(out), here)
    states: dict[str, Counter[RunState]] = defaultdict(Counter)
    specs: dict[str, RunSpec] = {}
    for run in plan.runs:
        states[run.spec.configuration][run.state] += 1
        specs.setdefault(run.spec.configuration, run.spec)
    return [_group(spec, states[kind], costs.get(kind), profile) for kind, spec in specs.items()]


def _group(spec: RunSpec, states: Counter[RunState], estimate: Estimate | None, profile: Profile) -> Group:
    resources = profile.resources_for(spec.method.name)
    searches = methods().get(spec.method.name).searches
    if estimate is not None and not estimate.search_unknown:
        searches = estimate.seconds.get("search", 0) > SHORTEST_SEARCH  # a given policy needs no search
    return Group(spec, states, estimate, resources.gpus or 1, resources.time_minutes, searches)


def sum_of(groups: Iterable[Group], count: Callable[[Group], int]) -> Hours:
    """Add up the device hours of runs of known cost; `count` says how many runs of a group count."""
    by_device: dict[str, float] = defaultdict(float)
    runs = unknown = 0
    for group in groups:
        number, hours = count(group), group.device_hours
        if hours is None or group.estimate is None:
            unknown += number
        elif number:
            runs += number
            by_device[group.estimate.device] += number * hours
    return Hours(dict(by_device), runs, unknown)


def left(groups: Iterable[Group]) -> Hours:
    """Device hours of the runs to do; a running one counts in full."""
    return sum_of(groups, lambda group: group.to_do)


def in_all(groups: Iterable[Group]) -> Hours:
    """Device hours of all runs, finished ones included."""
    return sum_of(groups, lambda group: group.states.total())


def longest_jobs(groups: Sequence[Group]) -> list[Group]:
    """Find the longest run to do, and the longest one of each other method that exceeds its time limit.

    Returns:
        Groups with an estimate, the longest first, at most one per method.
    """
    known = [group for group in groups if group.to_do and group.estimate is not None]
    known.sort(key=_hours, reverse=True)
    longest: dict[str, Group] = {}
    for group in known:
        if not longest or (group.limit_minutes is not None and 60 * _hours(group) > group.limit_minutes):
            longest.setdefault(group.spec.method.name, group)
    return list(longest.values())


def _hours(group: Group) -> float:
    return group.estimate.known_hours if group.estimate else 0.0


def cost_to_confirm(
    runs: Iterable[PlannedRun], out: Path, profile: Profile, here: str, known: Plan | None = None
) -> Hours:
    """Estimate what placing some runs of an output folder will cost.

    Args:
        runs: The runs to place.
        out: Their output folder, whose finished runs give the estimates.
        profile: Resources of each run.
        here: Model of this device.
        known: A larger plan that they are of, whose finished runs give the estimates, too.

    Raises:
        UserError: If the file with measured steps is damaged.
    """
    return in_all(groups_of(Plan(tuple(runs)), out, profile, here, known))
