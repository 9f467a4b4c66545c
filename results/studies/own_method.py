"""Somebody's own method beside runs of the same suite: what is comparable, and how it stands."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from augbench.bench.common.errors import UserError
from augbench.bench.common.wording import few_names
from augbench.bench.experiment.labels import comparison_key
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.planning.plan import changes
from augbench.results.model.frame import Runs, load_runs
from augbench.results.model.table import Table
from augbench.results.tables.differences import differences_table, standings

MOST_DIFFERENCES = 4


@dataclass(frozen=True)
class Standing:
    """How one method stands: a sentence for each comparison and on those that are left out, and its differences."""

    sentences: tuple[str, ...]
    table: Table


def stand(mine: Sequence[Path], ours: Sequence[Path], *, skip_damaged: bool = False) -> tuple[Standing, ...]:
    """Compare every method that only `mine` has with all others.

    Args:
        mine: Output folders, archives or parquet files with the runs of somebody's method.
        ours: The same, with what it is compared with.
        skip_damaged: Leave out damaged run folders.

    Raises:
        DamagedError: If a folder is damaged, unless `skip_damaged`.
        UserError: If a source cannot be read, no comparison is in both, with what differs, or no method is in `mine`
            alone.
    """
    runs = load_runs([*ours, *mine], skip_damaged=skip_damaged)  # a run in both is the one of `ours`
    others = other_comparisons(runs, mine, ours)
    found = list(_own(runs, {str(path) for path in ours}))
    if not found:
        raise UserError(
            f"{_named(mine)} has no finished method that {_named(ours)} lacks in the comparisons that both have: there "
            "is nothing to compare. `augbench tables` with --from for each shows everything in one table."
        )
    more = [f"Not compared, since {_named(ours)} has no such runs: {'; '.join(others)}."] * bool(others)
    return tuple(
        Standing((*standings(runs, references), *more), differences_table(runs, references)) for references in found
    )


def _own(runs: Runs, ours: set[str]) -> Iterator[dict[str, str]]:
    """By method that ours lack, its label in each comparison that it shares with them."""
    finished = runs.finished()
    shared = set(finished.loc[finished["source"].isin(ours), "comparison"])
    inside = finished[finished["comparison"].isin(shared)]
    known = set(map(tuple, inside.loc[inside["source"].isin(ours), ["comparison", "label"]].to_numpy()))
    own: dict[str, dict[str, str]] = {}
    for comparison, label in inside[["comparison", "label"]].drop_duplicates().to_numpy():
        if (comparison, label) not in known:
            own.setdefault(str(label), {})[str(comparison)] = str(label)
    yield from own.values()


def other_comparisons(runs: Runs, mine: Sequence[Path], ours: Sequence[Path]) -> list[str]:
    """Say of comparisons of `mine` that are none of `ours` what differs: data, network, budget or protocol.

    Raises:
        UserError: If none is one of `ours`, with the same.
    """
    sources = {str(path) for path in ours}
    known = {comparison_key(one.spec): one.spec for one in runs.records if one.stored.source in sources}
    asked = {comparison_key(one.spec): one.spec for one in runs.records if one.stored.source not in sources}
    others = [spec for key, spec in asked.items() if key not in known]
    differing = list(dict.fromkeys(_difference(spec, known.values()) for spec in others))
    if len(others) < len(asked) or not asked:
        return differing
    raise UserError(
        f"No comparison of {_named(mine)} is one of {_named(ours)}: {'; '.join(differing)}. Only runs "
        "of the same data, network, budget and protocol can be compared. Run your method in the same suite, such as "
        "a copy of it (`augbench list suites NAME`)."
    )


def _difference(spec: RunSpec, known: Iterable[RunSpec]) -> str:
    """Say what tells a comparison from the one on the same data set that is most alike."""
    found = [
        list(changes(json.loads(comparison_key(other)), json.loads(comparison_key(spec))))
        for other in known
        if other.dataset.name == spec.dataset.name
    ]
    if not found:
        return f"{spec.dataset.label} is in the first only"
    return f"on {spec.dataset.label}, {few_names(min(found, key=len), MOST_DIFFERENCES)}"


def _named(sources: Sequence[Path]) -> str:
    return " and ".join(map(str, sources))
