"""The catalogues of methods, data sets, networks and predictors.

Each is built once per set of plug-in files, so a change of `AUGBENCH_PLUGINS` takes effect at once. Building the first
one imports torch; code that needs no catalogue, such as the states of runs, does not wait for it.
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
    from augbench.bench.predictors.base import Predictor


def methods() -> "Catalogue[Method[Any]]":
    """Return the catalogue of augmentation learners."""
    return _catalogue("method", plugin_files())


def datasets() -> "Catalogue[DatasetSource]":
    """Return the catalogue of data sets."""
    return _catalogue("data set", plugin_files())


def networks() -> "Catalogue[NetworkSource]":
    """Return the catalogue of networks."""
    return _catalogue("network", plugin_files())


def predictors() -> "Catalogue[Predictor[Any]]":
    """Return the catalogue of predictors."""
    return _catalogue("predictor", plugin_files())


@cache
def _catalogue(kind: str, plugins: tuple[Path, ...]) -> Catalogue[Any]:
    from augbench.bench.contract.method import Method
    from augbench.bench.data.dataset import DatasetSource
    from augbench.bench.networks.base import NetworkSource
    from augbench.bench.predictors.base import Predictor

    bases: dict[str, tuple[type[Any], str, str]] = {
        "method": (Method, "augbench.methods", "augbench.methods"),
        "data set": (DatasetSource, "augbench.datasets", "augbench.datasets"),
        "network": (NetworkSource, "augbench.bench.networks", "augbench.networks"),
        "predictor": (Predictor, "augbench.bench.predictors", "augbench.predictors"),
    }
    return build_catalogue(kind, *bases[kind], plugins)


def dataset_and_options(name: str, settings: Mapping[str, Any]) -> "tuple[DatasetSource, DatasetOptions]":
    """Make the source of a data set, and its options from validated settings."""
    target = datasets().get(name)
    return target(), target.options_type.model_validate(settings)


def _known_network(name: str) -> str:
    return networks().get(name).name


NetworkName = Annotated[str, AfterValidator(_known_network)]
"""Type of a hyperparameter that names a registered network."""
