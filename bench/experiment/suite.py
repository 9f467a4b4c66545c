"""A suite: which methods, data sets, networks, budgets and seeds are compared. Read from TOML."""

import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from augbench.bench.common.errors import UserError, one_of
from augbench.bench.common.toml_files import built_in_texts, find_text, parse_toml
from augbench.bench.experiment.acceleration import Acceleration
from augbench.bench.experiment.base import Base
from augbench.bench.experiment.budgets import Level, LevelName, budgets
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.protocol import Budget, Protocol
from augbench.bench.experiment.shard import Shard
from augbench.bench.experiment.spec import (
    SINGLE,
    RunSpec,
    dataset_component,
    method_component,
    network_component,
    predictor_component,
    validated,
)
from augbench.bench.experiment.suite_tuning import SuiteTuning
from augbench.bench.experiment.tuning_cost import TuningCost

Seed = Annotated[int, Field(ge=0, lt=2**63)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MethodEntry(_Strict):
    """A method of a comparison.

    Attributes:
        name: Its name.
        hyperparameters: Those that differ from their defaults.
        tuning: The cost of finding them, as `augbench tune` writes it: shown in tables, not part of the identity.
    """

    name: str
    hyperparameters: dict[str, Any] = {}
    tuning: TuningCost | None = None


class DatasetEntry(_Strict):
    """A data set of a comparison."""

    name: str
    options: dict[str, Any] = {}


class PredictorEntry(_Strict):
    """A predictor of a comparison; in TOML its plain name, or a table with its settings.

    A number after the name, as in `ensemble-4`, is that of its members.
    """

    name: str
    settings: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _plain_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class Comparison(_Strict):
    """Every method with every predictor on every data set, with one network and one budget.

    The budget is a table, or the name of a level: then it follows the paper's for that data set and network, or those
    of the authors that `recipe` names.
    """

    datasets: tuple[DatasetEntry, ...] = Field(min_length=1, strict=False)
    methods: tuple[MethodEntry, ...] = Field(min_length=1, strict=False)
    network: str
    predictors: tuple[PredictorEntry, ...] = Field((PredictorEntry(name=SINGLE),), min_length=1, strict=False)
    budget: Budget | None = None
    level: Annotated[LevelName | None, Field(strict=False)] = None
    recipe: str = ""
    equal: Literal["epochs", "passes"] | None = None
    copies_in_batch: bool | None = None
    baseline_copies: int | None = Field(None, ge=1, le=64)
    base: Base | None = None
    acceleration: Acceleration | None = None

    @model_validator(mode="after")
    def _one_budget(self) -> "Comparison":
        if (self.budget is None) == (self.level is None):
            raise ValueError('needs either a table [comparisons.budget] or `level = "paper"`, not both')
        if self.budget is not None and self._of_budget:
            name = next(iter(self._of_budget))
            raise ValueError(f"`{name}` belongs into [comparisons.budget], which is given too")
        if self.budget is not None and self.recipe:
            raise ValueError("`recipe` names a budget, but [comparisons.budget] is given too: leave out one of them")
        return self

    def specs(self, seed: int, protocol: Protocol, where: str) -> Iterator[RunSpec]:
        """Resolve every run with one seed; each method and data set is looked up once."""
        from augbench.bench.contract.method import check_label_smoothing  # here, since reading records needs no torch

        level = self._shortening
        network = network_component(self._trained)
        decisions = level.decisions(protocol)
        components = [
            method_component(method.name, level.shortened(method.name, method.hyperparameters), where)
            for method in self.methods
        ]
        predictors = [predictor_component(one.name, one.settings, where) for one in self.predictors]
        for dataset in self.datasets:
            component = dataset_component(dataset.name, level.options(dataset.name, dataset.options), where)
            budget = self.budget or self._paper_budget(dataset.name, level)
            for method in components:
                check_label_smoothing(methods().get(method.name), budget.label_smoothing)
                for predictor in predictors:
                    yield RunSpec(
                        protocol=decisions,
                        method=method,
                        dataset=component,
                        network=network,
                        budget=budget,
                        predictor=predictor,
                        seed=seed,
                    )

    def at_level(self, level: LevelName | None) -> "Comparison":
        """Return the comparison with another level of the paper's budgets, or unchanged for None."""
        return self.model_copy(update={"level": level}) if level else self

    def leaves_out(self, rank: int) -> bool:
        """Whether its level drops the seed at this position, counted from 0."""
        most = self._shortening.seeds
        return most is not None and rank >= most

    @property
    def _shortening(self) -> Level:
        """The level that shortens it; a comparison with its own budget has the level `paper`, which changes nothing."""
        return budgets().levels[self.level or LevelName.PAPER]

    @property
    def _trained(self) -> str:
        """Name of the network: that of its level, unless it has the recipe of the level anyway."""
        level = self._shortening
        is_own = level.network is None or (level.recipe and level.recipe == self.recipe)
        return self.network if is_own else level.network or self.network

    def _paper_budget(self, dataset: str, level: Level) -> Budget:
        of_level = (self._trained, level.recipe) if level.recipe else (self.network, self.recipe)
        return level.budget(budgets().paper(dataset, *of_level)).model_copy(update=self._of_budget)

    @property
    def _of_budget(self) -> dict[str, Any]:
        """Given values that replace parts of the paper's budget."""
        names = ("equal", "copies_in_batch", "baseline_copies", "base", "acceleration")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}


