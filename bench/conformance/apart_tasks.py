"""What strangers' code is asked for in a process of its own; see `apart.py`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from augbench.bench.conformance.apart import Task
from augbench.bench.data.dataset_checks import load_checked
from augbench.bench.experiment.catalogues import dataset_and_options, methods, networks, predictors
from augbench.bench.experiment.spec import validated
from augbench.bench.registry.plugins import explaining


def _check_method(order: Mapping[str, Any], begin: Callable[[str], None]) -> Mapping[str, Any]:
    from augbench.bench.conformance import check_method

    return check_method(methods().get(order["name"]), order["settings"], order["device"], begin).as_json()


def _check_dataset(order: Mapping[str, Any], begin: Callable[[str], None]) -> Mapping[str, Any]:
    from augbench.bench.conformance.datasets import check_dataset

    source, options = dataset_and_options(order["name"], order["settings"])
    return check_dataset(source, options, Path(order["data"]), begin).as_json()


def _check_network(order: Mapping[str, Any], begin: Callable[[str], None]) -> Mapping[str, Any]:
    from augbench.bench.conformance.networks import check_network

    return check_network(networks().get(order["name"])(), order["size"], begin).as_json()


def _check_predictor(order: Mapping[str, Any], begin: Callable[[str], None]) -> Mapping[str, Any]:
    from augbench.bench.conformance.predictors import Converted, check_predictor

    kind, where = predictors().get(order["name"]), "`augbench check predictor`"
    settings = validated(kind.settings_type, order["settings"], f"{order['name']!r} in {where}")
    source = Converted(kind, settings, networks().get(order["network"])(), order["size"])
    return check_predictor(source, begin).as_json()


def _load_dataset(order: Mapping[str, Any], begin: Callable[[str], None]) -> Mapping[str, Any]:
    """Load a data set once and look at it, as every run will."""
    source, options = dataset_and_options(order["name"], order["settings"])
    way_on = "Correct its `load`, then give the same command again; nothing was started."
    with explaining(f"The data set {order['label']!r} cannot be loaded", way_on):
        source.check(options, Path(order["data"]))
        load_checked(source, options, Path(order["data"]))
    return {}


TASKS: Mapping[str, Task] = {
    "check method": _check_method,
    "check dataset": _check_dataset,
    "check network": _check_network,
    "check predictor": _check_predictor,
    "load dataset": _load_dataset,
}
