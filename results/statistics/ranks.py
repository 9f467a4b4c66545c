"""Average ranks over data sets, and which of them differ by more than chance (Demšar, 2006).

Demšar, Statistical comparisons of classifiers over multiple data sets, Journal of Machine Learning Research 7.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from augbench.results.statistics.paired import DECIMALS

LEAST_METHODS, LEAST_DATASETS = 3, 2
"""How many it takes for a test over ranks: two methods would be compared by a sign test."""

FEW_DATASETS = 10
"""With this many or fewer the distribution of the test statistic is rough (Demšar, section 3.2.2)."""


@dataclass(frozen=True)
class Ranks:
    """Ranks of methods over data sets, 1 for the best.

    Attributes:
        average: Average rank of each method, best first.
        datasets: Number of data sets, each of which counts once.
        left_out: Methods without a value on some data set, with the data sets that they lack.
        p_value: Of Friedman's test that all methods are the same; None with fewer than three methods or two data sets.
        critical_difference: By how much two average ranks must at least differ for Nemenyi's test; None as above.
        cliques: Groups of at least two methods, best first, that nothing tells apart; a method may be in several.
        level: Significance level of both tests.
    """

    average: dict[str, float]
    datasets: int
    left_out: dict[str, tuple[str, ...]]
    p_value: float | None
    critical_difference: float | None
    cliques: tuple[tuple[str, ...], ...]
    level: float


def rank_methods(values: pd.DataFrame, *, higher_is_better: bool = True, level: float = 0.05) -> Ranks:
    """Rank methods on each data set, average their ranks, and test these averages.

    Data sets are taken for an independent sample of those that one might care about; seeds enter only through the mean
    that stands for a data set. Null hypothesis of both tests: on a data set every order of the methods is equally
    likely. Friedman's test asks whether any method stands out. If it rejects, Nemenyi's test compares all pairs at
    once. Tied methods share the average of their ranks.

    Args:
        values: Columns `dataset`, `label` and `value`, such as the mean over seeds; one row for each pair. A method
            that lacks a data set, or has NaN there, is left out on all of them: an average rank over other data sets
            cannot be compared.
        higher_is_better: Whether the largest value has rank 1, as for accuracies.
        level: Significance level.

    Raises:
        ValueError: If a method has two values on one data set.
    """
    if values.duplicated(["dataset", "label"]).any():
        raise ValueError("A method has several values for one data set.")
    labels, datasets = list(dict.fromkeys(values["label"])), list(dict.fromkeys(values["dataset"]))
    wide = values.pivot(index="dataset", columns="label", values="value").astype(float).loc[datasets, labels]
    lacking = {str(label): tuple(map(str, wide.index[wide[label].isna()])) for label in labels}
    left_out = {label: missing for label, missing in lacking.items() if missing}
    ranked = (wide if not higher_is_better else -wide).drop(columns=list(left_out)).round(DECIMALS)
    average = ranked.rank(axis="columns", method="average").mean().sort_values(kind="stable")
    averages = {str(label): float(rank) for label, rank in average.items()}
    if len(averages) < LEAST_METHODS or len(datasets) < LEAST_DATASETS:
        return Ranks(averages, len(datasets), left_out, None, None, (), level)
    p_value = friedman_p_value(ranked.to_numpy())
    difference = critical_difference(len(averages), len(datasets), level)
    found = cliques(averages, difference if p_value <= level else np.inf)
    return Ranks(averages, len(datasets), left_out, p_value, difference, found, level)


def friedman_p_value(values: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> float:
    """Test whether all methods are the same, by Friedman's chi-squared with correction for ties (scipy).

    Args:
        values: (data sets, methods), at least three methods.

    Returns:
        The p-value; 1 where all methods are tied on every data set.
    """
    from scipy import stats  # here, since it takes most of a second and few tables need it

    if (values == values[:, :1]).all():
        return 1.0
    return float(stats.friedmanchisquare(*values.T).pvalue)


@cache  # the quantile takes 20 ms
def critical_difference(methods: int, datasets: int, level: float = 0.05) -> float:
    """Least difference of two average ranks that is significant in Nemenyi's test for all pairs.

    q √(k (k + 1) / (6 N)), where q is the quantile of the studentised range of k normal numbers, divided by √2
    (Demšar, 2006, section 3.2.2).

    Args:
        methods: k, at least 2.
        datasets: N, at least 1.
        level: Significance level.
    """
    from scipy import stats

    quantile = stats.studentized_range.ppf(1 - level, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * datasets)))


def cliques(average: dict[str, float], difference: float) -> tuple[tuple[str, ...], ...]:
    """Find the largest groups of methods whose average ranks all lie within less than the critical difference.

    Args:
        average: Average ranks, best first.
        difference: The critical difference.

    Returns:
        Groups of at least two, none inside another one, best first.
    """
    labels, found = list(average), []
    reached = 0
    for start, label in enumerate(labels):
        inside = [other for other in labels[start:] if average[other] - average[label] < difference]
        if len(inside) > 1 and start + len(inside) > reached:
            found.append(tuple(inside))
            reached = start + len(inside)
    return tuple(found)
