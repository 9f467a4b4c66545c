"""The catalogues of methods, data sets and networks."""

from functools import cache
from typing import Any

from augbench.bench.dataset import DatasetSource
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


@cache
def networks() -> Catalogue[NetworkSource]:
    """Catalogue of the networks."""
    return build_catalogue("network", NetworkSource, "augbench.bench.networks", "augbench.networks")  # type: ignore[type-abstract]
