"""Notes on the runs in a table: splits, versions, devices, what ± is, settings, what is missing."""

import re
from collections.abc import Sequence

import pandas as pd

from augbench.bench.common.wording import few_names, listed
from augbench.bench.runs.run_folder import RunState
from augbench.results.model.cells import is_single_epoch
from augbench.results.model.costs import tuning_notes
from augbench.results.model.definitions import numbers
from augbench.results.model.frame import Runs

MOST_NAMED = 6  # of the methods and data sets that a table lacks
SHORT = "(k/N): only k of the N requested seeds are finished; such a number is neither ranked nor bold."
CHECKSUM = re.compile("=#[0-9a-f]{8}")  # as `brief` writes a long setting


def run_notes(runs: Runs, finished: pd.DataFrame, *, alone: bool = True) -> tuple[str, ...]:
    """Write what a reader must know of these runs.

    Args:
        runs: All runs.
        finished: Those in the table.
        alone: Whether to describe the data sets, the settings, what is missing and what is mixed, too.
    """
    groups = [(str(name), group) for name, group in finished.groupby("comparison", sort=False)]
    counts = {int(asked) for asked in finished["asked"]}
    by_method = finished.groupby(["comparison", "dataset_label", "label"])
    short = bool((by_method["seed"].nunique() < by_method["asked"].max()).any())
    return (
        *_trials(groups),
        *(_descriptions(groups) if alone else []),
        *_deviation(counts),
        *([SHORT] if short else []),
        *_bases(runs, finished),
        *(_settings(finished) if alone else []),
        *tuning_notes(finished),
        *_checksums(finished),
        *([*_missing(runs), *runs.warnings()] if alone else []),
    )


def not_probed(finished: pd.DataFrame, chosen: pd.DataFrame) -> list[str]:
    """Name the methods and data sets of finished runs that are not among the chosen ones."""
    without = finished.loc[~finished["folder"].isin(chosen["folder"]), ["label", "comparison"]]
    named = [f"{label} on {comparison}" for label, comparison in _distinct(without)]
    return [f"Finished runs without such scores: {few_names(named, MOST_NAMED)}."] if named else []


def _trials(groups: Sequence[tuple[str, pd.DataFrame]]) -> list[str]:
    """Name the comparisons whose accuracies are no results."""
    names = [name for name, group in groups if is_single_epoch(group)]
    if not names:
        return []
    return [f"{listed(names)}: trained for one epoch, to see whether everything runs; accuracies mean nothing."]


def _deviation(counts: set[int]) -> list[str]:
    if max(counts) < 2:
        return ["n = 1 seed: how much results vary with the seed is unknown."]
    return [
        f"± is the standard deviation over seeds (n − 1 in the divisor), n = {numbers(counts)}; a seed decides the "
        "initialisation, the order of the images and all draws, never the split into training and test images."
    ]


def _bases(runs: Runs, finished: pd.DataFrame) -> list[str]:
    """Say what a base means for the rows, if there is one."""
    shown = set(finished["folder"])
    based = {record.spec.dataset.name for record in runs.records if record.name in shown and record.spec.budget.base}
    if not based:
        return []
    planted = " Recovery errors are those of the learner without the base." if "planted" in based else ""
    return [
        "With a base, all methods have its steps in training as well, and `none` has these alone; evaluation has none "
        f"of them.{planted}"
    ]


def _settings(finished: pd.DataFrame) -> list[str]:
    """Name the hyperparameters that differ from their defaults."""
    changed = finished.loc[finished["settings"] != "", ["label", "settings"]]
    described = [f"{label} with {settings}" for label, settings in _distinct(changed)]
    return [f"Not at their defaults: {'; '.join(described)}."] if described else []


def _checksums(finished: pd.DataFrame) -> list[str]:
    """Explain the checksums in place of long settings, if there are any."""
    names = pd.concat([finished[column] for column in ("comparison", "label", "settings")])
    if not names.str.contains(CHECKSUM).any():
        return []
    return ["#… is the start of the sha256 of a setting's content, which is too long to be shown."]


def _descriptions(groups: Sequence[tuple[str, pd.DataFrame]]) -> list[str]:
    """Describe each data set, those with the same description together."""
    names: dict[str, list[str]] = {}
    for name, group in groups:
        names.setdefault(_describe(group), []).append(name)
    return [f"{listed(alike)}: {description}." for description, alike in names.items()]


def _describe(group: pd.DataFrame) -> str:
    first = group.iloc[0]
    seeds = numbers(group["asked"])
    protocol = [f"protocol: {first['protocol']}"] if first["protocol"] else []
    parts = [
        f"data set version {numbers(group['dataset_version'])}",
        f"{int(first['train_images']):,} training images",
        f"evaluated on {int(first['test_images']):,} images (split: {first['split']})",
        f"network {first['network']}",
        str(first["budget"]),
        *protocol,
        f"n = {seeds} {'seed' if seeds == '1' else 'seeds'}",
        listed(sorted(set(group["device"]))),
    ]
    return ", ".join(parts)


def _missing(runs: Runs) -> list[str]:
    """Name the methods and data sets that lack runs."""
    waiting = runs.runs.loc[runs.runs["state"] != RunState.DONE.value, ["label", "comparison"]]
    named = [f"{label} on {comparison}" for label, comparison in _distinct(waiting)]
    return [f"Runs without a result so far: {few_names(named, MOST_NAMED)}."] if named else []


def _distinct(frame: pd.DataFrame) -> list[tuple[str, str]]:
    return [(str(first), str(second)) for first, second in frame.drop_duplicates().itertuples(index=False)]
