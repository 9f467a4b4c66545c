"""The stages of a suite with `[tuning]`: trials of every method and data set, then the comparison with the best values.

What is to be done next follows from the suite and the run folders alone, so that the same command goes on from
wherever it was stopped, on every launcher.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from augbench.bench.common.errors import UserError, one_of
from augbench.bench.contract.search_space import grid_size, ranges_of
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import RunSpec, Settings
from augbench.bench.experiment.suite import Suite
from augbench.bench.experiment.suite_tuning import SuiteTuning
from augbench.bench.experiment.tuning_cost import TuningCost
from augbench.bench.planning.plan import Plan, PlannedRun, make_plan, plan_of
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.tuning.outcome import Outcome, TrialState, is_stopped, outcome_of, ranked, state_in_trial
from augbench.bench.tuning.results import cost_of
from augbench.bench.tuning.tuning import Trial, Tuning

Tried = Mapping[str, Sequence[Settings]]
"""By `RunSpec.configuration`, the values that a search has chosen which depend on results."""


@dataclass(frozen=True)
class Search:
    """The search for the values of one method on one data set, and how far it is.

    Attributes:
        tuning: What is looked for.
        trials: The trials that are known; those of Optuna only when all have ended.
        runs: Their runs, each once, but for those whose folder is damaged.
        outcomes: How the trials went, in order; empty until all have ended.
    """

    tuning: Tuning
    trials: tuple[Trial, ...]
    runs: tuple[PlannedRun, ...]
    outcomes: tuple[Outcome, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether every trial has ended: done, stopped early, or failed, which counts as worst.

        Where failed trials are to be tried again, a search with one has not ended.
        """
        return bool(self.outcomes)

    @property
    def best(self) -> Outcome | None:
        """The best trial; None until all have ended, and if none has a result."""
        first = ranked(self.outcomes)[0] if self.outcomes else None
        return first if first is not None and first.state is TrialState.DONE else None

    @property
    def chosen(self) -> RunSpec | None:
        """A run of the comparison with the best values; None as long as these are unknown."""
        return None if self.best is None else self.tuning.final(self.best.trial.values)

    @property
    def name(self) -> str:
        """What is tuned, for sentences."""
        return f"{self.tuning.base.learner_label} on {self.tuning.base.dataset.called}"


@dataclass(frozen=True)
class Stages:
    """A suite against the contents of an output folder.

    Attributes:
        searches: One for each configuration that is tuned; none without `[tuning]`.
        final: The runs of the comparison whose values are known.
        waiting: Those whose values are not, with the values of the suite and no folder.
        damaged: The problem with the folder of each other run.
        untuned: Names of methods that keep their values, with why.
    """

    searches: tuple[Search, ...]
    final: tuple[PlannedRun, ...]
    waiting: tuple[PlannedRun, ...] = ()
    damaged: tuple[str, ...] = ()
    untuned: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def trials(self) -> tuple[PlannedRun, ...]:
        """Runs of trials, each once."""
        return tuple({run.spec.identity: run for search in self.searches for run in search.runs}.values())

    @cached_property
    def plan(self) -> Plan:
        """Everything that can be placed now, trials first, since others wait for them."""
        return Plan((*self.trials, *self.final), self.damaged)

    def unsettled(self) -> Plan:
        """As `plan`, without the trials of searches that have ended."""
        over = {run.spec.identity for search in self.searches if search.ended for run in search.runs}
        return replace(self.plan, runs=tuple(run for run in self.plan.runs if run.spec.identity not in over))

    def with_outcomes(self, search: Search, outcomes: Sequence[Outcome]) -> "Stages":
        """Return the stages with what became of the trials of a search, if all have ended."""
        if len(outcomes) < search.tuning.trials or any(one.state is TrialState.UNFINISHED for one in outcomes):
            return self
        ended = replace(search, trials=tuple(one.trial for one in outcomes), outcomes=tuple(outcomes))
        return replace(self, searches=tuple(ended if one is search else one for one in self.searches))

    @property
    def without_values(self) -> tuple[Search, ...]:
        """Searches that have ended without a single result."""
        return tuple(search for search in self.searches if search.ended and search.best is None)

    @property
    def costs(self) -> dict[str, TuningCost]:
        """What tuning has cost, by `RunSpec.configuration` of the final runs.

        Searches that have chosen the same values share their final runs, which cost all different trials.
        """
        found: dict[str, TuningCost] = {}
        trials: dict[str, dict[tuple[Path, ...], Outcome]] = {}
        for search in self.searches:
            if search.best is not None and search.chosen is not None:
                kind = search.chosen.configuration
                own = {tuple(folder.path for folder in one.trial.folders): one for one in search.outcomes}
                trials[kind] = trials.get(kind, {}) | own
                found[kind] = cost_of(search.tuning, tuple(trials[kind].values()), search.best)
        return found

    def for_estimates(self) -> Plan:
        """All runs, known or not, as if all had the values of the suite, which is how much they cost about."""
        runs = [run for search in self.searches for run in (*search.runs, *_unknown(search))]
        return Plan(self.alike((*runs, *self.final, *self.waiting)), self.damaged)

    def alike(self, runs: Iterable[PlannedRun]) -> tuple[PlannedRun, ...]:
        """Return runs of these stages as if all had the values of the suite."""
        return tuple(
            replace(run, spec=like.with_seed(run.spec.seed))
            if (like := self._like.get(run.spec.configuration))
            else run
            for run in runs
        )

    @cached_property
    def _like(self) -> dict[str, RunSpec]:
        """By configuration of trials and of tuned runs, a run with the values of the suite."""
        found = {search.chosen.configuration: search.tuning.base for search in self.searches if search.chosen}
        for search in self.searches:
            first = search.tuning.specs(search.tuning.initial)[0]
            found |= {run.spec.configuration: first for run in search.runs}
        return found


