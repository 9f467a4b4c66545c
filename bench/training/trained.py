"""Finished runs: their trained network and learned augmentation, built again from the run folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from augbench.bench.common.errors import UserError, to_paste
from augbench.bench.common.files import read_torch
from augbench.bench.contract.method import Method
from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.spec import (
    Component,
    RunSpec,
    dataset_component,
    method_component,
    network_component,
    predictor_component,
)
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.trainer import Trainer, new_trainer
from augbench.bench.training.worker import load_dataset

THEN = "then repeat this command"
AGAIN = f"Move the folder away or delete it, run the suite again, {THEN}; the other runs are not affected."


@dataclass(frozen=True)
class TrainedNetwork:
    """A finished run, as `load_network` builds it again.

    `network(images / 255).argmax(1)` predicts the classes (N,) of uint8 images (N, C, H, W).

    Attributes:
        spec: What the run is.
        data: Its data set, on the device.
        network: Its trained network, in evaluation mode: from images (N, C, H, W) in [0, 1] to logits (N, classes).
        method: Its learner, with what it has learned.
    """

    spec: RunSpec
    data: ImageData
    network: nn.Module
    method: Method[Any]


def finished_spec(folder: RunFolder) -> RunSpec:
    """Read what a finished run is, and make sure that its network can be built again here.

    Raises:
        DamagedError: If the folder is damaged.
        UserError: If the run is not finished or has no network, if it is a trial of a tuning, or if its method, data
            set or network is not registered here or only in another version.
    """
    spec, state = folder.read_spec(), folder.state()
    if state is not RunState.DONE:
        raise UserError(
            f"The run in {folder.path} is {state}; only finished ones have a trained network. {go_on(folder, state)}"
        )
    if spec.protocol.evaluated_on != "test":
        raise UserError(
            f"The run in {folder.path} is a trial of a tuning, trained without the validation images. Run the suite "
            f"that `augbench tune` has written with the best values, {THEN} for one of its runs."
        )
    _check_versions(folder, spec)
    if not folder.model.is_file():
        raise UserError(f"{folder.model} is missing. {AGAIN}")
    return spec


def load_network(
    folder: RunFolder,
    data_root: Path,
    device: torch.device,
    load: Callable[[Component, Path], ImageData] = load_dataset,
) -> TrainedNetwork:
    """Build the network and the learner of a finished run and load what was trained.

    Args:
        folder: Folder of the run.
        data_root: Folder of downloaded data sets.
        device: Where everything is to live.
        load: Loads a data set of a specification, for callers that keep data sets from one run to the next.

    Raises:
        DamagedError: If the folder is damaged.
        UserError: As `finished_spec`; also if the data set or the trained network is missing, damaged or of another
            run.
    """
    spec = finished_spec(folder)
    trainer = new_trainer(spec, load(spec.dataset, data_root), device)
    load_trained_state(folder, trainer)
    return TrainedNetwork(spec, trainer.data, trainer.network.eval(), trainer.method)


def load_trained_state(folder: RunFolder, trainer: Trainer) -> None:
    """Load into a run at its beginning what its network and its learner have at its end.

    Raises:
        UserError: If `model.pt` is missing, damaged or of another run.
    """
    state = _read_model(folder, trainer.spec.identity)
    try:
        trainer.network.load_state_dict(state["network"])
        trainer.method.load_state_dict(state["method"])
    except (RuntimeError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"{folder.model} does not fit the run's network and method installed here ({type(error).__name__}). {AGAIN}"
        ) from None


def _read_model(folder: RunFolder, identity: str) -> dict[str, Any]:
    """Read `model.pt` into main memory."""
    try:
        state = read_torch(folder.model)
        if "identity" not in state:
            raise ValueError("it names no run")
    except ValueError as error:
        raise UserError(f"{folder.model} is damaged ({error}). {AGAIN}") from None
    if state["identity"] != identity:
        raise UserError(f"{folder.model} belongs to another run. {AGAIN}")
    return state


def _check_versions(folder: RunFolder, spec: RunSpec) -> None:
    """Make sure that what would be built here is what was trained."""
    where = f"the run in {folder.path}"
    try:
        here = [
            method_component(spec.method.name, spec.method.all_settings, where),
            dataset_component(spec.dataset.name, spec.dataset.all_settings, where),
            network_component(spec.network.name),
        ]
        if spec.predictor is not None:
            predictor = predictor_component(spec.predictor.name, spec.predictor.all_settings, where)
            here += [predictor] if predictor else []
    except UserError as error:  # of the registry or the settings
        raise UserError(f"The run in {folder.path} cannot be loaded. {error}") from None
    for then, now in zip(spec.components.values(), here, strict=True):
        if (then.version, then.checksum) != (now.version, now.checksum):
            raise UserError(
                f"The run in {folder.path} was made with {_with_version(then)}; this augbench has "
                f"{_with_version(now)}. Use the augbench that made it, or run the suite again with this one."
            )


def _with_version(component: Component) -> str:
    files = f" (files {component.checksum})" if component.checksum else ""
    return f"{component.name!r} of version {component.version}{files}"


def go_on(folder: RunFolder, state: RunState) -> str:
    """Say how an unfinished run comes to its end."""
    if state is RunState.RUNNING:
        return f"Wait until it is done, {THEN}."
    retry = ["--retry-failed"] * (state is RunState.FAILED)
    return f"Go on with `{to_paste('run', 'SUITE', '--out', folder.path.parent.parent, *retry)}`, {THEN}."
