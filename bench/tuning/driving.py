"""From a tuning to its outcomes: Ray Tune places trials; those that ended in an earlier call are not tried again."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from augbench.bench.common.errors import UserError
from augbench.bench.launchers.launcher import Activity, LaunchRequest
from augbench.bench.launchers.ray import Ray, RayLaunch, worker_environment
from augbench.bench.launchers.ray_jobs import cluster as ray_cluster
from augbench.bench.launching.launch import check_data_and_networks
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.runs.claim import BusyError
from augbench.bench.runs.output_folder import check_output_folder, is_run_folder, mark_output_folder
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.tuning.outcome import Outcome, TrialState, is_stopped, outcome_of, settle, state_in_trial
from augbench.bench.tuning.tuning import Trial, Tuning

if TYPE_CHECKING:
    from augbench.bench.launchers.ray_jobs.trials import Task


class TuningLaunch(RayLaunch):
    """The trials of a tuning, placed by Ray Tune.

    Attributes:
        trials: Those that have been begun, in order.
    """

    def __init__(self, tuning: Tuning, request: LaunchRequest, *, retry_failed: bool) -> None:
        super().__init__((), request)
        self.tuning = tuning
        self.retry_failed = retry_failed
        self.trials: list[Trial] = []

    def place(self, folder: Path) -> None:
        """Have Tune choose and place trials until there are enough."""
        from augbench.bench.tuning.ray_tuning import run_trials

        failures = self.request.profile.ray.failures
        run_trials(self.tuning, self.request.out, self.begin, folder, failures, self.progress)

    def begin(self, trial: Trial) -> Sequence["Task"]:
        """Prepare the folders of a trial and describe its runs to workers."""
        self.trials.append(trial)
        tasks = []
        for spec, folder in zip(self.tuning.specs(trial.values), trial.folders, strict=True):
            folder.write_spec(spec)
            folder.withdraw_cancel()
            if self.retry_failed and folder.state() is RunState.FAILED:
                with suppress(BusyError):  # somebody else has started it again already
                    folder.set_failure_aside()
            run = PlannedRun(spec, folder, folder.state())
            self.runs[str(folder.path.resolve())] = run
            tasks.append(self.task(run))
        return tasks


def check_tuning(tuning: Tuning, request: LaunchRequest) -> None:
    """Find mistakes before anything is placed.

    Raises:
        UserError: If Ray or Optuna is missing, no node has what a trial needs, or the data set is not prepared.
    """
    check_output_folder(request.out)
    ray_cluster.require_ray(request.profile.ray)
    if tuning.search == "optuna":
        try:
            import optuna  # noqa: F401
        except ImportError as error:
            raise UserError(
                f"--search optuna needs Optuna, which cannot be imported here ({error}). Install it with "
                "`pip install 'augbench[ray]'`, or give --search random."
            ) from None
    check_data_and_networks(tuning.specs(tuning.initial)[:1], request.settings.data)
    Ray().check([first_run(tuning, request.out)], request)


def first_run(tuning: Tuning, out: Path) -> PlannedRun:
    """Return the first run of the first trial; the others cost about as much."""
    folder = tuning.trial(0, tuning.initial, out).folders[0]
    seconds = (folder.read_result() or {}).get("seconds", {})
    return PlannedRun(tuning.specs(tuning.initial)[0], folder, folder.state(), seconds)


def waiting(tuning: Tuning, out: Path, *, retry_failed: bool = False) -> list[PlannedRun]:
    """Return the first run once for each run that is to be executed, since all cost about as much.

    Args:
        tuning: What is tuned.
        out: Output folder of the runs.
        retry_failed: Whether trials that failed before are tried again.
    """
    folders = [path for path in (out / "runs").glob("*") if is_run_folder(path)] if out.is_dir() else []
    done: Counter[str] = Counter()  # by what the runs of a trial have in common
    over: set[str] = set()  # trials of which no other run is executed
    for folder in map(RunFolder, folders):
        spec = folder.read_spec()
        if not tuning.tries(spec):
            continue
        state = state_in_trial(folder, folder.state())
        if is_stopped(folder) or (state is RunState.FAILED and not retry_failed):
            over.add(spec.configuration)
        elif state is RunState.DONE:
            done[spec.configuration] += 1
    ended = sum(tuning.repeats if trial in over else done[trial] for trial in {*done, *over})
    return [first_run(tuning, out)] * max(0, tuning.trials * tuning.repeats - ended)


def _ended_before(tuning: Tuning, out: Path, *, retry_failed: bool) -> list[Outcome]:
    """Return how all trials went if all ended in earlier calls, and nothing otherwise.

    What Optuna chose is only known once it has chosen it again.
    """
    again = (TrialState.UNFINISHED, TrialState.FAILED) if retry_failed else (TrialState.UNFINISHED,)
    values = tuning.random_values() if tuning.search != "optuna" else []
    outcomes = []
    for number, tried in enumerate(values):
        trial = tuning.trial(number, tried, out)
        if not all(is_run_folder(folder.path) for folder in trial.folders):
            return []
        outcomes.append(outcome_of(trial))
    return [] if any(one.state in again for one in outcomes) else outcomes


def drive(
    tuning: Tuning, request: LaunchRequest, poll: Callable[[Activity], None], *, retry_failed: bool
) -> list[Outcome]:
    """Try values and return how every trial went, in order.

    Args:
        tuning: What is tuned.
        request: Where and how.
        poll: Called a few times a second with what is going on.
        retry_failed: Whether trials that failed before are tried again.

    Raises:
        KeyboardInterrupt: After every run has been stopped with its state saved.
        UserError: If nothing can be placed.
    """
    mark_output_folder(request.out)
    earlier = _ended_before(tuning, request.out, retry_failed=retry_failed)
    if earlier:
        return earlier
    with ray_cluster.connected(request.profile.ray, worker_environment()):
        ray_launch = TuningLaunch(tuning, request, retry_failed=retry_failed)
        ray_launch.run(poll)
    for trial in ray_launch.trials:
        settle(trial.folders[0])
    return [outcome_of(trial) for trial in ray_launch.trials]
