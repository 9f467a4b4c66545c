"""The catalogues of methods, data sets and networks."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import AfterValidator

from augbench.bench.dataset import DatasetOptions, DatasetSource
from augbench.bench.method import Method
from augbench.bench.network import NetworkSource
from augbench.bench.registry import Catalogue, build_catalogue


@cache
def methods() -> Catalogue[Method[Any]]:
    """Catalogue of the augmentation learners."""
    return build_catalogue("method", Method, "augbench.methods", "augbench.methods")


@cache
def datasets() -> Catalogue[DatasetSource]:
    """Catalogue of the data sets."""
    return build_catalogue("data set", DatasetSource, "augbench.datasets", "augbench.datasets")  # type: ignore[type-abstract]


def dataset_and_options(name: str, settings: Mapping[str, Any]) -> tuple[DatasetSource, DatasetOptions]:
    """Make what loads a data set, and its options from settings that were checked before."""
    target = datasets().get(name)
    return target(), target.options_type.model_validate(settings)


@cache
def networks() -> Catalogue[NetworkSource]:
    """Catalogue of the networks."""
    return build_catalogue("network", NetworkSource, "augbench.bench.networks", "augbench.networks")  # type: ignore[type-abstract]


def _known_network(name: str) -> str:
    return networks().get(name).name


NetworkName = Annotated[str, AfterValidator(_known_network)]
"""Type of a hyperparameter that names a registered network."""
