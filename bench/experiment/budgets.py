"""The paper's budget for each data set and network, and how it is shortened; `budgets.toml` has the numbers."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue

from augbench.bench.common.errors import UserError, one_of
from augbench.bench.experiment.catalogues import datasets, methods
from augbench.bench.experiment.protocol import Budget, Protocol


class LevelName(StrEnum):
    """How much of the paper's budget a suite spends."""

    PAPER = "paper"
    QUICK = "quick"
    FAST = "fast"
    SMOKE = "smoke"


def level_named(name: str | None) -> LevelName | None:
    """Look up a level; None gives None.

    Raises:
        UserError: If there is none of that name.
    """
    if name is None:
        return None
    levels = [level.value for level in LevelName]
    if name not in levels:
        raise UserError(f"--budget: {one_of('level', name, levels)} `augbench list budgets` describes them.")
    return LevelName(name)


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PaperBudget(_Stored):
    """A published budget for a network and some data sets: the paper's, or those of others with a recipe.

    Attributes:
        recipe: Name of the recipe, empty for the paper's own.
        datasets: The data sets.
        network: The network.
        stated: What the paper states.
        decided: What the paper leaves open, and our choice.
        paper: The budget.
    """

    recipe: str = ""
    datasets: tuple[str, ...]
    network: str
    stated: str
    decided: str
    paper: Budget


class Level(_Stored):
    """A way of shortening a comparison.

    Attributes:
        title: One line for lists.
        share_of_epochs: Fraction of the paper's epochs; at least one epoch is kept.
        epochs: Number of epochs, in place of a fraction.
        seeds: Most seeds to keep, the first ones.
        factors: By method and hyperparameter, the factor of its value; integers stay integers, and at least 1.
        network: Network to train instead of the comparison's own.
        recipe: Recipe to train it by, in place of the paper's budget or another recipe. A comparison that has it anyway
            keeps its network, too.
        train_images: Most training images to keep, if the data set has an option of that name.
        short_searches: Whether searches use `quick_hyperparameters`, with which they take seconds.
        hyperparameters: Replaced hyperparameters, by method.
        protocol: Replaced decisions of the protocol.
    """

    title: str
    share_of_epochs: float = 1.0
    epochs: int | None = None
    seeds: int | None = None
    factors: dict[str, dict[str, float]] = {}
    network: str | None = None
    recipe: str = ""
    train_images: int | None = None
    short_searches: bool = False
    hyperparameters: dict[str, dict[str, JsonValue]] = {}
    protocol: dict[str, JsonValue] = {}

    def budget(self, paper: Budget) -> Budget:
        """Shorten a budget of the paper."""
        epochs = self.epochs or max(1, round(self.share_of_epochs * paper.epochs))
        return paper.model_copy(update={"epochs": epochs})

    def decisions(self, protocol: Protocol) -> Protocol:
        """Replace decisions of the protocol."""
        return Protocol.model_validate(protocol.model_dump() | self.protocol)

    def options(self, dataset: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that shorten a data set."""
        known = datasets().get(dataset).options_type.model_fields
        if self.train_images is None or "train_images" not in known:
            return dict(options)
        own = options.get("train_images")
        return {**options, "train_images": min(self.train_images, own) if isinstance(own, int) else self.train_images}

    def shortened(self, method: str, hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the hyperparameters that shorten a method."""
        target = methods().get(method)
        changed: dict[str, Any] = dict(target.quick_hyperparameters) if self.short_searches else {}
        for name, factor in self.factors.get(method, {}).items():
            value = hyperparameters.get(name, target.hyperparameters_type.model_fields[name].default)
            if isinstance(value, int | float):  # not None
                changed[name] = max(1, round(value * factor)) if isinstance(value, int) else value * factor
        return {**hyperparameters, **changed, **self.hyperparameters.get(method, {})}


@dataclass(frozen=True)
class Budgets:
    """Content of the data file."""

    papers: tuple[PaperBudget, ...]
    levels: dict[LevelName, Level]

    def paper(self, dataset: str, network: str, recipe: str = "") -> Budget:
        """Look up the paper's budget, or that of a recipe.

        Raises:
            UserError: If there is no such recipe, or no budget for that data set and network.
        """
        recipes = list(dict.fromkeys(entry.recipe for entry in self.papers if entry.recipe))
        if recipe and recipe not in recipes:
            raise UserError(f"{one_of('recipe', recipe, recipes)} `augbench list budgets` shows them.")
        entries = self.of_recipe(recipe)
        for entry in entries:
            if dataset in entry.datasets and network == entry.network:
                return entry.paper
        known = "; ".join(f"{', '.join(entry.datasets)} with {entry.network}" for entry in entries)
        whose = f"of the recipe {recipe!r}" if recipe else "of the paper"
        raise UserError(
            f"There is no budget {whose} for the data set {dataset!r} with the network {network!r}, only for "
            f"{known}. Choose one of these or another level, or replace `level` by a table [comparisons.budget]; "
            "`augbench list budgets` shows some to start from."
        )

    def of_recipe(self, recipe: str = "") -> tuple[PaperBudget, ...]:
        """Return the budgets of a recipe, or the paper's own."""
        return tuple(entry for entry in self.papers if entry.recipe == recipe)


@cache
def recipe_of(budget: Budget, dataset: str, network: str) -> str:
    """Name the recipe for a data set and network that a budget has, whatever its epochs; empty if there is none.

    Of a network that no recipe is for, such as that of the level `smoke`, it is that of any other network.
    """
    own = {"epochs", "equal", "copies_in_batch", "baseline_copies", "acceleration"}
    content = budget.model_dump(exclude=own)
    entries = [entry for entry in budgets().papers if dataset in entry.datasets]
    entries = [entry for entry in entries if entry.network == network] or entries
    found = [entry.recipe for entry in entries if entry.paper.model_dump(exclude=own) == content]
    return next(filter(None, found), "")


@cache
def budgets() -> Budgets:
    """Read the budgets that come with the package."""
    text = (resources.files("augbench.bench.experiment") / "budgets.toml").read_text("utf-8")
    content = tomllib.loads(text)
    return Budgets(
        papers=tuple(PaperBudget.model_validate(entry) for entry in content["budgets"]),
        levels={LevelName(name): Level.model_validate(level) for name, level in content["levels"].items()},
    )
