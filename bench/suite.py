"""A suite: which methods, data sets, networks, budgets and seeds are compared. Read from TOML."""

import tomllib
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from augbench.bench.errors import UserError, one_of
from augbench.bench.protocol import Budget, Protocol
from augbench.bench.spec import RunSpec, dataset_component, method_component, network_component, validated

Seed = Annotated[int, Field(ge=0, lt=2**63)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MethodEntry(_Strict):
    """A method of a comparison."""

    name: str
    hyperparameters: dict[str, Any] = {}


class DatasetEntry(_Strict):
    """A data set of a comparison."""

    name: str
    options: dict[str, Any] = {}


class Comparison(_Strict):
    """Every method on every data set with one network and one budget."""

    datasets: tuple[DatasetEntry, ...] = Field(min_length=1, strict=False)
    methods: tuple[MethodEntry, ...] = Field(min_length=1, strict=False)
    network: str
    budget: Budget


class Suite(_Strict):
    """Comparisons that are planned, run and shown together."""

    name: str
    title: str
    seeds: tuple[Seed, ...] = Field(min_length=1, strict=False)
    protocol: Protocol = Protocol()
    comparisons: tuple[Comparison, ...] = Field(min_length=1, strict=False)

    def specs(self) -> tuple[RunSpec, ...]:
        """Resolve every run of the suite, each once, seed by seed.

        Raises:
            UserError: If a method, data set, network or setting does not exist or is out of range.
        """
        where = f"suite {self.name!r}"
        specs = {}
        for seed, comparison in product(self.seeds, self.comparisons):
            network = network_component(comparison.network)
            for dataset, method in product(comparison.datasets, comparison.methods):
                spec = RunSpec(
                    protocol=self.protocol,
                    method=method_component(method.name, method.hyperparameters, where),
                    dataset=dataset_component(dataset.name, dataset.options, where),
                    network=network,
                    budget=comparison.budget,
                    seed=seed,
                )
                specs[spec.identity] = spec
        return tuple(specs.values())


def built_in_suites() -> dict[str, str]:
    """Texts of the suites that come with the package, by name."""
    folder = resources.files("augbench.bench") / "suites"
    files = [file for file in folder.iterdir() if file.name.endswith(".toml")]
    return {file.name.removesuffix(".toml"): file.read_text("utf-8") for file in sorted(files, key=lambda f: f.name)}


def load_suite(name_or_path: str) -> Suite:
    """Load a suite by the name of a built-in one or the path of a TOML file.

    Raises:
        UserError: If there is none, it is no TOML, or a key or value is wrong.
    """
    texts = built_in_suites()
    if name_or_path in texts:
        return parse_suite(texts[name_or_path], f"built-in suite {name_or_path!r}")
    path = Path(name_or_path)
    if path.suffix != ".toml":
        raise UserError(one_of("suite", name_or_path, texts) + " The path of a .toml file is valid too.")
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"The suite {path} cannot be read: {error}. Give the path of a .toml file or one of: {', '.join(texts)}."
        ) from None
    return parse_suite(text, str(path))


def parse_suite(text: str, where: str) -> Suite:
    """Read a suite from TOML text.

    Raises:
        UserError: If it is no TOML, or a key or value is wrong.
    """
    try:
        values = tomllib.loads(text)
    except ValueError as error:  # also what Python says of a number with thousands of digits
        raise UserError(
            f"{where} is not valid TOML: {error}. `augbench list suites demo` prints one to copy."
        ) from None
    return validated(Suite, values, where)
