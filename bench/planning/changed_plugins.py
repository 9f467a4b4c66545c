"""Plug-in files that have changed since runs were made with them: their identity does not show it, so it is said."""

from collections.abc import Iterable, Iterator
from typing import Any

from augbench.bench.common.files import read_json
from augbench.bench.experiment.catalogues import datasets, methods, networks
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.registry.plugins import Plugin, plugin_of
from augbench.bench.runs.run_folder import RunFolder, RunState

NOT_CONTINUED = (RunState.DONE, RunState.FAILED, RunState.RUNNING, RunState.UNKNOWN)


def changed_plugins(runs: Iterable[PlannedRun]) -> list[str]:
    """Say which plug-in files have changed since which runs were made or begun, a sentence for each.

    Args:
        runs: Runs of a plan; those count whose method, data set or network stands in a plug-in.
    """
    made: dict[str, list[str]] = {}
    begun: dict[str, list[str]] = {}
    for run in runs:
        half_done = run.state not in NOT_CONTINUED and run.folder.checkpoint.exists()
        if run.state is not RunState.DONE and not half_done:
            continue
        for plugin in _plugins_of(run.spec):
            if _has_changed(plugin, run.folder):
                (begun if half_done else made).setdefault(plugin.path.name, []).append(run.folder.path.name)
    return [*map(_of_made_ones, made.items()), *map(_of_begun_ones, begun.items())]


def _plugins_of(spec: RunSpec) -> Iterator[Plugin]:
    targets: set[type[Any]] = {
        methods().get(spec.method.name),
        datasets().get(spec.dataset.name),
        networks().get(spec.network.name),
    }
    base = spec.dataset.all_settings.get("base")  # the data set beneath `planted`
    if isinstance(base, str) and base in datasets().entries:
        targets.add(datasets().get(base))
    return iter({plugin.path: plugin for plugin in map(plugin_of, targets) if plugin is not None}.values())


def _has_changed(plugin: Plugin, folder: RunFolder) -> bool:
    """Whether the last attempt at a run was made with other content; false where nothing is recorded."""
    try:
        recorded = read_json(folder.path / "environment.json")["attempts"][-1]["plugins"]
        return plugin.sha256 not in [one["sha256"] for one in recorded]
    except (ValueError, KeyError, IndexError, TypeError):
        return False


def _of_made_ones(changed: tuple[str, list[str]]) -> str:
    file, names = changed
    return (
        f"{file} has changed since {_counted(names)} made; raise `version` in it to have such runs computed anew: "
        "finished runs are never computed again."
    )


def _of_begun_ones(changed: tuple[str, list[str]]) -> str:
    file, names = changed
    return (
        f"{file} has changed since {_counted(names)} begun; raise `version` in it to have such runs start anew, else "
        "what is left of them is computed with the file as it is now."
    )


def _counted(names: list[str]) -> str:
    return f"run {names[0]} was" if len(names) == 1 else f"{len(names)} runs, such as {names[0]}, were"
