"""Names of runs in tables and figures: runs that differ never share a name."""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from augbench.bench.common.wording import counted
from augbench.bench.data.own.settings import OWN
from augbench.bench.experiment.base import base_in_words
from augbench.bench.experiment.budgets import recipe_of
from augbench.bench.experiment.spec import TIMES, Component, RunSpec, canonical_json, settings_in_words, with_predictor

KNOWN_METHODS = (
    *("none", "fixed", "trivialaugment", "randaugment"),
    *("trivialaugment-wide", "randaugment-wide", "autoaugment", "fast-aa", "faster-aa"),
    *("dada", "augerino", "augerino+flips", "augerino-pb", "scale-norm", "scale"),
)
"""Order of methods in tables and legends, from no augmentation to the most learned; others come last."""

SAID = {"acceleration", "base", "equal", "copies_in_batch", "baseline_copies"}
"""Fields of a budget that its name mentions if they differ from the default."""

GIVEN = "policy"
"""Hyperparameter with a policy from the user: then nothing is searched for, and no search setting matters."""


@dataclass(frozen=True)
class RunLabels:
    """Names of one run.

    Attributes:
        label: Method, with the settings that vary, and predictor where it is not `single`.
        dataset: Data set with its options, as `Component.label`.
        network: Network.
        budget: Such as "24 epochs", or "24 epochs of passes" if image passes are equal. In brackets: the published
            recipe, or the base under every method; the copies of each image for baselines if not one, whether copies
            count in a batch, and what makes steps faster, since that changes rounding.
        protocol: Protocol settings that vary, else empty.
        comparison: What runs of one group of rows have in common: the data set, and whichever of network, budget and
            protocol varies for it.
    """

    label: str
    dataset: str
    network: str
    budget: str
    protocol: str
    comparison: str


def method_rank(method: str) -> int:
    """Return the position of a method, alone or with a predictor, in tables and legends; unknown names come last."""
    name = method.partition(TIMES)[0]
    return KNOWN_METHODS.index(name) if name in KNOWN_METHODS else len(KNOWN_METHODS)


def same_run_key(spec: RunSpec) -> str:
    """Return a text that two runs share if they are the same, whichever of their settings were defaults."""
    return canonical_json(_with_defaults(spec))


def comparison_key(spec: RunSpec, *, any_reading: bool = False) -> str:
    """Return a text that runs share if they differ in nothing but method, predictor and seed: tables compare them.

    With `any_reading`, also if they differ in how copies count: in `equal` and `copies_in_batch` of their budgets.
    """
    content = _with_defaults(spec)
    for name in ("equal", "copies_in_batch") if any_reading else ():
        del content["budget"][name]
    return canonical_json({key: value for key, value in content.items() if key not in ("method", "predictor", "seed")})


def _with_defaults(spec: RunSpec) -> dict[str, Any]:
    content = spec.model_dump(mode="json")
    for component in spec.components:
        content[component]["settings"] |= content[component].pop("defaults")
    return content


def differences(groups: Sequence[Hashable], details: Sequence[Mapping[str, object]]) -> list[str]:
    """Tell members of a group apart.

    Args:
        groups: The group of each member; (N,).
        details: Named details of each member; (N,).

    Returns:
        For each member the details that vary within its group, such as "copies=2, estimator=rloo"; empty without
        differences. If some members have a given policy and others none, the policy alone tells the two kinds apart;
        all details count within each kind.
    """
    kinds = [(group, detail.get(GIVEN) is not None) for group, detail in zip(groups, details, strict=True)]
    members: dict[tuple[Hashable, bool], list[Mapping[str, object]]] = defaultdict(list)
    for kind, detail in zip(kinds, details, strict=True):
        members[kind].append(detail)
    varying = {
        (group, given): sorted({*_varying_keys(inside), *([GIVEN] if (group, not given) in members else [])})
        for (group, given), inside in members.items()
    }
    return [
        settings_in_words({key: detail[key] for key in varying[kind] if key in detail})
        for kind, detail in zip(kinds, details, strict=True)
    ]


def _varying_keys(details: Sequence[Mapping[str, object]]) -> list[str]:
    absent = object()  # unlike None: the code of a run may be too old to know a detail
    keys = sorted({key for detail in details for key in detail})
    return [key for key in keys if any(detail.get(key, absent) != details[0].get(key, absent) for detail in details)]


def label_runs(specs: Sequence[RunSpec], tuned: Sequence[Collection[str] | None] | None = None) -> list[RunLabels]:
    """Name runs as briefly as possible while keeping them apart.

    Args:
        specs: All runs of one table; (N,).
        tuned: For each whose method was tuned, the hyperparameters whose values that chose, as far as they are known;
            (N,). The label says "tuned" in their place.

    Returns:
        The names, in the same order; (N,).
    """
    datasets = _named([spec.dataset.label for spec in specs], [_details(spec.dataset) for spec in specs])
    networks = _named([spec.network.label for spec in specs], [_details(spec.network) for spec in specs])
    places = list(zip(datasets, networks, strict=True))
    epochs = [_budget(spec) for spec in specs]
    budgets = _named(epochs, [spec.budget.model_dump(mode="json", exclude=SAID) for spec in specs], places)
    protocols = _protocols(specs)
    parts = list(zip(datasets, networks, budgets, protocols, strict=True))
    comparisons = [", ".join(part for part in kept if part) for kept in _varying_parts(parts)]
    labels = _method_names(specs, tuned or [None] * len(specs), parts)
    return [RunLabels(*names) for names in zip(labels, *zip(*parts, strict=True), comparisons, strict=True)]


