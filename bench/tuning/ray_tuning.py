"""A tuning as an experiment of Ray Tune: what chooses values and stops trials, and what one trial does in its worker.

Tune chooses and places. The results of a trial are read from its run folders, so that the same command resumes: a trial
that has ended reports its result at once, and the search makes the same choices again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import tune
from ray.tune.experiment import Trial as RayTrial
from ray.tune.schedulers import ASHAScheduler, TrialScheduler
from ray.tune.search import ConcurrencyLimiter, Searcher

from augbench.bench.common.errors import UserError
from augbench.bench.common.randomness import derived_seed
from augbench.bench.contract.search_space import Range
from augbench.bench.experiment.spec import Settings
from augbench.bench.launchers.ray_jobs.trials import (
    Progress,
    StopFile,
    Task,
    execute_task,
    run_config,
    with_resources_of_its_run,
)
from augbench.bench.runs.run_folder import RunFolder
from augbench.bench.training.stopping import StopCause
from augbench.bench.tuning.outcome import TrialState, is_stopped, outcome_of, stop_early
from augbench.bench.tuning.tuning import Trial, Tuning

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

METRIC = "validation_accuracy"
EPOCH = "epoch"
REDUCTION = 3  # of the trials that have got so far, one in three goes on
OPTUNA_AT_A_TIME = 4  # trials that are chosen before any of them has ended; another number would be other trials

Begin = Callable[[Trial], Sequence[Task]]


class Proposals(Searcher):
    """Chooses the values of each trial and makes its run folders; arguments as for `run_trials`."""

    def __init__(self, tuning: Tuning, out: Path, begin: Begin, progress: Progress) -> None:
        super().__init__(metric=METRIC, mode="max")
        self.tuning = tuning
        self.out = out
        self.begin = begin
        self.progress = progress
        self.begun: list[Trial] = []
        self.drawn = tuning.random_values() if tuning.search != "optuna" else []
        self.optuna = optuna_search(tuning) if tuning.search == "optuna" else None

    def suggest(self, trial_id: str) -> dict[str, Any] | Any:
        """Return the configuration of the next trial, or nothing where the search waits for earlier ones."""
        # after `augbench cancel` of any trial no other is begun
        is_cancelled = any(folder.cancel_request.exists() for trial in self.begun for folder in trial.folders)
        if self.progress.stopping or len(self.begun) == self.tuning.trials or is_cancelled:
            return Searcher.FINISHED
        values = self._values(trial_id)
        if values is None:
            return None
        trial = self.tuning.trial(len(self.begun), values, self.out)
        self.begun.append(trial)
        tasks = self.begin(trial)
        early = self.tuning.search == "asha" and trial.number > 0  # what is there without tuning goes on to its end
        return {"run": asdict(tasks[0]), "others": [asdict(task) for task in tasks[1:]], "early": early}

    def _values(self, trial_id: str) -> Settings | None:
        if self.optuna is None:
            return self.drawn[len(self.begun)]
        suggested = self.optuna.suggest(trial_id)
        if suggested is None or not self.begun:  # the first are those of the base, also where they are out of range
            return None if suggested is None else self.tuning.initial
        ranges = self.tuning.ranges
        return {
            name: value if ranges[name].choices else ranges[name].legible(value) for name, value in suggested.items()
        }

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Take a result into account."""
        if self.optuna is not None:
            self.optuna.on_trial_complete(trial_id, result, error)

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Save nothing: the same command takes the same way again."""


def optuna_search(tuning: Tuning) -> Searcher:
    """Make Optuna's search, which begins with the values that are used where nothing is tuned.

    It waits for a whole group of trials to end before it chooses the next one, so that what it chooses does not depend
    on which of them ended first.
    """
    import optuna  # here, since the other searches do without it
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    start = {name: nearest(tuning.ranges[name], value) for name, value in tuning.initial.items()}
    search = OptunaSearch(
        space={name: distribution(tried) for name, tried in tuning.ranges.items()},
        metric=METRIC,
        mode="max",
        points_to_evaluate=[start],
        seed=derived_seed(tuning.seed, "tuning") % 2**32,
    )
    return ConcurrencyLimiter(search, max_concurrent=OPTUNA_AT_A_TIME, batch=True)


def nearest(tried: Range, value: Any) -> Any:
    """Return the value of a range that is nearest to one that need not be in it."""
    if tried.choices:
        return value if tried.contains(value) else tried.choices[0]
    return tried.legible(float(value)) if isinstance(value, int | float) else tried.legible(tried.low)


def distribution(tried: Range) -> "BaseDistribution":
    """Translate a range."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if tried.choices:
        return CategoricalDistribution(tried.choices)
    if tried.whole:
        return IntDistribution(int(tried.low), int(tried.high), log=tried.log)
    return FloatDistribution(tried.low, tried.high, log=tried.log)


