"""How the trials of a tuning went: read from their run folders, which are the only truth."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from augbench.bench.common.files import read_json, read_torch, write_json
from augbench.bench.experiment.tuning_cost import Spent, total
from augbench.bench.runs.claim import broken_off
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.tuning.tuning import Trial

STOPPED = "stopped.json"
MOST_KILLS = 3  # of a run of a trial, which then counts as failed: it would hold up everything that follows


class TrialState(StrEnum):
    """How a trial ended."""

    DONE = "done"
    STOPPED = "stopped early"
    FAILED = "failed"
    UNFINISHED = "unfinished"


@dataclass(frozen=True)
class Outcome:
    """How one trial went.

    Attributes:
        trial: The trial.
        state: How it ended.
        accuracy: Fraction of the validation images that are classified right, mean over its runs. For a trial that was
            stopped early: of its first run, after the last finished epoch. None if nothing is known.
        epochs: Epochs that its first run has finished.
        spent: What its runs have cost, as far as it was saved.
        reason: Why it has no result.
    """

    trial: Trial
    state: TrialState
    accuracy: float | None = None
    epochs: int = 0
    spent: Spent = field(default_factory=Spent)
    reason: str = ""


def outcome_of(trial: Trial) -> Outcome:
    """Read how a trial went.

    Raises:
        DamagedError: If a run folder is damaged.
    """
    rows = trial.folders[0].read_metrics()
    last = rows[-1].get("validation_accuracy") if rows else None
    known = Outcome(trial, TrialState.UNFINISHED, last, len(rows), total(map(spent_in, trial.folders)))
    states = [state_in_trial(folder, folder.state()) for folder in trial.folders]
    if all(state is RunState.DONE for state in states):
        results = [folder.read_result() or {} for folder in trial.folders]
        accuracies = [float(result["metrics"]["0"]["accuracy"]["mean"]) for result in results]
        return replace(known, state=TrialState.DONE, accuracy=sum(accuracies) / len(accuracies))
    statuses = zip(trial.folders, states, strict=True)
    reasons = [folder.read_status().get("reason", _unsaid(state)) for folder, state in statuses]
    if RunState.FAILED in states:
        return replace(known, state=TrialState.FAILED, accuracy=None, reason=reasons[states.index(RunState.FAILED)])
    if is_stopped(trial.folders[0]):
        return replace(known, state=TrialState.STOPPED)
    return replace(known, reason=reasons[-1])


def _unsaid(state: RunState) -> str:
    """Why a run has no result where nothing was recorded: a failed one without a word was killed too often."""
    return f"killed in {MOST_KILLS} attempts" if state is RunState.FAILED else str(state)


def state_in_trial(folder: RunFolder, state: RunState) -> RunState:
    """Return the state of a run as it counts in a trial: failed also if it was killed in too many attempts."""
    return RunState.FAILED if state is RunState.KILLED and broken_off(folder.path) >= MOST_KILLS else state


def is_stopped(folder: RunFolder) -> bool:
    """Whether a run was stopped early, for good, since it did worse than others."""
    return (folder.path / STOPPED).exists()


def stop_early(folder: RunFolder, epoch: int) -> None:
    """Stop a run early after an epoch, counted from 1, unless it is done; it looks for this after each epoch."""
    if folder.state() is not RunState.DONE:
        write_json(folder.path / STOPPED, {"epoch": epoch})


def spent_in(folder: RunFolder) -> Spent:
    """Read what a run has cost, as far as it was saved: nothing if it failed in its first epoch.

    Raises:
        DamagedError: If its result is damaged.
    """
    kept = folder.read_result()
    if kept is None and is_stopped(folder):
        content = read_json(folder.path / STOPPED)
        kept = content if "seconds" in content else None
    if kept is None and folder.checkpoint.exists():
        try:
            kept = read_torch(folder.checkpoint)
        except ValueError:  # damaged: the run says so when it is started again
            kept = None
    return Spent(kept["seconds"], kept["image_passes"]) if kept else Spent()


def settle(folder: RunFolder) -> None:
    """Delete the checkpoint of a run that was stopped early, except what it has cost."""
    if is_stopped(folder) and folder.checkpoint.exists() and folder.state() is not RunState.RUNNING:
        spent = spent_in(folder)
        content = read_json(folder.path / STOPPED)
        content |= {"seconds": spent.seconds, "image_passes": spent.image_passes}
        write_json(folder.path / STOPPED, content)
        folder.checkpoint.unlink(missing_ok=True)


def ranked(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Sort: finished trials by accuracy, the earlier first of equal ones; then those stopped early, then the rest."""
    states = list(TrialState)
    return sorted(outcomes, key=lambda one: (states.index(one.state), -(one.accuracy or 0.0), one.trial.number))


def spent_on(outcomes: Sequence[Outcome]) -> Spent:
    """Add up what all trials have cost; values that were tried twice are the same runs and count once."""
    folders = {folder.path: folder for outcome in outcomes for folder in outcome.trial.folders}
    return total(map(spent_in, folders.values()))


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Describe a trial for `tuning.json`."""
    return {
        "number": outcome.trial.number,
        "values": outcome.trial.values,
        "state": outcome.state.value,
        "validation_accuracy": outcome.accuracy,
        "epochs": outcome.epochs,
        "seconds": outcome.spent.seconds,
        "image_passes": outcome.spent.image_passes,
        "runs": [folder.path.name for folder in outcome.trial.folders],
        "reason": outcome.reason,
    }
