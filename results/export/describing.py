"""The policy of a stored run: as it was recorded, as its method describes it, or as learned numbers give it back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from augbench.bench.augmentation.policy_description import PolicyDescription, read_description
from augbench.bench.common.errors import UserError
from augbench.bench.contract.method import Method, RunContext
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import RunSpec, method_component
from augbench.bench.runs.run_folder import RunState
from augbench.bench.training.trained import THEN, go_on, load_network
from augbench.methods.augerino import LearnedWidths
from augbench.methods.fast_aa import FastAutoAugment
from augbench.methods.scale import LearnedDistribution
from augbench.results.records.record import Record

ANY_SIDE = 28  # of images, in pixels; no description depends on it


def policy_of(record: Record, data_folder: Callable[[], Path]) -> PolicyDescription:
    """Find the policy of a run.

    Records of this version keep it. For those of earlier versions it is made of what decides it: nothing but the
    hyperparameters, learned numbers in the record, or the state of the method in the run's folder.

    Args:
        record: The run.
        data_folder: Says where prepared data sets are; asked only if the trained state has to be loaded.

    Raises:
        UserError: If the run is not finished, its method has no policy or describes none, or nothing is left of it.
    """
    place, spec = record.stored.place, record.spec
    if record.result is None or record.state is not RunState.DONE:
        way_on = go_on(record.stored.folder, record.state) if record.stored.folder else "Choose another run."
        raise UserError(f"The run {place} is {record.state}; only finished ones have a policy to export. {way_on}")
    if record.result.policy is not None:
        return _read(record.result.policy, place)
    kind = methods().get(spec.method.name)
    _check_has_policy(kind, spec.method.name)
    method = _fresh(kind, spec, place)
    if not method.learnable or (isinstance(method, FastAutoAugment) and method.hyperparameters.policy is not None):
        return _described(method, place)
    if isinstance(method, LearnedDistribution | LearnedWidths):
        return method.policy_of(record.result.learned)
    folder = record.stored.folder
    if folder is not None and folder.model.is_file():
        trained = load_network(folder, data_folder(), torch.device("cpu"))
        return _described(trained.method, place)
    raise UserError(
        f"{place} keeps neither a description of the policy, as runs of this version do, nor what {spec.method.name!r} "
        f"has learned, which is in model.pt of the run's folder. Give that folder, or run it again, {THEN}."
    )


def _read(content: object, place: str) -> PolicyDescription:
    try:
        return read_description(content)
    except UserError as error:
        raise UserError(f"The policy recorded by the run {place} cannot be read. {error}") from None


def _check_has_policy(kind: type[Method[Any]], name: str) -> None:
    """Refuse methods without a policy, and those that describe none."""
    if kind.describe_policy is not Method.describe_policy:
        return
    if kind.augment is Method.augment or name == "none":
        raise UserError(f"The method {name!r} trains on the images as they are: it has no policy to export.")
    raise UserError(
        f"The method {name!r} does not describe its policy. Implement its hook `describe_policy`, which returns an "
        "`AffinePolicy` or an `OperationPolicy` of augbench (docs/adding-a-method.md)."
    )


def _fresh(kind: type[Method[Any]], spec: RunSpec, place: str) -> Method[Any]:
    """Make the method as it is before training.

    Raises:
        UserError: If it is not registered here in this version, or refuses its hyperparameters.
    """
    component = method_component(spec.method.name, spec.method.all_settings, f"the run {place}")
    if component.version != spec.method.version:
        raise UserError(
            f"The run {place} was made with {spec.method.name!r} of version {spec.method.version}; this augbench has "
            f"version {component.version}. Use the augbench that made it, or run it again with this one."
        )
    context = RunContext(
        space=spec.protocol.space(ANY_SIDE),
        channels=3,
        classes=10,
        train_size=1000,
        epochs=spec.budget.epochs,
        baseline_copies=spec.budget.baseline_copies,
        device=torch.device("cpu"),
    )
    return kind(kind.hyperparameters_type.model_validate(component.all_settings), context)


def _described(method: Method[Any], place: str) -> PolicyDescription:
    found = method.describe_policy()
    if found is None:
        raise UserError(
            f"The method {method.name!r} describes no policy for the run {place}: its hook `describe_policy` returned "
            "None."
        )
    return found
