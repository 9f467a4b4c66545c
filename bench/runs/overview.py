"""All runs of an output folder at one moment, for those who follow them."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from augbench.bench.experiment.labels import RunLabels, label_runs
from augbench.bench.runs.claim import last_owner
from augbench.bench.runs.failures import WITHOUT_RESULT, counted_alike
from augbench.bench.runs.output_folder import run_folders
from augbench.bench.runs.run_folder import DamagedError, RunFolder, RunState
from augbench.bench.runs.run_states import RunStates, RunStatus
from augbench.bench.runs.specifications import SpecReader, StoredSpec, read_result

SECONDS_BETWEEN_QUESTIONS = 10.0  # to a scheduler, which answers to many
SECONDS_TO_BEGIN = 30.0  # that a launcher which has just made the folders of its runs may take until the first begins
SECONDS_OF_SILENCE = 30.0  # of a run that goes on, after which its folder is read again
LEAST_AGE_OF_A_CHANGE = 2.0  # seconds after which its time tells it from a later one, also where times are coarse
LEAST_SECONDS_MEASURED = 5.0  # of progress, before anything is concluded from it


@dataclass(frozen=True)
class SeenRun:
    """A run as it was found.

    Attributes:
        folder: Its folder.
        method: Name of its method.
        dataset: Name of its data set.
        labels: Its names in tables.
        observed: Its status.
        is_trial: Whether it is a trial of a tuning.
    """

    folder: RunFolder
    method: str
    dataset: str
    labels: RunLabels
    observed: RunStatus
    is_trial: bool = False

    @property
    def name(self) -> str:
        """Name of its folder."""
        return self.folder.path.name

    @property
    def state(self) -> RunState:
        """State of the run."""
        return self.observed.state


@dataclass(frozen=True)
class Row:
    """Runs that are counted together: names of their method and data set, and how many are in each state."""

    method: str
    dataset: str
    states: Mapping[RunState, int]


@dataclass(frozen=True)
class Overview:
    """All runs of an output folder at one moment.

    Attributes:
        out: The output folder.
        runs: The runs, by name.
        damaged: What is wrong with each folder that cannot be read.
        followers: Ids of jobs in a queue that place further runs when others have ended.
    """

    out: Path
    runs: tuple[SeenRun, ...]
    damaged: tuple[str, ...] = ()
    followers: tuple[str, ...] = ()

    def counts(self) -> dict[RunState, int]:
        """Number of runs in each state that occurs."""
        return dict(Counter(run.state for run in self.runs))

    def rows(self, most: int) -> list[Row]:
        """Count by method and data set.

        Settings make rows of their own unless there are more than `most` rows, or they are those of trials.
        """
        rows = _counted(
            [
                ((run.method if run.is_trial else run.labels.label, run.labels.comparison), run.state)
                for run in self.runs
            ]
        )
        return rows if len(rows) <= most else _counted([((run.method, run.dataset), run.state) for run in self.runs])

    def in_state(self, *states: RunState) -> list[SeenRun]:
        """Runs that are in one of some states."""
        return [run for run in self.runs if run.state in states]

    def without_result(self) -> list[SeenRun]:
        """Runs that have ended without a result."""
        return self.in_state(*WITHOUT_RESULT)

    def reasons(self, state: RunState) -> list[tuple[str, int]]:
        """Reasons of runs in a state, the most frequent first, each with the number of runs."""
        return counted_alike(run.observed.reason for run in self.in_state(state))

    def goes_on(self) -> bool:
        """Whether any run is executed, waits in a queue, or may be about to begin."""
        if self.followers or self.in_state(RunState.RUNNING, RunState.SUBMITTED, RunState.UNKNOWN):
            return True
        may_begin = self.in_state(RunState.PLANNED, RunState.KILLED)
        return has_just_changed(may_begin)


def _counted(members: Sequence[tuple[tuple[str, str], RunState]]) -> list[Row]:
    counts: dict[tuple[str, str], Counter[RunState]] = {}
    for names, state in members:
        counts.setdefault(names, Counter())[state] += 1
    return [Row(*names, states) for names, states in sorted(counts.items())]


def has_just_changed(runs: Sequence[SeenRun]) -> bool:
    """Whether anything was written for one of the runs so lately that its launcher may be about to go on."""
    return any(time.time() - _changed(run.folder) / 1e9 < SECONDS_TO_BEGIN for run in runs)


def _changed(folder: RunFolder) -> int:
    """When anything was written into a run folder last, in nanoseconds since 1970."""
    try:
        return folder.path.stat().st_mtime_ns
    except OSError:
        return 0


class RecentStates:
    """States of runs for whoever asks again and again: folders are read each time, schedulers asked now and then."""

    def __init__(self) -> None:
        self._states: RunStates | None = None
        self._asked = 0.0

    def now(self, out: Path) -> RunStates:
        """Return what is known of the runs of an output folder, always the same one.

        Raises:
            UserError: If a record of a submission is damaged.
        """
        if self._states is None or time.monotonic() - self._asked >= SECONDS_BETWEEN_QUESTIONS:
            self._states, self._asked = RunStates(out), time.monotonic()
        return self._states


@dataclass
class RunMonitor:
    """Looks at an output folder, once or repeatedly: reads what cannot change once, and seldom asks schedulers."""

    out: Path
    _reader: SpecReader = field(default_factory=SpecReader)
    _stored: dict[str, StoredSpec] = field(default_factory=dict)  # by name of a folder
    _states_of: dict[str, tuple[int, RunState]] = field(default_factory=dict)  # with when the folder was changed, in ns
    _states: RecentStates = field(default_factory=RecentStates)

    def snapshot(self) -> Overview:
        """Find every run and its status.

        Raises:
            UserError: If the folder does not exist, holds no runs, or has a damaged record of a submission.
        """
        folders = run_folders(self.out)
        root = folders[0].path.parent.parent
        shown = self.out if (self.out / "runs").resolve() == root / "runs" else root
        states = self._states.now(root)
        found: list[tuple[RunFolder, StoredSpec, RunStatus]] = []
        damaged = [one.reason for one in states.unreadable]
        for name in (folder.path.name for folder in folders):
            folder = RunFolder(shown / "runs" / name)
            try:
                if name not in self._stored:
                    self._stored[name] = self._reader.read(folder)
                found.append((folder, self._stored[name], self._observe(folder, states)))
            except DamagedError as error:
                damaged.append(str(error))
        specs = {id(stored.like): stored.like for _, stored, _ in found}
        labels = dict(zip(specs, label_runs(list(specs.values())), strict=True))
        runs = [
            SeenRun(
                folder,
                spec.method.name,
                spec.dataset.called,
                labels[id(spec)],
                observed,
                spec.protocol.evaluated_on == "validation",
            )
            for folder, spec, observed in ((folder, stored.like, observed) for folder, stored, observed in found)
        ]
        return Overview(shown, tuple(runs), tuple(damaged), tuple(one.job or "" for one in states.followers))

    def _observe(self, folder: RunFolder, states: RunStates) -> RunStatus:
        """Tell what is known of a run; its files are read only where its folder was changed since they were read.

        A run that goes on writes something every few seconds; where nothing was written for longer, it may have died.
        """
        name, now = folder.path.name, time.time_ns()
        changed, state = self._states_of.get(name, (0, None))
        if state is RunState.DONE:
            return states.of(folder, state)
        is_silent = state is RunState.RUNNING and now - changed > SECONDS_OF_SILENCE * 1e9
        last_change = _changed(folder)
        if state is None or is_silent or last_change != changed:
            has_result = read_result(folder, self._stored[name].identity) is not None
            state = RunState.DONE if has_result else folder.state()
            # a change that is younger may be followed by another one at the same time of the clock
            if has_result or now - last_change > LEAST_AGE_OF_A_CHANGE * 1e9:
                self._states_of[name] = (last_change, state)
        return states.of(folder, state)


@dataclass(frozen=True)
class Progress:
    """How far a run is that is being executed.

    Attributes:
        run: The run.
        host: Where; empty if that is not known.
        pid: Number of its process there; None if that is not known.
        job: Id of its job; empty if there is none.
        phase: What it does; empty before its first report.
        step: Training steps done.
        steps: Training steps in all; 0 before its first report.
        silent_seconds: Time since its last report; None if there was none.
        left_seconds: Training time left at the pace of this attempt; None if that cannot be told.
        stopping: Whether it was asked to stop.
    """

    run: SeenRun
    host: str
    pid: int | None
    job: str
    phase: str
    step: int
    steps: int
    silent_seconds: float | None
    left_seconds: float | None
    stopping: bool


def progress_of(run: SeenRun, now: datetime) -> Progress:
    """Tell how far a run is at a time, which has a zone."""
    status, owner = run.folder.read_status(), last_owner(run.folder.path)
    reported = moment(status.get("time"))
    silent = None if reported is None else max(0.0, (now - reported).total_seconds())
    return Progress(
        run=run,
        host=str(owner.get("host") or status.get("host") or run.observed.nodes),
        pid=pid if isinstance(pid := owner.get("pid"), int) else None,
        job=str(owner.get("job") or run.observed.job or ""),
        phase=str(status.get("phase", "")),
        step=int(status.get("step", 0)),
        steps=int(status.get("steps", 0)),
        silent_seconds=silent,
        left_seconds=_left(status, reported, silent or 0.0),
        stopping=run.folder.cancel_request.exists(),
    )


def _left(status: Mapping[str, Any], reported: datetime | None, silent: float) -> float | None:
    """Conclude from the steps of this attempt how long the others take."""
    began = status.get("phase_began") or {}
    start = moment(began.get("time"))
    if status.get("phase") != "training" or reported is None or start is None:
        return None
    done: int = status.get("step", 0) - began["step"]
    seconds = (reported - start).total_seconds()
    if done <= 0 or seconds < LEAST_SECONDS_MEASURED:
        return None
    left: int = status.get("steps", 0) - status.get("step", 0)
    return max(0.0, left * seconds / done - silent)


def moment(text: object) -> datetime | None:
    """Read a time as records have it; None for anything else."""
    try:
        read = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)
