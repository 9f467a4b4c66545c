"""What is tuned: a method on a data set, among which values, and the runs that try them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from augbench.bench.common.errors import UserError, one_of
from augbench.bench.common.randomness import derived_seed
from augbench.bench.contract.search_space import Range, grid_size, ranges_of
from augbench.bench.experiment.budgets import LevelName, budgets
from augbench.bench.experiment.catalogues import datasets, methods
from augbench.bench.experiment.protocol import Protocol
from augbench.bench.experiment.spec import RunSpec, Settings, method_component
from augbench.bench.experiment.suite import Comparison, DatasetEntry, MethodEntry, Suite
from augbench.bench.experiment.tuning_cost import SearchKind
from augbench.bench.runs.run_folder import RunFolder

ATTEMPTS = 1000  # to draw values that were not drawn before


@dataclass(frozen=True)
class Trial:
    """Values that are tried.

    Attributes:
        number: Counted from 0, the values that are used where nothing is tuned.
        values: A value for each hyperparameter that is tuned.
        folders: The runs, one for each seed.
    """

    number: int
    values: Settings
    folders: tuple[RunFolder, ...]


@dataclass(frozen=True)
class Tuning:
    """A search for the best hyperparameters of a method on a data set.

    Attributes:
        base: The run of the comparison that values are wanted for, as it is where nothing is tuned.
        search: How values are chosen.
        trials: How many are tried, those of `base` among them.
        seed: Seed of the choice, and of the first run of each trial.
        repeats: Runs of each trial, with one seed after the other.
    """

    base: RunSpec
    search: SearchKind
    trials: int
    seed: int = 0
    repeats: int = 1

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """Range of every hyperparameter that is tuned, by name."""
        return ranges_of(methods().get(self.base.method.name).hyperparameters_type)

    @property
    def initial(self) -> Settings:
        """Values that are used where nothing is tuned."""
        return {name: self.base.method.all_settings[name] for name in self.ranges}

    def check(self) -> None:
        """Make sure that there is something to look for.

        Raises:
            UserError: If the method has no ranges or not as many values, or a number is out of range.
        """
        name = self.base.method.name
        if not self.ranges:
            having = [entry.name for entry in methods() if ranges_of(entry.target.hyperparameters_type)]
            raise UserError(
                f"The method {name!r} has nothing to tune: none of its hyperparameters is declared with `tunable`. "
                f"Methods with something to tune: {', '.join(having)}; `augbench list methods NAME` shows what."
            )
        for option, number in (("--trials", self.trials), ("--repeats", self.repeats)):
            if number < 1:
                raise UserError(f"{option} must be at least 1, not {number}.")
        if self.trials > grid_size(self.ranges):
            raise UserError(
                f"The method {name!r} has no more than {grid_size(self.ranges):.0f} different values to try, and "
                f"--trials asks for {self.trials}. Lower it."
            )

    def specs(self, values: Settings) -> tuple[RunSpec, ...]:
        """Return the runs that try some values: trained without the validation images and evaluated on them.

        No test-time draws and no probes, since values are chosen by the accuracy without them.

        Raises:
            UserError: If the method refuses the values together.
        """
        decisions = {"evaluated_on": "validation", "test_time_draws": (), "probe_angles": 0, "shift": None}
        changed = {"protocol": self.base.protocol.model_copy(update=decisions)}
        like = self.final(values).model_copy(update=changed)
        return tuple(like.with_seed(self.seed + repeat) for repeat in range(self.repeats))

    def final(self, values: Settings) -> RunSpec:
        """Return a run of the comparison with some values.

        Raises:
            UserError: If the method refuses the values together.
        """
        name = self.base.method.name
        method = method_component(name, {**self.base.method.all_settings, **values}, f"the tuning of {name!r}")
        return self.base.model_copy(update={"method": method})

    def tries(self, spec: RunSpec) -> bool:
        """Whether a run is of a trial of this tuning, whatever its values."""
        is_like = spec.protocol.evaluated_on == "validation" and spec.method.name == self.base.method.name
        if not is_like or spec.seed not in range(self.seed, self.seed + self.repeats):
            return False
        known = spec.method.all_settings
        values = {name: known[name] for name in self.ranges if name in known}
        return any(one.identity == spec.identity for one in self.specs(values))

    def trial(self, number: int, values: Settings, out: Path) -> Trial:
        """Name the folders of a trial's runs."""
        folders = tuple(RunFolder(out / "runs" / spec.folder_name) for spec in self.specs(values))
        return Trial(number, values, folders)

    def random_values(self) -> list[Settings]:
        """Draw the values of every trial, all different, the first those of `base`; the same at every call.

        Raises:
            UserError: If the method refuses some of them.
        """
        chosen = [self.initial]
        while len(chosen) < self.trials:
            chosen.append(self._new_values(len(chosen), chosen))
        return chosen

    def _new_values(self, number: int, known: list[Settings]) -> Settings:
        for attempt in range(ATTEMPTS):
            # A stream for each number, so that a hyperparameter more or less leaves the values of the others alone.
            stream = f"tuning/{number}/{attempt}"
            values: Settings = {
                name: tried.from_unit(_unit(self.seed, f"{stream}/{name}")) for name, tried in self.ranges.items()
            }
            if values not in known:
                self.specs(values)
                return values
        raise UserError(f"No values could be drawn for trial {number} that were not tried before. Lower --trials.")


