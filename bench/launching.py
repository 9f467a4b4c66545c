"""From a plan to finished runs: check what can be known before, then have a launcher place what is missing."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from augbench.bench.catalogues import dataset_and_options
from augbench.bench.launchers.launcher import Activity, Placement, launchers
from augbench.bench.plan import PlannedRun
from augbench.bench.prepared import NotPreparedError, PreparedSource
from augbench.bench.run_folder import BusyError, RunState, mark_output_folder
from augbench.bench.spec import Component


def launch(
    runs: Sequence[PlannedRun], out: Path, launcher: str, placement: Placement, poll: Callable[[Activity], None]
) -> None:
    """Have runs executed that have no result yet; those that failed start again from the beginning.

    Args:
        runs: What to run, from a plan.
        out: Output folder of the plan.
        launcher: Name of the launcher.
        placement: Where and how.
        poll: Called a few times a second with what is going on.

    Raises:
        UserError: If there is no such launcher, the folder cannot be used, or a data set is missing.
    """
    target = launchers().get(launcher)
    check_datasets([run.spec.dataset for run in runs], placement.data)
    mark_output_folder(out)
    for run in runs:
        run.folder.write_spec(run.spec)
        if run.state is RunState.FAILED:
            with suppress(BusyError):  # somebody else has started it again already
                run.folder.forget_failure()
    target().launch([run.folder for run in runs], placement, poll)


def check_datasets(components: list[Component], root: Path) -> None:
    """Make sure that every data set can be loaded.

    Raises:
        NotPreparedError: If some have to be prepared first; one paragraph for all of them.
        UserError: If one is damaged.
    """
    missing: list[PreparedSource] = []
    for component in {component.label: component for component in components}.values():
        source, options = dataset_and_options(component.name, component.all_settings)
        try:
            source.check(options, root)
        except NotPreparedError as error:
            missing += error.sources
    if missing:
        raise NotPreparedError(missing, root)


def reason_unfinished(run: PlannedRun) -> str:
    """Say in one sentence or two why a run has no result."""
    reason = run.folder.read_status().get("reason", "no reason was recorded.")
    return f"{run.folder.path.name} {run.state}: {reason} (Log: {run.folder.log})"