class Suite(_Strict):
    """Comparisons that are planned, run and shown together: its own and those of included built-in suites.

    `tuning` applies to all of them.
    """

    name: str
    title: str
    seeds: tuple[Seed, ...] = Field((), min_length=1, strict=False)
    protocol: Protocol = Protocol()
    comparisons: tuple[Comparison, ...] = Field((), min_length=1, strict=False)
    includes: tuple[str, ...] = Field((), min_length=1, strict=False)
    tuning: SuiteTuning | None = None
    _level: LevelName | None = PrivateAttr(None)
    _shard: Shard | None = PrivateAttr(None)
    _text: str = PrivateAttr("")

    @field_validator("includes")
    @classmethod
    def _known_suites(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        texts = built_in_suites()
        for name in names:
            if name not in texts:
                raise ValueError(one_of("suite", name, texts).rstrip("."))
            if "includes" in tomllib.loads(texts[name]):
                raise ValueError(f"{name!r} includes suites itself; name those instead")
        return names

    @field_validator("seeds")
    @classmethod
    def _different_seeds(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        twice = [seed for seed, count in Counter(seeds).items() if count > 1]
        if twice:
            raise ValueError(f"{twice[0]} is listed {seeds.count(twice[0])} times; list each seed once")
        return seeds

    @model_validator(mode="after")
    def _something_to_run(self) -> "Suite":
        if not self.comparisons and not self.includes:
            raise ValueError("needs [[comparisons]] or the names of built-in suites in `includes`")
        if self.comparisons and not self.seeds:
            raise ValueError("needs `seeds`, such as seeds = [0, 1, 2]")
        if not self.comparisons and (self.seeds or self.protocol != Protocol()):
            raise ValueError(
                "`seeds` and [protocol] apply to the suite's own [[comparisons]], and it has none; the suites in "
                "`includes` keep theirs. Leave them out, or copy such a suite: `augbench list suites NAME`"
            )
        if self.tuning and self.protocol.evaluated_on == "validation":
            raise ValueError('[tuning] chooses values on the validation images, so `evaluated_on` must stay "test"')
        return self

    @property
    def text(self) -> str:
        """The TOML that it was read from; empty if it was made otherwise."""
        return self._text

    def at_level(self, level: LevelName | None) -> "Suite":
        """Return the suite with another level of the paper's budgets, or unchanged for None.

        Raises:
            UserError: If a comparison has a budget of its own.
        """
        for suite in self._parts() if level else ():
            if any(comparison.level is None for comparison in suite.comparisons):
                raise UserError(
                    f"The suite {suite.name!r} sets its own budget, so it has no {level} level. Omit --budget, or "
                    f'replace the table [comparisons.budget] by `level = "{level}"`.'
                )
        copy = self.model_copy()
        copy._level = level or self._level
        return copy

    @property
    def level(self) -> LevelName | None:
        """The level that replaces those of its comparisons; None where these keep theirs."""
        own = {comparison.level for part in self._parts() for comparison in part.comparisons} if self._level else set()
        return None if own == {self._level} else self._level

    def in_shard(self, shard: Shard | None) -> "Suite":
        """Return the share of the suite for one of several machines, or the whole suite for None."""
        copy = self.model_copy()
        copy._shard = shard
        return copy

    @property
    def shard(self) -> Shard | None:
        """The share of the whole suite that this is; None if it is the whole."""
        return self._shard

    def specs(self) -> tuple[RunSpec, ...]:
        """Resolve every run of the suite, or of its share, each once, seed by seed.

        Raises:
            UserError: If a method, data set, network or setting does not exist or is out of range, or there are more
                shares than can be made.
        """
        parts = self._parts()
        resolved = []
        for part in parts:
            for comparison in part.comparisons:
                leveled = comparison.at_level(self._level)
                kinds = tuple(leveled.specs(part.seeds[0], part.protocol, f"suite {part.name!r}"))
                resolved.append((leveled, part.seeds, kinds))
        specs = {}
        for rank in range(max(len(part.seeds) for part in parts)):
            for leveled, seeds, kinds in resolved:
                if rank < len(seeds) and not leveled.leaves_out(rank):
                    for kind in kinds:
                        spec = kind.with_seed(seeds[rank])
                        specs[spec.identity] = spec
        found = tuple(specs.values())
        return self._shard.chosen(found) if self._shard else found

    def tunings(self) -> dict[str, TuningCost]:
        """Return the known costs of finding hyperparameters, by `RunSpec.configuration`.

        Raises:
            UserError: If a method, data set, network or setting does not exist or is out of range.
        """
        found: dict[str, TuningCost] = {}
        for part in self._parts():
            for comparison in part.comparisons:
                if any(entry.tuning for entry in comparison.methods):
                    kinds = comparison.at_level(self._level).specs(part.seeds[0], part.protocol, f"suite {part.name!r}")
                    each = [entry for entry in comparison.methods for _ in comparison.predictors]
                    entries = each * len(comparison.datasets)
                    found |= {
                        kind.configuration: entry.tuning
                        for kind, entry in zip(kinds, entries, strict=True)
                        if entry.tuning
                    }
        return found

    def _parts(self) -> tuple["Suite", ...]:
        return (self, *map(load_suite, self.includes))


def built_in_suites() -> dict[str, str]:
    """Texts of the suites that come with the package, by name."""
    return built_in_texts(resources.files("augbench.bench.experiment") / "suites")


def load_suite(name_or_path: str) -> Suite:
    """Load a suite by the name of a built-in one or the path of a TOML file.

    Raises:
        UserError: If there is none, it is no TOML, or a key or value is wrong.
    """
    return parse_suite(*find_text("suite", name_or_path, built_in_suites()))


def parse_suite(text: str, where: str) -> Suite:
    """Read a suite from TOML text.

    Raises:
        UserError: If it is no TOML, or a key or value is wrong.
    """
    suite = validated(Suite, parse_toml(text, where, "augbench list suites demo"), where, text)
    suite._text = text
    return suite