def _unknown(search: Search) -> list[PlannedRun]:
    """Runs of the trials that are not known yet, with the values of the first."""
    first = search.tuning.specs(search.tuning.initial)[0]
    left = search.tuning.trials * search.tuning.repeats - len(search.runs)
    return [PlannedRun(first, search.trials[0].folders[0], RunState.PLANNED)] * left


def stages_of(suite: Suite, out: Path, tried: Tried | None = None, *, retry_failed: bool = False) -> Stages:
    """Find out how far a suite is, with or without `[tuning]`.

    Args:
        suite: What to run.
        out: The output folder, which need not exist.
        tried: What Optuna has tried before, as far as it is recorded.
        retry_failed: Whether failed trials are to be tried again, so that final runs wait for them.

    Raises:
        UserError: As for `make_plan`, and if there is nothing to tune although the suite asks for it.
    """
    if suite.tuning is None:
        planned = make_plan(suite, out)
        return Stages((), planned.runs, damaged=planned.damaged)
    specs = suite.specs()
    tunings = tunings_of(suite, suite.tuning, specs)
    values = {kind: _values(tuning, (tried or {}).get(kind, ())) for kind, tuning in tunings.items()}
    trials = {
        kind: tuple(tuning.trial(number, chosen, out) for number, chosen in enumerate(values[kind]))
        for kind, tuning in tunings.items()
    }
    of_trials = {
        spec.identity: spec
        for kind, tuning in tunings.items()
        for chosen in values[kind]
        for spec in tuning.specs(chosen)
    }
    placed = plan_of(of_trials.values(), out)
    searches = {
        kind: _search(tuning, trials[kind], placed, retry_failed=retry_failed) for kind, tuning in tunings.items()
    }
    final, waiting = _final_specs(specs, searches)
    planned = plan_of(final, out)
    untuned = _untuned(suite.tuning, specs, tunings)
    damaged = (*placed.damaged, *planned.damaged)
    nowhere = RunFolder(out / "runs" / "values unknown")
    missing = tuple(PlannedRun(spec, nowhere, RunState.PLANNED) for spec in waiting)
    return Stages(tuple(searches.values()), planned.runs, missing, damaged, untuned)


def _values(tuning: Tuning, tried: Sequence[Settings]) -> Sequence[Settings]:
    """Values of the trials; of Optuna, those that it is known to have tried, and the first."""
    if tuning.search != "optuna":
        return tuning.random_values()
    return tried or [tuning.initial]


def _search(tuning: Tuning, trials: tuple[Trial, ...], placed: Plan, *, retry_failed: bool) -> Search:
    known = {run.folder.path.name: as_in_trial(run) for run in placed.runs}
    folders = {folder.path.name: folder for trial in trials for folder in trial.folders}
    runs = tuple(known[name] for name in folders if name in known)
    search = Search(tuning, trials, runs)
    if len(trials) < tuning.trials or not all(_has_ended(trial, known) for trial in trials):
        return search
    outcomes = tuple(map(outcome_of, trials))
    is_tried_again = retry_failed and any(one.state is TrialState.FAILED for one in outcomes)
    return search if is_tried_again else replace(search, outcomes=outcomes)


