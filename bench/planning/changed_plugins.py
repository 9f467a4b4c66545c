"""Plug-in files that have changed since runs were made with them, which the identity of the runs does not show."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from augbench.bench.common.files import read_json
from augbench.bench.experiment.catalogues import datasets, methods, networks, predictors
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.registry.plugins import Plugin, plugin_of
from augbench.bench.runs.run_folder import RunFolder, RunState

NOT_CONTINUED = (RunState.DONE, RunState.FAILED, RunState.RUNNING, RunState.UNKNOWN)
FINISHED = "made; raise `version` in it to compute such runs again; else finished runs are kept."
STARTED = "begun; raise `version` in it to start such runs over, or they resume with the new content."


def changed_plugins(runs: Iterable[PlannedRun]) -> list[str]:
    """Say which plug-in files have changed since which runs were finished or started, in one sentence each.

    Args:
        runs: Runs of a plan; those without a method, data set or network from a plug-in are ignored.
    """
    changed: dict[tuple[str, str], list[str]] = defaultdict(list)
    for run in runs:
        half_done = run.state not in NOT_CONTINUED and run.folder.checkpoint.exists()
        if run.state is RunState.DONE or half_done:
            for plugin in _plugins_of(run.spec):
                if _has_changed(plugin, run.folder):
                    changed[STARTED if half_done else FINISHED, plugin.path.name].append(run.folder.path.name)
    return [f"{file} has changed since {_counted(names)} {advice}" for (advice, file), names in sorted(changed.items())]


def _plugins_of(spec: RunSpec) -> Iterator[Plugin]:
    targets: set[type[Any]] = {
        methods().get(spec.method.name),
        datasets().get(spec.dataset.name),
        networks().get(spec.network.name),
    }
    if spec.predictor is not None:
        targets.add(predictors().get(spec.predictor.name))
    base = spec.dataset.all_settings.get("base")  # the data set beneath `planted`
    if isinstance(base, str) and base in datasets().entries:
        targets.add(datasets().get(base))
    return iter({plugin.path: plugin for plugin in map(plugin_of, targets) if plugin is not None}.values())


def _has_changed(plugin: Plugin, folder: RunFolder) -> bool:
    """Whether the last attempt at a run used another version of the file; false if nothing is recorded."""
    try:
        recorded = read_json(folder.path / "environment.json")["attempts"][-1]["plugins"]
        return plugin.sha256 not in [one["sha256"] for one in recorded]
    except (ValueError, KeyError, IndexError, TypeError):
        return False


def _counted(names: list[str]) -> str:
    return f"run {names[0]} was" if len(names) == 1 else f"{len(names)} runs, such as {names[0]}, were"
