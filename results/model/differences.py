"""Difference of each method of a comparison from a reference, paired by seed and image, with its uncertainty."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from augbench.results.model.cells import asked_seeds, by_comparison, is_single_epoch, scores_of
from augbench.results.model.frame import Runs
from augbench.results.model.table import with_draws
from augbench.results.statistics.bootstrap import Floats, Interval, Weights, mean_intervals
from augbench.results.statistics.improvement import Improvement, probability_of_improvement
from augbench.results.statistics.moderated import LEAST_METHODS, LEAST_SEEDS, LEVEL
from augbench.results.statistics.paired import PairTest, best_methods, by_seed, compare_family, paired_differences

PREFERRED_REFERENCE = "none"

MISMATCH = 1e-6  # between the accuracy of predictions and the recorded one; both are shares of the same images


@dataclass(frozen=True)
class Difference:
    """One method, with so many test-time draws, against the reference of its comparison, which has none.

    Attributes:
        seeds: Seeds that both have with an accuracy.
        asked: Seeds for which runs exist.
        estimate: Mean difference of accuracy over these seeds, a fraction; None without a common seed.
        interval: The same with its interval over seeds and images; None if it could not be computed.
        p_value: Of the t-test over seeds; None if nothing can be tested.
        p_adjusted: The same with Holm's correction for all differences of the comparison with as many draws or, if the
            numbers choose the reference or the test is moderated, for those of all pairs.
        improvement: Probability of improvement; None without a common seed.
        problems: Why something could not be computed.
    """

    comparison: str
    label: str
    draws: int
    reference: str
    seeds: int
    asked: int
    estimate: float | None
    interval: Interval | None
    p_value: float | None
    p_adjusted: float | None
    improvement: Improvement | None
    problems: tuple[str, ...]

    @property
    def significant(self) -> bool:
        """Whether the test shows a difference, with all requested seeds."""
        return self.p_adjusted is not None and self.p_adjusted <= LEVEL and self.seeds >= self.asked


def comparable(runs: Runs) -> Iterator[tuple[Runs, pd.DataFrame]]:
    """Finished runs of each comparison with several methods and more than one epoch."""
    for here, group in by_comparison(runs, runs.finished()):
        if group["label"].nunique() > 1 and not is_single_epoch(group):
            yield here, group


def differences_of(runs: Runs, group: pd.DataFrame, given: str | None) -> list[Difference]:
    """Compare the methods of a comparison once, since a table and sentences are made of the same."""
    return runs.once(("differences", given), lambda: find_differences(runs, group, given))


def find_differences(runs: Runs, group: pd.DataFrame, given: str | None = None) -> list[Difference]:
    """Compare each method of a comparison with its reference.

    Args:
        runs: All runs.
        group: Finished runs of one comparison, of at least two methods.
        given: Label of the reference, chosen whatever the numbers are.

    Returns:
        A difference for each method without draws but the reference, and one for each method with test-time draws, for
        the largest number of them; none if no method can be the reference.
    """
    most = int(runs.scores.loc[runs.scores["folder"].isin(group["folder"]), "draws"].max())
    by_draws = {draws: scores_of(runs, group, "accuracy", draws) for draws in (0, most)}
    reference = given or _reference(group, by_draws[0])
    if reference is None:
        return []
    entries = [
        (str(label), draws)
        for label in dict.fromkeys(group["label"])
        for draws, accuracies in by_draws.items()
        if (accuracies["label"] == label).any() and (label, draws) != (reference, 0)
    ]
    named = pd.concat(frame.assign(label=frame["label"] + with_draws(draws)) for draws, frame in by_draws.items())
    intervals = _intervals(runs, group, reference, entries)
    wide = by_seed(named)
    is_plain = bool(group.loc[group["label"] == reference, "method"].iloc[0] == PREFERRED_REFERENCE)
    is_given = given is not None or is_plain
    tests: dict[str, PairTest] = {}
    for draws in by_draws:  # a family for each, as in the table of comparisons
        names = [label + with_draws(draws) for label, of_entry in entries if of_entry == draws]
        tests |= _tests(wide[[reference, *names]], methods=group["label"].nunique(), is_given=is_given)
    return [
        _difference(wide, group, reference, entry, intervals.get(entry), tests[entry[0] + with_draws(entry[1])])
        for entry in entries
    ]


def _tests(wide: pd.DataFrame, *, methods: int, is_given: bool) -> dict[str, PairTest]:
    """Test each column against the first one, the reference.

    All pairs are one family if the numbers have chosen the reference, and for moderated tests: if the reference
    scatters more than the others, these hold their level over all pairs, but not over those with the reference.
    """
    reference, *names = map(str, wide.columns)
    rows = [(reference, name) for name in names]
    alone = is_given and methods < LEAST_METHODS
    tests = compare_family(wide, rows if alone else list(combinations(wide.columns, 2)), methods)
    return {name: tests[reference, name] for name in names}


def _reference(group: pd.DataFrame, accuracies: pd.DataFrame) -> str | None:
    """Choose the reference: no augmentation, else the best of the methods that have all seeds."""
    plain = group.loc[group["method"] == PREFERRED_REFERENCE, "label"]
    if len(plain):
        return str(plain.iloc[0])
    return best_methods(accuracies, higher_is_better=True, asked=asked_seeds(group)).best


def _difference(
    wide: pd.DataFrame,
    group: pd.DataFrame,
    reference: str,
    entry: tuple[str, int],
    interval: Interval | None,
    test: PairTest,
) -> Difference:
    label, draws = entry
    name = label + with_draws(draws)
    over_seeds = paired_differences(wide, name, reference)
    estimate = float(over_seeds.mean()) if len(over_seeds) else None
    problems = list(_problems(over_seeds, test.p_value, reference, interval))
    if interval is not None and (estimate is None or abs(interval.estimate - estimate) > MISMATCH):
        interval, problems = None, [*problems, "no interval where predictions and recorded accuracies do not agree"]
    return Difference(
        comparison=str(group["comparison"].iloc[0]),
        label=label,
        draws=draws,
        reference=reference,
        seeds=len(over_seeds),
        asked=asked_seeds(group),
        estimate=estimate,
        interval=interval,
        p_value=test.p_value,
        p_adjusted=test.p_adjusted,
        improvement=None if over_seeds.empty else _improvement(wide.loc[over_seeds.index], name, reference),
        problems=tuple(problems),
    )


def _problems(
    over_seeds: "pd.Series[float]", p_value: float | None, reference: str, interval: Interval | None
) -> Iterator[str]:
    """Tell why there is no interval or no test."""
    if len(over_seeds) == 0:
        yield f"no seed in common with {reference}"
    elif len(over_seeds) == 1:
        yield f"a single seed in common with {reference}"
    elif len(over_seeds) < LEAST_SEEDS:
        yield f"no test of fewer than {LEAST_SEEDS} seeds in common with {reference}"
    elif p_value is None:
        yield f"no test where the difference to {reference} is the same with every seed"
    if interval is None and len(over_seeds) > 1:
        yield "no interval without the predictions for each test image"


def _improvement(common: pd.DataFrame, name: str, reference: str) -> Improvement:
    """Probability of improvement over the seeds that both have, which are the rows."""
    return probability_of_improvement({"": common[name]}, {"": common[reference]})


def _intervals(
    runs: Runs, group: pd.DataFrame, reference: str, others: Sequence[tuple[str, int]]
) -> Mapping[tuple[str, int], Interval]:
    """Intervals over seeds and images of the methods with predictions, all with the same weights."""
    comparison = str(group["comparison"].iloc[0])
    theirs = runs.correct(comparison, reference, 0)
    known: dict[tuple[str, int], Floats] = {}
    for label, draws in others:
        ours = runs.correct(comparison, label, draws)
        common = ours.index.intersection(theirs.index)
        if len(common) and ours.shape[1] == theirs.shape[1]:
            values = ours.loc[common].to_numpy() - theirs.loc[common].to_numpy()
            known |= {(label, draws): values} if np.isfinite(values).all() else {}
    found = mean_intervals(list(known.values()), weights=Weights(max(1, theirs.shape[1])))
    return dict(zip(known, found, strict=True))