def _unit(seed: int, stream: str) -> float:
    """Draw from [0, 1) by the one NumPy generator whose stream is frozen."""
    return float(np.random.RandomState(derived_seed(seed, stream) % 2**32).random_sample())


def base_of_paper(method: str, dataset: str, network: str | None, level: LevelName) -> RunSpec:
    """Resolve the run that the paper's budgets ask for.

    Args:
        method: Name of the method.
        dataset: Name of the data set.
        network: Name of the network; that of the paper by default.
        level: How much of the paper's budget is spent.

    Raises:
        UserError: If there is no such method, data set or network, or the paper has no budget for them.
    """
    methods().get(method)
    datasets().get(dataset)
    known = [entry.network for entry in budgets().of_recipe() if dataset in entry.datasets]
    if network is None and not known:
        having = ", ".join(name for entry in budgets().of_recipe() for name in entry.datasets)
        raise UserError(
            f"There is no budget of the paper for the data set {dataset!r}, only for {having}. Give --suite with the "
            "name or the file of a suite that has this data set: network and budget are taken from there."
        )
    comparison = Comparison(
        datasets=(DatasetEntry(name=dataset),),
        methods=(MethodEntry(name=method),),
        network=network or known[0],
        level=level,
    )
    return next(comparison.specs(0, Protocol(), "`augbench tune`"))


def base_of_suite(suite: Suite, method: str, dataset: str) -> RunSpec:
    """Find the run of a suite that values are wanted for; its other seeds need the same ones.

    Where the suite does not have the method, network, predictor, budget and data are those of its other methods.

    Raises:
        UserError: If there is no such method, the suite does not have the data set, or has either in several ways.
    """
    methods().get(method)
    runs = [spec for spec in suite.specs() if spec.dataset.name == dataset]
    if not runs:
        having = {spec.dataset.name for spec in suite.specs()}
        raise UserError(f"In the suite {suite.name!r}: {one_of('data set', dataset, having)}")
    own = [spec for spec in runs if spec.method.name == method] or [
        spec.model_copy(update={"method": method_component(method, {}, "`augbench tune`")}) for spec in runs
    ]
    different = {spec.model_copy(update={"seed": 0}).identity: spec for spec in own}
    if len(different) > 1:
        raise UserError(
            f"The suite {suite.name!r} has {method!r} on {dataset!r} in {len(different)} ways, which differ in "
            "hyperparameters, options, network, predictor or budget. Give a suite that has only the one to tune: "
            "`augbench list suites NAME` prints a built-in one to start from."
        )
    return own[0]