class StopsByFile(ASHAScheduler):
    """Asynchronous successive halving whose decisions are written into run folders.

    A trial that is to stop finds that in its folder and ends by itself, with its state saved: Tune would kill it, and
    no later launch would know.
    """

    def __init__(self, epochs: int) -> None:
        super().__init__(
            time_attr=EPOCH,
            max_t=epochs,
            grace_period=max(1, math.ceil(epochs / REDUCTION**2)),
            reduction_factor=REDUCTION,
        )

    def on_trial_result(self, tune_controller: Any, trial: RayTrial, result: dict[str, Any]) -> str:
        """Decide after an epoch of a trial whether it goes on."""
        decision = super().on_trial_result(tune_controller, trial, result)
        if decision == TrialScheduler.STOP and not result.get("ended"):
            stop_early(RunFolder(Path(trial.config["run"]["folder"])), result[EPOCH])
        return str(TrialScheduler.CONTINUE)


class EpochReports(StopFile):
    """Reports a run's accuracy after each epoch but the last, and stops the run where that was decided.

    Args:
        task: The run.
        report: Called with the epoch, from 1, and the accuracy; returns when the decision has been made.
    """

    def __init__(self, task: Task, report: Callable[[int, float], object]) -> None:
        super().__init__(Path(task.stop_file))
        self.folder = RunFolder(Path(task.folder))
        self.report = report
        self.reported = 0
        self._seen = 0

    def check(self) -> None:
        """Raise StopRequested if it was asked to stop."""
        self._report_new_epochs()
        if is_stopped(self.folder):
            self.request(StopCause.EARLY_STOPPED)
        super().check()

    def _report_new_epochs(self) -> None:
        written = self.folder.metrics.stat().st_mtime_ns if self.folder.metrics.exists() else 0
        if written == self._seen:
            return
        self._seen = written
        last = self.folder.read_status()["epochs"]  # written before the first epoch
        for row in self.folder.read_metrics()[self.reported : last - 1]:
            self.reported += 1
            self.report(row["epoch"], row["validation_accuracy"])


def try_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """Execute the runs of a trial one after another: what Tune calls in a worker.

    Returns:
        What the trial has reached, and as `run_trial` how it ended.
    """
    tasks = [Task(**fields) for fields in (config["run"], *config["others"])]
    first, ended, problem = RunFolder(Path(tasks[0].folder)), "", ""
    try:
        for task in tasks:
            reports = config["early"] and task is tasks[0]
            stop = EpochReports(task, _report) if reports else StopFile(Path(task.stop_file))
            ended, problem = execute_task(task, stop)
            if ended != TrialState.DONE:
                break
    except UserError as error:
        ended, problem = "not started", str(error)
    outcome = outcome_of(Trial(0, {}, tuple(RunFolder(Path(task.folder)) for task in tasks)))
    reached = 0.0 if outcome.state is TrialState.FAILED else outcome.accuracy or 0.0
    return {METRIC: reached, EPOCH: len(first.read_metrics()), "ended": ended, "problem": problem}


def _report(epoch: int, accuracy: float) -> None:
    tune.report({EPOCH: epoch, METRIC: accuracy})


def run_trials(tuning: Tuning, out: Path, begin: Begin, folder: Path, failures: int, progress: Progress) -> None:
    """Try values until there are enough, and return when all trials have ended.

    Args:
        tuning: What is tuned.
        out: Output folder of the runs.
        begin: Prepares the folders of a trial and describes its runs to workers.
        folder: Where Tune writes its files.
        failures: How often a trial whose worker or node has died is placed again.
        progress: Kept up to date.
    """
    epochs = tuning.base.budget.epochs
    tuner = tune.Tuner(
        with_resources_of_its_run(try_values),
        tune_config=tune.TuneConfig(
            metric=METRIC,
            mode="max",
            search_alg=Proposals(tuning, out, begin, progress),
            scheduler=StopsByFile(epochs) if tuning.search == "asha" else None,
            num_samples=tuning.trials,
            trial_dirname_creator=lambda trial: str(trial.trial_id),
        ),
        run_config=run_config(folder, failures, progress),
    )
    tuner.fit()