def _method_names(
    specs: Sequence[RunSpec], tuned: Sequence[Collection[str] | None], places: Sequence[Hashable]
) -> list[str]:
    """Name methods; values that were tuned are named only where they alone tell two runs of a place apart."""
    predictors = _predictor_names(specs)
    groups = [
        (spec.method.name, names is None, predictor, place)
        for spec, names, predictor, place in zip(specs, tuned, predictors, places, strict=True)
    ]
    details = [_details(spec.method) for spec in specs]
    others = [
        {key: value for key, value in detail.items() if key not in (names or ())}
        for detail, names in zip(details, tuned, strict=True)
    ]
    alike = Counter((group, repr(sorted(other.items()))) for group, other in zip(groups, others, strict=True))
    clashing = {group for (group, _), count in alike.items() if count > 1}
    shown = [
        detail if group in clashing else other for group, detail, other in zip(groups, details, others, strict=True)
    ]
    inside = [
        ", ".join(filter(None, ("" if names is None else "tuned", text)))
        for names, text in zip(tuned, differences(groups, shown), strict=True)
    ]
    names = [
        f"{spec.method.name} ({text})" if text else spec.method.name for spec, text in zip(specs, inside, strict=True)
    ]
    return [with_predictor(*pair) for pair in zip(names, predictors, strict=True)]


def _predictor_names(specs: Sequence[RunSpec]) -> list[str | None]:
    """Name predictors; None for `single`."""
    given = [spec.predictor for spec in specs]
    details = [{} if one is None else _details(one) for one in given]
    names = _named(["" if one is None else one.label for one in given], details)
    return [None if one is None else name for one, name in zip(given, names, strict=True)]


def _protocols(specs: Sequence[RunSpec]) -> list[str]:
    """Name what varies in the protocol; runs on validation images, such as trials, are not told from others by more."""
    splits = [spec.protocol.evaluated_on for spec in specs]
    inside = differences(splits, [_protocol_details(spec) for spec in specs])
    if len(set(splits)) == 1:
        return inside
    kinds = ["validation images" if split == "validation" else "" for split in splits]
    return [", ".join(filter(None, parts)) for parts in zip(kinds, inside, strict=True)]


def _budget(spec: RunSpec) -> str:
    budget = spec.budget
    chosen = budget.acceleration.model_dump(mode="json", exclude_defaults=True)
    inside = [settings_in_words(chosen)] if chosen else []
    if budget.copies_in_batch:
        inside.insert(0, "copies in the batch")
    if budget.baseline_copies > 1:
        inside.insert(0, f"{budget.baseline_copies} copies for baselines")
    if recipe := recipe_of(budget, spec.dataset.name, spec.network.name):
        inside.insert(0, f"recipe {recipe}")
    elif budget.base:
        inside.insert(0, f"base: {base_in_words(budget.base)}")
    epochs = counted(budget.epochs, "epoch") + (" of passes" if budget.equal == "passes" else "")
    return f"{epochs} ({', '.join(inside)})" if inside else epochs


def _varying_parts(parts: Sequence[tuple[str, str, str, str]]) -> list[tuple[str, str, str, str]]:
    """Blank the network if its data set has only one, and the budget if both have only one."""
    networks: dict[str, set[str]] = defaultdict(set)
    budgets: dict[tuple[str, str], set[str]] = defaultdict(set)
    for dataset, network, budget, _ in parts:
        networks[dataset].add(network)
        budgets[dataset, network].add(budget)
    kept = []
    for dataset, network, budget, protocol in parts:
        shown = (network if len(networks[dataset]) > 1 else "", budget if len(budgets[dataset, network]) > 1 else "")
        kept.append((dataset, *shown, protocol))
    return kept


def _named(
    names: Sequence[str], details: Sequence[Mapping[str, object]], places: Sequence[Hashable] | None = None
) -> list[str]:
    """Append to each name what varies among those of the same name in the same place."""
    groups = list(zip(names, places or names, strict=True))
    inside = differences(groups, details)
    return [f"{name} ({text})" if text else name for name, text in zip(names, inside, strict=True)]


def _details(component: Component) -> dict[str, object]:
    # the first digits of a checksum tell two files apart, and fit into a table
    checksum = {"checksum": component.checksum.rpartition(":")[2][:8]} if component.checksum else {}
    settings = component.all_settings
    if component.name == OWN:
        settings.pop("prepared", None)  # the label has the name in it, and the checksum is told anyway
    return {**settings, **checksum, "version": component.version}


def _protocol_details(spec: RunSpec) -> dict[str, object]:
    return {**spec.protocol.model_dump(mode="json"), "protocol_version": spec.protocol_version}
