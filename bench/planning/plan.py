"""A plan: every run of a suite with its folder and state."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import Suite
from augbench.bench.runs.output_folder import check_output_folder
from augbench.bench.runs.run_folder import DamagedError, NotReadableError, RunFolder, RunState
from augbench.bench.runs.run_states import RunStates
from augbench.bench.runs.specifications import SpecReader, read_content, read_result

Seconds = Mapping[str, Mapping[str, float]]
"""By name of device, seconds of each phase, as in `result.json`."""

MOST_SECONDS = 1e12  # of a phase of a run; thousands of years


@dataclass(frozen=True)
class PlannedRun:
    """A run, where its folder is or will be, and its state.

    Attributes:
        spec: What the run is.
        folder: Where it is or will be.
        state: Its state.
        seconds: Its cost if it is done.
        accuracy: On the images that it was evaluated on, in [0, 1], without test-time draws; None if it is not done.
    """

    spec: RunSpec
    folder: RunFolder
    state: RunState
    seconds: Seconds = field(default_factory=dict)
    accuracy: float | None = None


@dataclass(frozen=True)
class Plan:
    """The runs of a suite, in the order of placing.

    Attributes:
        runs: Those whose folder is intact or does not exist yet.
        damaged: The problem with the folder of each other run.
    """

    runs: tuple[PlannedRun, ...]
    damaged: tuple[str, ...] = ()

    def counts(self) -> dict[RunState, int]:
        """Number of runs in each state that occurs."""
        return dict(Counter(run.state for run in self.runs))

    def to_do(self, *, retry_failed: bool) -> tuple[PlannedRun, ...]:
        """Return the runs without a result; failed ones only if they are to be retried."""
        finished = {RunState.DONE} if retry_failed else {RunState.DONE, RunState.FAILED}
        return tuple(run for run in self.runs if run.state not in finished)

    def unfinished(self) -> tuple[PlannedRun, ...]:
        """Return the runs without a result, failed ones included."""
        return tuple(run for run in self.runs if run.state is not RunState.DONE)

    def summary(self) -> str:
        """Count the runs in each state, such as `3 runs: 1 done, 2 missing.`."""
        left_out = f" {runs_in_words(len(self.damaged))} left out." if self.damaged else ""
        return counts_in_words(self.counts()) + left_out


def counts_in_words(counts: Mapping[RunState, int]) -> str:
    """Say how many runs are in each state, such as `3 runs: 1 done, 2 missing.`."""
    states = [f"{counts[state]} {state_in_words(state)}" for state in RunState if counts.get(state)]
    return f"{runs_in_words(sum(counts.values()))}{': ' * bool(states)}{', '.join(states)}."


def state_in_words(state: RunState) -> str:
    """Name a state for counts: planned runs are missing."""
    return "missing" if state is RunState.PLANNED else str(state)


def runs_in_words(count: int) -> str:
    """Write a number of runs."""
    return "1 run" if count == 1 else f"{count} runs"


def make_plan(suite: Suite, out: Path) -> Plan:
    """Resolve a suite against the contents of an output folder.

    Args:
        suite: What to run.
        out: The output folder, which need not exist.

    Raises:
        UserError: If the suite has wrong names or values, the output folder has a newer protocol, or a run was made
            with other defaults than today's.
    """
    return plan_of(suite.specs(), out)


def plan_of(specs: Iterable[RunSpec], out: Path) -> Plan:
    """Find the folder and state of runs, as `make_plan` does for those of a suite."""
    check_output_folder(out)
    there = folder_names(out)
    runs, known, states = out / "runs", _KnownSpecs(), RunStates(out)
    planned: list[PlannedRun] = []
    damaged: list[str] = []
    for spec in specs:
        try:
            planned.append(_planned(spec, runs, there, known, states))
        except DamagedError as error:
            damaged.append(str(error))
    return Plan(tuple(planned), tuple(damaged))


def folder_names(out: Path) -> frozenset[str]:
    """List the run folders of an output folder, which need not exist; much faster than asking for each run."""
    try:
        return frozenset(os.listdir(out / "runs"))  # noqa: PTH208 - names are all that is needed
    except FileNotFoundError:
        return frozenset()


def _planned(spec: RunSpec, runs: Path, there: frozenset[str], known: "_KnownSpecs", states: RunStates) -> PlannedRun:
    name = spec.folder_name
    folder = RunFolder(runs / name)
    if name not in there:
        return PlannedRun(spec, folder, RunState.PLANNED)
    try:
        known.check(folder, spec)
    except NotReadableError:  # somebody else's, and irrelevant for the other runs
        return PlannedRun(spec, folder, RunState.UNKNOWN)
    result = read_result(folder, spec.identity)
    if result is None:
        return PlannedRun(spec, folder, states.of(folder).state)
    return PlannedRun(spec, folder, RunState.DONE, _seconds(result), accuracy_in(result))


def accuracy_in(result: Mapping[str, Any]) -> float | None:
    """Read the accuracy without test-time draws from a result; None where somebody has written something else there."""
    try:
        accuracy = result["metrics"]["0"]["accuracy"]["mean"]
    except (KeyError, TypeError):
        return None
    return accuracy if isinstance(accuracy, float | int) and 0 <= accuracy <= 1 else None


def _seconds(result: Mapping[str, Any]) -> Seconds:
    """What a run has cost; nothing where somebody has written something else there."""
    seconds = result.get("seconds")
    if not isinstance(seconds, dict):
        return {}
    sound = all(isinstance(phases, dict) and all(map(_is_time, phases.values())) for phases in seconds.values())
    return seconds if sound else {}


def _is_time(seconds: object) -> bool:
    return isinstance(seconds, int | float) and 0 <= seconds < MOST_SECONDS  # neither infinite nor NaN


class _KnownSpecs:
    """Makes sure that folders hold the runs of a plan; runs that differ in their seed only are compared once."""

    def __init__(self) -> None:
        self._reader = SpecReader()
        self._same: set[tuple[int, str]] = set()  # what was read and what was planned, where they are the same

    def check(self, folder: RunFolder, spec: RunSpec) -> None:
        """Make sure that a folder holds this run.

        Raises:
            UserError: If it is damaged, of a newer protocol or made with other defaults.
        """
        stored = self._reader.read(folder)
        is_own = (stored.identity, stored.seed) == (spec.identity, spec.seed)
        compared = id(stored.like), spec.configuration
        if is_own and compared in self._same:
            return
        read = stored.like.model_copy(update={"seed": spec.seed}) if is_own else folder.read_spec()
        changed = list(changes(read.model_dump(), spec.model_dump()))
        if changed:
            raise UserError(
                f"{folder.path} holds a run that was made with other defaults: {'; '.join(changed)}. Identities "
                "leave out defaults, so both runs would share this folder. Write the old values into the suite to keep "
                "the run, or choose another folder with --out to make a new one."
            )
        self._same.add(compared)


def seconds_of_others(runs: Iterable[PlannedRun], out: Path) -> Iterator[tuple[RunSpec, RunFolder, Seconds]]:
    """Find finished runs outside a plan with the same configurations, such as those with other seeds.

    Damaged folders are skipped, since nobody has asked for them.

    Args:
        runs: The runs of the plan.
        out: Their output folder.

    Yields:
        A specification with the same configuration, the folder, and the cost of the run.
    """
    specs = {run.spec.configuration: run.spec for run in runs}
    planned = {run.folder.path.name for run in runs}
    beginnings = {spec.folder_name.rpartition("_seed")[0] for spec in specs.values()}
    reader = SpecReader()
    for name in sorted(folder_names(out) - planned):
        if name.rpartition("_seed")[0] not in beginnings:
            continue
        folder = RunFolder(out / "runs" / name)
        if result := read_content(folder, "result.json"):
            with suppress(DamagedError):
                if spec := specs.get(reader.read(folder).like.configuration):
                    yield spec, folder, _seconds(result)


def changes(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Say what has changed, except settings newer than the run, which behaved as their defaults say."""
    for key in sorted(old):
        before, after = old[key], new.get(key, "gone")
        if isinstance(before, dict) and isinstance(after, dict):
            yield from changes(before, after, f"{prefix}{key}.")
        elif before != after:
            yield f"{prefix}{key} was {before!r}, is {after!r} now"
