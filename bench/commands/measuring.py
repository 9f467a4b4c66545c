"""Timing training steps of runs of unknown cost, for `augbench plan --calibrate`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from augbench.bench.commands.plain import new_console, tell_notes
from augbench.bench.commands.screen import progress_bars
from augbench.bench.common.errors import UserError
from augbench.bench.common.user_code import USER_CODE_ERRORS, format_exception
from augbench.bench.launching.launch import check_data_and_networks
from augbench.bench.planning.calibration import add_measurement, measure
from augbench.bench.planning.estimates import Group
from augbench.bench.planning.profile import Profile
from augbench.bench.registry.plugins import plugin_files
from augbench.bench.training.process_memory import keep_freed_memory
from augbench.bench.training.worker import load_dataset


def measure_unknown(groups: Iterable[Group], profile: Profile, device: torch.device, data: Path, out: Path) -> None:
    """Measure the cost of a run of each group whose cost is unknown; a bar shows how many groups are left."""
    unknown = [group for group in groups if group.estimate is None]
    check_data_and_networks([group.spec for group in unknown], data)
    threads = torch.get_num_threads()
    keep_freed_memory()  # as runs do
    loaded: tuple[Any, Any] = (None, None)
    with progress_bars(new_console(errors=True)) as progress:
        task = progress.add_task("measuring", total=len(unknown))
        for group in sorted(unknown, key=lambda group: group.spec.dataset.label):
            spec = group.spec
            progress.update(task, description=f"{spec.method.name} on {spec.dataset.called}")
            if loaded[0] != spec.dataset:
                loaded = (spec.dataset, load_dataset(spec.dataset, data))
            torch.set_num_threads(profile.resources_for(spec.method.name).threads)
            try:
                add_measurement(out, measure(spec, loaded[1], device))
            except UserError:
                raise
            except USER_CODE_ERRORS as error:  # of a method that is perhaps the user's own: its cost stays unknown
                reason = format_exception(error, *plugin_files())
                tell_notes([f"{spec.learner_label} on {spec.dataset.label} could not be measured: {reason}."])
            progress.advance(task)
    torch.set_num_threads(threads)
