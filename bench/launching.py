"""From a plan to finished runs: check what can be known before, then have a launcher place what is missing."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from augbench.bench.catalogues import datasets
from augbench.bench.launchers.launcher import Activity, Placement, launchers
from augbench.bench.plan import Plan, PlannedRun, make_plan
from augbench.bench.run_folder import BusyError, RunState, mark_output_folder
from augbench.bench.spec import Component
from augbench.bench.suite import Suite


def launch(
    suite: Suite,
    out: Path,
    launcher: str,
    placement: Placement,
    poll: Callable[[Activity], None],
    *,
    retry_failed: bool = False,
) -> Plan:
    """Have every run of a suite executed that has no result yet.

    Args:
        suite: What to run.
        out: Output folder; runs go to `out/runs`.
        launcher: Name of the launcher.
        placement: Where and how.
        poll: Called a few times a second with what is going on.
        retry_failed: Whether runs that failed before start again from the beginning.

    Returns:
        The plan as it is afterwards.

    Raises:
        UserError: If the suite is wrong, the folder cannot be used, or a data set is missing.
    """
    target = launchers().get(launcher)
    plan = make_plan(suite, out)
    to_do = plan.to_do(retry_failed=retry_failed)
    if not to_do:
        return plan
    check_datasets([run.spec.dataset for run in to_do], placement.data)
    mark_output_folder(out)
    for run in to_do:
        run.folder.write_spec(run.spec)
        if run.state is RunState.FAILED:
            with suppress(BusyError):  # somebody else has started it again already
                run.folder.forget_failure()
    target().launch([run.folder for run in to_do], placement, poll)
    return make_plan(suite, out)


def check_datasets(components: list[Component], root: Path) -> None:
    """Make sure that every data set can be loaded.

    Raises:
        UserError: If a file is missing or damaged.
    """
    for component in {component.label: component for component in components}.values():
        source = datasets().get(component.name)
        source().check(source.options_type.model_validate(component.all_settings), root)


def reason_unfinished(run: PlannedRun) -> str:
    """Say in one sentence or two why a run has no result."""
    reason = run.folder.read_status().get("reason", "no reason was recorded.")
    return f"{run.folder.path.name} {run.state}: {reason} (Log: {run.folder.log})"
