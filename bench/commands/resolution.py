"""What `augbench plan` says of the differences that a suite can show: the smallest, and the seeds that others take."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from augbench.bench.commands.planned import hours_as_json, hours_text, hours_unit
from augbench.bench.common.wording import counted, few_names, two_digits
from augbench.bench.experiment.labels import comparison_key, label_runs
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.planning.estimates import Group, Hours, sum_of
from augbench.bench.planning.plan import Plan
from augbench.bench.planning.recorded_accuracy import Recorded, recorded_accuracies
from augbench.results.statistics.moderated import LEAST_SEEDS
from augbench.results.statistics.resolution import (
    MOST_SEEDS,
    POWER,
    Spread,
    seeds_needed,
    smallest_difference,
    spread_of,
)

GAPS = (1.0, 0.3, 0.1)
"""Differences of accuracy whose seeds are counted, in points."""

ASSUMED = Spread(0.5)
"""Without any runs. Measured were 0.4 to 1.2 points with 1,000 test images (`results/measured`); the published
deviations of single runs with 10,000 and more, about 0.1 points, mean about 0.15 (`results/published`)."""

LEAST_DEGREES = 4
"""Degrees of freedom that an estimate needs, as three learners with three seeds have; fewer may be far too small."""

OWN, OTHERS, ASSUMPTION = "finished runs", "other runs on the data set", "assumed"


@dataclass(frozen=True)
class Resolution:
    """The differences that one comparison of a plan can show.

    Attributes:
        comparison: Data set, and whichever of network and budget varies for it.
        learners: Learners with all seeds, which tests compare.
        seeds: Their seeds.
        spread: How much differences vary with the seed, in points; None where fewer than two learners have all seeds.
        source: What the spread was made from.
        count: Number of finished runs that it was made from.
        smallest: Smallest difference that is found, in points; None with fewer seeds than a test needs.
        needed: Seeds for each of `GAPS`; None for more than `MOST_SEEDS`.
        cost: Device hours of all runs with so many seeds, where the seeds are known.
    """

    comparison: str
    learners: int
    seeds: int
    spread: Spread | None = None
    source: str = ""
    count: int = 0
    smallest: float | None = None
    needed: Mapping[float, int | None] = field(default_factory=dict)
    cost: Mapping[float, Hours] = field(default_factory=dict)


def resolutions(planned: Plan, groups: Sequence[Group], out: Path) -> list[Resolution]:
    """Work out what each comparison of a plan can show, but for those that tables do not test.

    These are comparisons after a single epoch, which says nothing, and on validation images.

    Args:
        planned: The plan.
        groups: The same by configuration, with costs.
        out: Its output folder, whose finished runs say how much runs vary.
    """
    compared = list(_compared(planned, groups))
    recorded = recorded_accuracies(planned, out) if compared else {}
    return [_resolution(*each, recorded) for each in compared]


def _compared(planned: Plan, groups: Sequence[Group]) -> Iterator[tuple[str, int, list[Group]]]:
    """Find for each comparison its seeds, and the learners that have all of them."""
    seeds: dict[str, set[int]] = {}
    for run in planned.runs:
        seeds.setdefault(run.spec.configuration, set()).add(run.spec.seed)
    compared: dict[str, list[Group]] = {}
    for group, label in zip(groups, label_runs([group.spec for group in groups]), strict=True):
        if group.spec.budget.epochs > 1 and group.spec.protocol.evaluated_on == "test":
            compared.setdefault(label.comparison, []).append(group)
    for name, own in compared.items():
        others = (group for other, groups in compared.items() if other != name for group in groups)
        inside = [*own, *_counted_too(own, others)]
        asked = set[int]().union(*(seeds[group.spec.configuration] for group in inside))
        yield name, len(asked), [group for group in inside if seeds[group.spec.configuration] == asked]


def _counted_too(own: Sequence[Group], others: Iterable[Group]) -> list[Group]:
    """Find learners with one copy of each image that tables show in a comparison, though they run in another one."""
    names, place = {group.spec.learner_label for group in own}, comparison_key(own[0].spec, any_reading=True)
    return [
        group
        for group in others
        if group.spec.method.all_settings.get("copies", group.spec.budget.baseline_copies) == 1
        and group.spec.predictor is None
        and group.spec.learner_label not in names
        and comparison_key(group.spec, any_reading=True) == place
    ]


def _resolution(name: str, seeds: int, groups: Sequence[Group], recorded: Mapping[str, Recorded]) -> Resolution:
    learners = len(groups)
    if learners < 2:
        return Resolution(name, learners, seeds)
    spread, source, count = _spread(groups[0].spec, recorded)
    needed = {gap: seeds_needed(gap, spread, learners) for gap in GAPS}
    return Resolution(
        comparison=name,
        learners=learners,
        seeds=seeds,
        spread=spread,
        source=source,
        count=count,
        smallest=smallest_difference(spread, seeds, learners) if seeds >= LEAST_SEEDS else None,
        needed=needed,
        cost={gap: _cost(groups, count) for gap, count in needed.items() if count is not None},
    )


def _cost(groups: Sequence[Group], seeds: int) -> Hours:
    return sum_of(groups, lambda group: seeds)


def _spread(spec: RunSpec, recorded: Mapping[str, Recorded]) -> tuple[Spread, str, int]:
    """Find how much runs vary: from runs of the same comparison, else the largest other one, else an assumption."""
    own = recorded.get(comparison_key(spec))
    if own and (spread := _spread_of(own)):
        return spread, OWN, own.count
    alike = [one for one in recorded.values() if _same_images(one.spec, spec) and one.spec.budget.epochs > 1]
    for other in sorted(alike, key=lambda one: one.count, reverse=True):
        if spread := _spread_of(other):
            return spread, OTHERS, other.count
    return ASSUMED, ASSUMPTION, 0


def _same_images(one: RunSpec, other: RunSpec) -> bool:
    first, second = (
        (spec.dataset.name, spec.dataset.version, spec.dataset.checksum, spec.dataset.all_settings)
        for spec in (one, other)
    )
    return first == second and one.protocol.evaluated_on == other.protocol.evaluated_on


def _spread_of(recorded: Recorded) -> Spread | None:
    seeds = sorted({seed for by_seed in recorded.accuracies.values() for seed in by_seed})
    columns = [[by_seed.get(seed, np.nan) for seed in seeds] for by_seed in recorded.accuracies.values()]
    if len(seeds) < LEAST_SEEDS or recorded.count - len(columns) - len(seeds) + 1 < LEAST_DEGREES:
        return None
    return spread_of(100 * np.array(columns).T)


def resolution_lines(found: Sequence[Resolution], groups: Sequence[Group]) -> list[str]:
    """Say in sentences what each comparison can show; comparisons of which the same holds share one."""
    said: dict[str, list[str]] = {}
    for one in found:
        said.setdefault(_in_words(one, hours_unit(groups)), []).append(one.comparison)
    if not said:
        return []
    return [
        f"Differences of accuracy that tests find with {100 * POWER:.0f} % power, corrected for all pairs of learners:",
        *(f"{few_names(names)}: {words}" for words, names in said.items()),
        *_about_spread(found),
    ]


def _in_words(one: Resolution, unit: str) -> str:
    if one.spread is None:
        return "none, since fewer than two learners have every seed."
    now = f"{two_digits(one.smallest)} points or more" if one.smallest else f"none, since a test takes {LEAST_SEEDS}"
    first, *others = (_seeds_in_words(one, gap) for gap in GAPS)
    needed = ", ".join([f"{GAPS[0]} points: {first}", *map("{}: {}".format, GAPS[1:], others)])
    source = ASSUMPTION if one.source == ASSUMPTION else f"from {one.count} {one.source}"
    of_all = f" ({unit} of all runs)" if any(hours.runs for hours in one.cost.values()) else ""
    spread = f"Spread: {two_digits(one.spread.deviation)} points, {source}."
    who = f"{counted(one.learners, 'learner')} with {counted(one.seeds, 'seed')}"
    return f"{who}: {now}. Seeds{of_all} for {needed}. {spread}"


def _seeds_in_words(one: Resolution, gap: float) -> str:
    seeds, hours = one.needed[gap], one.cost.get(gap)
    words = f"over {MOST_SEEDS:,}" if seeds is None else str(seeds)
    if hours is None or not hours.runs:
        return words
    return f"{words} ({'≥ ' * bool(hours.unknown)}{hours_text(hours.known)})"


def _about_spread(found: Sequence[Resolution]) -> Iterator[str]:
    sources = {one.source for one in found if one.spread}
    if sources:
        assumed = (
            " Where it is assumed, all learners are taken to vary alike; where they do not, the power is lower: see "
            "docs/statistics.md."
        ) * (ASSUMPTION in sources)
        yield (
            "Spread: standard deviation over seeds of the difference of two learners. Twice the spread, twice the "
            f"difference.{assumed}"
        )


def resolutions_as_json(found: Sequence[Resolution]) -> list[dict[str, Any]]:
    """Return what comparisons can show for JSON, in points of accuracy."""
    return [
        {
            "comparison": one.comparison,
            "learners": one.learners,
            "seeds": one.seeds,
            "power": POWER,
            "spread": {**asdict(one.spread), "source": one.source, "runs": one.count} if one.spread else None,
            "smallest_difference": one.smallest,
            "seeds_needed": [
                {"difference": gap, "seeds": seeds, **({"cost": hours_as_json(one.cost[gap])} if seeds else {})}
                for gap, seeds in one.needed.items()
            ],
        }
        for one in found
    ]