def as_in_trial(run: PlannedRun) -> PlannedRun:
    """Return a run with its state as it counts in a trial."""
    return replace(run, state=state_in_trial(run.folder, run.state))


def _has_ended(trial: Trial, known: Mapping[str, PlannedRun]) -> bool:
    """Whether nothing more is computed for a trial: all runs are done, one has failed, or it was stopped early."""
    runs = [known[folder.path.name] for folder in trial.folders if folder.path.name in known]
    if len(runs) < len(trial.folders):
        return False
    states = {run.state for run in runs}
    return states == {RunState.DONE} or RunState.FAILED in states or is_stopped(trial.folders[0])


def _final_specs(
    specs: Sequence[RunSpec], searches: Mapping[str, Search]
) -> tuple[tuple[RunSpec, ...], tuple[RunSpec, ...]]:
    """The runs of the comparison with the values that were found, and those whose values are unknown."""
    known: dict[str, RunSpec] = {}
    waiting = []
    chosen = {kind: search.chosen for kind, search in searches.items()}
    for spec in specs:
        best = chosen.get(spec.configuration, spec)
        if best is None:
            waiting += [] if searches[spec.configuration].ended else [spec]
        else:
            final = best.with_seed(spec.seed)
            known[final.identity] = final
    return tuple(known.values()), tuple(waiting)


def tunings_of(suite: Suite, asked: SuiteTuning, specs: Sequence[RunSpec]) -> dict[str, Tuning]:
    """What a suite tunes, by `RunSpec.configuration` of the runs that values are wanted for.

    Raises:
        UserError: If none of its methods has anything to tune and it is no share, or an exception is for none of them.
    """
    _check_names(asked, suite.in_shard(None).specs() if suite.shard and asked.methods else specs)
    tuned_before = suite.tunings()
    found: dict[str, Tuning] = {}
    for spec in specs:
        name, kind = spec.method.name, spec.configuration
        if kind in found or kind in tuned_before or spec.protocol.evaluated_on != "test":
            continue
        tuning = Tuning(spec, asked.search, asked.trials_of(name), asked.seed, asked.repeats)
        if tuning.trials and tuning.ranges:
            found[kind] = replace(tuning, trials=int(min(tuning.trials, grid_size(tuning.ranges))))
    if not found and suite.shard is None:
        names = dict.fromkeys(spec.method.name for spec in specs)
        raise UserError(
            f"The suite {suite.name!r} has a table [tuning], but none of its methods ({', '.join(names)}) has anything "
            f"left to tune. Methods with something to tune: {', '.join(tunable_methods())}. Add one, or remove "
            "[tuning]."
        )
    return found


def _untuned(asked: SuiteTuning, specs: Sequence[RunSpec], tunings: Mapping[str, Tuning]) -> dict[str, str]:
    """Names of the methods that keep their values on some data set, with why."""
    reasons = {}
    for spec in specs:
        name = spec.method.name
        if spec.configuration not in tunings and name not in reasons:
            nothing = "nothing to tune" if not tunable_hyperparameters(name) else "tuned before"
            reasons[name] = "skipped by the suite" if asked.trials_of(name) == 0 else nothing
    return reasons


def _check_names(asked: SuiteTuning, specs: Sequence[RunSpec]) -> None:
    names = {spec.method.name for spec in specs}
    for name in asked.methods:
        if name not in names:
            raise UserError(f"[tuning.methods] of the suite: {one_of('method', name, names)}")
        if not asked.methods[name].skip and not tunable_hyperparameters(name):
            raise UserError(
                f"[tuning.methods.{name}] of the suite: {name!r} has nothing to tune. Methods with something to tune: "
                f"{', '.join(tunable_methods())}."
            )


def tunable_hyperparameters(method: str) -> list[str]:
    """Names of the hyperparameters of a method that are tuned."""
    return list(ranges_of(methods().get(method).hyperparameters_type))


def tunable_methods() -> list[str]:
    """Names of the methods with something to tune."""
    return [entry.name for entry in methods() if tunable_hyperparameters(entry.name)]
