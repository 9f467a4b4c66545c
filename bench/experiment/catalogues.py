"""The catalogues of methods, data sets and networks.

Each is built once for a set of plug-in files, so that a change of `AUGBENCH_PLUGINS` is seen at once. torch is imported
when the first one is built, so that what asks for none, such as the states of runs, need not wait for it.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator

from augbench.bench.registry.plugins import plugin_files
from augbench.bench.registry.registry import Catalogue, build_catalogue

if TYPE_CHECKING:
    from augbench.bench.contract.method import Method
    from augbench.bench.data.dataset import DatasetOptions, DatasetSource
    from augbench.bench.networks.base import NetworkSource


def methods() -> "Catalogue[Method[Any]]":
    """Catalogue of the augmentation learners."""
    return _methods(plugin_files())


@cache
def _methods(plugins: tuple[Path, ...]) -> "Catalogue[Method[Any]]":
    from augbench.bench.contract.method import Method

    return build_catalogue("method", Method, "augbench.methods", "augbench.methods", plugins)


def datasets() -> "Catalogue[DatasetSource]":
    """Catalogue of the data sets."""
    return _datasets(plugin_files())


@cache
def _datasets(plugins: tuple[Path, ...]) -> "Catalogue[DatasetSource]":
    from augbench.bench.data.dataset import DatasetSource

    return build_catalogue("data set", DatasetSource, "augbench.datasets", "augbench.datasets", plugins)  # type: ignore[type-abstract]


def dataset_and_options(name: str, settings: Mapping[str, Any]) -> "tuple[DatasetSource, DatasetOptions]":
    """Make what loads a data set, and its options from settings that were checked before."""
    target = datasets().get(name)
    return target(), target.options_type.model_validate(settings)


def networks() -> "Catalogue[NetworkSource]":
    """Catalogue of the networks."""
    return _networks(plugin_files())


@cache
def _networks(plugins: tuple[Path, ...]) -> "Catalogue[NetworkSource]":
    from augbench.bench.networks.base import NetworkSource

    return build_catalogue("network", NetworkSource, "augbench.bench.networks", "augbench.networks", plugins)  # type: ignore[type-abstract]


def _known_network(name: str) -> str:
    return networks().get(name).name


NetworkName = Annotated[str, AfterValidator(_known_network)]
"""Type of a hyperparameter that names a registered network."""
