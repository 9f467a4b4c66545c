"""From a plan to finished runs: check what can be known before, then have a launcher place what is missing."""

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from augbench.bench.augmentation.corruptions.corrupt import check_shape
from augbench.bench.common.disk import room_on_disk_of
from augbench.bench.common.errors import UserError
from augbench.bench.common.files import owner_of
from augbench.bench.common.user_code import USER_CODE_ERRORS
from augbench.bench.conformance.apart import run_apart
from augbench.bench.data.dataset_checks import check_for_tuning, load_checked
from augbench.bench.data.prepared import NotPreparedError, PreparedSource
from augbench.bench.experiment.base import base_sizes
from augbench.bench.experiment.catalogues import dataset_and_options, datasets, networks
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.launchers.launcher import Activity, Launcher, LaunchRequest, launchers
from augbench.bench.networks.base import build_checked
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.registry.plugins import explaining
from augbench.bench.registry.registry import OURS
from augbench.bench.runs.claim import BusyError
from augbench.bench.runs.output_folder import check_output_folder, mark_output_folder
from augbench.bench.runs.run_folder import RunState
from augbench.bench.training.building import new_predictor

LEAST_FREE_BYTES = 200e6
FILES_OF_A_RUN = 15  # and folders
SECONDS_TO_LOAD = 1800.0  # a data set of strangers, before a launch


def prepare_launch(runs: Sequence[PlannedRun], request: LaunchRequest) -> Launcher:
    """Find mistakes before any run is placed.

    Args:
        runs: What is to be run, from a plan.
        request: Where and how.

    Returns:
        The launcher.

    Raises:
        UserError: If there is no such launcher, it cannot place the runs, the folder cannot be used, or a data set is
            missing.
    """
    launcher = launchers().get(request.profile.launcher)()
    check_data_and_networks([run.spec for run in runs], request.settings.data)
    _check_output(runs, request.out)
    launcher.check(runs, request)
    return launcher


def launch(
    runs: Sequence[PlannedRun], request: LaunchRequest, launcher: Launcher, poll: Callable[[Activity], None]
) -> None:
    """Have runs executed that have no result yet; those that failed start again from the beginning.

    Args:
        runs: What to run, from a plan.
        request: Where and how.
        launcher: The launcher, from `prepare_launch`.
        poll: Called a few times a second with what is going on.

    Raises:
        UserError: If nothing can be placed.
    """
    mark_output_folder(request.out)
    for run in runs:
        run.folder.write_spec(run.spec)
        run.folder.withdraw_cancel()
        with suppress(BusyError):  # somebody else has started it again already
            if request.from_scratch:
                run.folder.set_attempts_aside()
            elif run.state is RunState.FAILED:
                run.folder.set_failure_aside()
    launcher.launch(runs, request, poll)


def _check_output(runs: Sequence[PlannedRun], out: Path) -> None:
    """Make sure that the run folders can be written to."""
    check_output_folder(out)
    for run in runs:
        path = run.folder.path
        if path.exists() and not os.access(path, os.W_OK | os.X_OK):
            raise UserError(
                f"The run folder {path} belongs to {owner_of(path)} and cannot be written to by you. Choose another "
                "folder with --out, or have its owner make it writable for your group; nothing was started."
            )


def little_room(runs: Sequence[PlannedRun], out: Path) -> str:
    """Say that a disk looks too full for runs; empty if it does not, or does not say how full it is.

    This is only a warning: some file systems always report that nothing is left, and what a run has saved is kept.
    """
    room = room_on_disk_of(out)
    few = [f"{room.bytes / 1e6:.0f} MB"] if room.bytes is not None and room.bytes < LEAST_FREE_BYTES else []
    if room.files is not None and room.files < FILES_OF_A_RUN * len(runs):
        few.append(f"room for {room.files} files")
    if not few:
        return ""
    return (
        f"There is only {' and '.join(few)} left where {out} lies. A run writes up to a few hundred MB and about "
        f"{FILES_OF_A_RUN} files. Free some space, or choose a folder on another disk with --out."
    )


def check_data_and_networks(specs: Iterable[RunSpec], root: Path) -> None:
    """Make sure that every data set can be loaded and used, and that networks take its images.

    Raises:
        NotPreparedError: If some data sets have to be prepared first; one paragraph for all of them.
        UserError: If one is damaged or cannot be used, or a network or a budget's base cannot be used with it.
    """
    by_dataset: dict[tuple[str, str], dict[Hashable, RunSpec]] = {}
    for spec in specs:  # what is to be checked is the same for most of them
        known = by_dataset.setdefault((spec.dataset.label, spec.dataset.checksum), {})
        predictor, protocol = spec.predictor and spec.predictor.label, spec.protocol
        known[spec.network.name, predictor, protocol.evaluated_on, protocol.shift, spec.budget.base] = spec
    missing: list[PreparedSource] = []
    for different in by_dataset.values():
        try:
            _check_runs_on_one_dataset(list(different.values()), root)
        except NotPreparedError as error:
            missing += error.sources
    if missing:
        raise NotPreparedError(missing, root)


def _check_corruptible(label: str, channels: int, size: int) -> None:
    try:
        check_shape(channels, size, size)
    except UserError as error:
        raise UserError(
            f"{error} The suite's [protocol] has `shift`, and the data set {label!r} has such images: leave it out of "
            "the suite, or `shift`."
        ) from None


def _check_runs_on_one_dataset(specs: list[RunSpec], root: Path) -> None:
    component = specs[0].dataset
    source, options = dataset_and_options(component.name, component.all_settings)
    way_on = "Correct its `load`, then give the same command again; nothing was started."
    if datasets().entry(component.name).source != OURS:  # a plug-in's may end its process, or never return
        about = {"name": component.name, "label": component.label, "settings": dict(component.all_settings)}
        job = {"do": "load dataset", "data": str(root), **about}
        run_apart(f"Loading the data set {component.label!r}", job, SECONDS_TO_LOAD, lambda text: None)
    with explaining(f"The data set {component.label!r} cannot be loaded", way_on):
        source.check(options, root)
        # what is made from another data set may take a minute to make; it is checked where a run makes it
        data = load_checked(*(source.base(options) or (source, options)), root)
        size = source.image_size(options, data.image_size)
    if any(spec.protocol.evaluated_on == "validation" for spec in specs):
        check_for_tuning(component.name, data)
    if any(spec.protocol.probed_shift for spec in specs):
        _check_corruptible(component.label, data.channels, size)
    for base in {spec.budget.base for spec in specs}:
        base_sizes(base, size, component.label)
    for spec in {(spec.network.name, spec.predictor and spec.predictor.label): spec for spec in specs}.values():
        try:
            network = build_checked(networks().get(spec.network.name)(), data.channels, size, data.classes)
            new_predictor(spec, size, data).convert(network)
        except UserError:
            raise
        except USER_CODE_ERRORS:  # of a network that may need a GPU, which is perhaps not here: its run will say so
            continue
