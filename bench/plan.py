"""A plan: every run of a suite with its folder and state."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from augbench.bench.errors import UserError
from augbench.bench.run_folder import RunFolder, RunState, check_output_folder
from augbench.bench.spec import RunSpec
from augbench.bench.suite import Suite


@dataclass(frozen=True)
class PlannedRun:
    """A run, where its folder is or will be, and its state."""

    spec: RunSpec
    folder: RunFolder
    state: RunState


@dataclass(frozen=True)
class Plan:
    """The runs of a suite, in the order in which they are to be placed."""

    runs: tuple[PlannedRun, ...]

    def counts(self) -> dict[RunState, int]:
        """Number of runs in each state that occurs."""
        return dict(Counter(run.state for run in self.runs))

    def to_do(self, *, retry_failed: bool) -> tuple[PlannedRun, ...]:
        """Runs that have no result yet; failed ones only where they are to be tried again."""
        finished = {RunState.DONE} if retry_failed else {RunState.DONE, RunState.FAILED}
        return tuple(run for run in self.runs if run.state not in finished)

    def unfinished(self) -> tuple[PlannedRun, ...]:
        """Runs that have no result."""
        return tuple(run for run in self.runs if run.state is not RunState.DONE)


def make_plan(suite: Suite, out: Path) -> Plan:
    """Resolve a suite against what is in an output folder already.

    Raises:
        UserError: If the suite has wrong names or values, a run folder is damaged or of a newer protocol, or a run
            was made with other defaults than today's.
    """
    check_output_folder(out)
    runs = []
    for spec in suite.specs():
        folder = RunFolder(out / "runs" / spec.folder_name)
        if folder.path.exists():
            _check_same(folder, spec)
        runs.append(PlannedRun(spec, folder, folder.state()))
    return Plan(tuple(runs))


def _check_same(folder: RunFolder, spec: RunSpec) -> None:
    changes = list(_differences(folder.read_spec().model_dump(), spec.model_dump()))
    if changes:
        raise UserError(
            f"{folder.path} holds a run that was made with other defaults: {'; '.join(changes)}. Its identity leaves "
            "defaults out, so both cannot stand in one folder. Write the old values into the suite to keep the run, or "
            "choose another folder with --out to make a new one."
        )


def _differences(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Say what has changed. Settings that are newer than the run are passed over: it did what their default says."""
    for key in sorted(old):
        before, after = old[key], new.get(key, "gone")
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _differences(before, after, f"{prefix}{key}.")
        elif before != after:
            yield f"{prefix}{key} was {before!r}, is {after!r} now"
