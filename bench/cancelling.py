"""Cancelling runs: those that wait never begin, those that go on save and stop; the same command goes on with them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from augbench.bench.run_folder import DamagedError, RunFolder, RunState
from augbench.bench.run_states import Observed, RunStates
from augbench.bench.slurm_jobs.queue import cancel_jobs

AT_WORK = (RunState.SUBMITTED, RunState.RUNNING, RunState.UNKNOWN)
OVER = (RunState.DONE, RunState.FAILED, RunState.CANCELLED)


def can_be_cancelled(state: RunState, *, at_work: bool) -> bool:
    """Tell whether a run may wait or go on.

    Args:
        state: Its state.
        at_work: Whether any run of its output folder is at work. Then some launcher may have others in a queue of its
            own, whatever became of them before.
    """
    return state in AT_WORK or state is RunState.PLANNED or (at_work and state not in OVER)


def cancel(folders: Sequence[RunFolder], out: Path) -> list[RunFolder]:
    """Cancel those of some runs that wait in a queue or go on, wherever they are.

    A run that goes on sees the request within seconds, saves and stops. Jobs that have not begun are taken out of the
    queue of Slurm; those that have begun are not, so that they can save.

    Args:
        folders: The runs.
        out: Their output folder.

    Returns:
        Those that are cancelled.

    Raises:
        UserError: If a folder cannot be written to, or Slurm does not answer.
    """
    found = [(folder, known) for folder, known in _observed(folders, out) if known.state not in OVER]
    for folder, _ in found:
        folder.request_cancel()
    waiting = [known for _, known in found if known.state is RunState.SUBMITTED]
    cancel_jobs((one.submission, one.job) for one in waiting if one.submission is not None and one.job is not None)
    return [folder for folder, _ in found]


def _observed(folders: Sequence[RunFolder], out: Path) -> Iterator[tuple[RunFolder, Observed]]:
    """Tell the states of runs; one whose result is damaged is executed by nobody and holds up no other."""
    states = RunStates(out)
    for folder in folders:
        with suppress(DamagedError):
            yield folder, states.of(folder)
