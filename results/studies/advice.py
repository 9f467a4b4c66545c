"""Which learner to use on a data set, as far as tests carry it: decided from what became of each test image."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd

from augbench.bench.common.errors import UserError
from augbench.bench.common.wording import few_names
from augbench.results.model.frame import Runs
from augbench.results.statistics.bootstrap import Interval, Weights, mean_intervals
from augbench.results.statistics.moderated import LEAST_SEEDS, LEVEL
from augbench.results.statistics.paired import compare_family
from augbench.results.statistics.resolution import smallest_difference, spread_of

NOTHING, FLIP_AND_CROP = "none", "fixed"


@dataclass(frozen=True)
class Contrast:
    """The accuracy of one learner minus that of another one.

    Attributes:
        interval: Mean over seeds and test images, with a 95 % interval over both, for this pair alone.
        p_adjusted: Of the paired test over seeds, with Holm's correction for all pairs; None if it cannot be tested.
    """

    interval: Interval
    p_adjusted: float | None

    @property
    def shows_better(self) -> bool:
        """Whether the first is shown to be better, over other seeds and over other test images."""
        low = self.interval.low
        return self.p_adjusted is not None and self.p_adjusted <= LEVEL and low is not None and low > 0

    def reversed(self) -> "Contrast":
        """Return the second minus the first."""
        low, high = (None if end is None else -end for end in (self.interval.high, self.interval.low))
        return replace(self, interval=replace(self.interval, estimate=-self.interval.estimate, low=low, high=high))


@dataclass(frozen=True)
class Advice:
    """What the runs of a comparison advise.

    Attributes:
        recommended: The learner to use; None where no augmentation, or everything else, has no result.
        accuracies: Mean of each compared learner, with its interval, in the order of the learners.
        contrasts: Of each ordered pair of compared learners.
        seconds: Mean seconds of training of a run of each compared learner.
        seeds: Seeds that all compared learners have.
        images: Test images.
        left_out: Learners without all seeds, and how many they have.
        smallest: Difference of accuracy that the paired tests find with a probability of `POWER`; None without a test.
    """

    recommended: str | None
    accuracies: Mapping[str, Interval]
    contrasts: Mapping[tuple[str, str], Contrast]
    seconds: Mapping[str, float]
    seeds: int
    images: int
    left_out: Mapping[str, int]
    smallest: float | None = None

    @property
    def is_tested(self) -> bool:
        """Whether there are enough seeds for a test."""
        return self.seeds >= LEAST_SEEDS

    def shows_better(self, first: str, second: str) -> bool:
        """Whether one learner is shown to be better than another one; no learner is better than itself."""
        return first != second and self.contrasts[first, second].shows_better

    def open_against(self, label: str) -> list[str]:
        """List the compared learners that are not told apart from one."""
        others = (other for other in self.accuracies if other != label)
        return [one for one in others if not self.shows_better(label, one) and not self.shows_better(one, label)]


def advise(correct: Mapping[str, pd.DataFrame], seconds: Mapping[str, float], asked: int) -> Advice:
    """Decide which learner to recommend.

    A learner counts as better than another one if the paired test over seeds says so, with Holm's correction for all
    pairs, and if the interval over seeds and test images has no zero. Of the learners that are shown to be better than
    no augmentation, those stay that none of them is shown to beat; the one that trains fastest is recommended. If none
    is shown to be better, no augmentation is recommended, since it costs least.

    Args:
        correct: By learner, whether each test image was classified right: a row for each seed, a column for each image.
        seconds: By learner, mean seconds of training of a run.
        asked: Number of seeds that a learner must have to be compared.
    """
    compared = {label: frame for label, frame in correct.items() if len(frame) >= asked}
    left_out = {label: len(frame) for label, frame in correct.items() if label not in compared}
    if not compared:
        return Advice(None, {}, {}, {}, 0, 0, left_out)
    seeds = sorted(set.intersection(*(set(frame.index) for frame in compared.values())))
    compared = {label: frame.loc[seeds] for label, frame in compared.items()}
    images = next(iter(compared.values())).shape[1]
    weights = Weights(max(1, images))
    means = [
        _share(mean) for mean in mean_intervals([frame.to_numpy() for frame in compared.values()], weights=weights)
    ]
    of_compared = {label: seconds[label] for label in compared}
    advice = Advice(
        recommended=None,
        accuracies=dict(zip(compared, means, strict=True)),
        contrasts=_contrasts(compared, weights),
        seconds=of_compared,
        seeds=len(seeds),
        images=images,
        left_out=left_out,
        smallest=_smallest(compared, len(seeds)),
    )
    return replace(advice, recommended=_choice(advice))


def _share(interval: Interval) -> Interval:
    """Cut off the ends of an accuracy's interval that no accuracy can reach."""
    low, high = (None if end is None else min(max(end, 0.0), 1.0) for end in (interval.low, interval.high))
    return replace(interval, low=low, high=high)


def _contrasts(compared: Mapping[str, pd.DataFrame], weights: Weights) -> dict[tuple[str, str], Contrast]:
    pairs = list(combinations(compared, 2))
    wide = pd.DataFrame({label: frame.mean(axis=1) for label, frame in compared.items()})
    tests = compare_family(wide, pairs) if pairs else {}
    differences = [compared[first].to_numpy() - compared[second].to_numpy() for first, second in pairs]
    found: dict[tuple[str, str], Contrast] = {}
    for (first, second), interval in zip(pairs, mean_intervals(differences, weights=weights), strict=True):
        found[first, second] = Contrast(interval, tests[first, second].p_adjusted)
        found[second, first] = found[first, second].reversed()
    return found


def _smallest(compared: Mapping[str, pd.DataFrame], seeds: int) -> float | None:
    spread = spread_of(np.column_stack([frame.mean(axis=1) for frame in compared.values()]))
    if spread is None or seeds < LEAST_SEEDS:
        return None
    return smallest_difference(spread, seeds, len(compared), level=LEVEL)


def _choice(advice: Advice) -> str | None:
    if NOTHING not in advice.accuracies or len(advice.accuracies) < 2:
        return None
    better = [label for label in advice.accuracies if advice.shows_better(label, NOTHING)]
    unbeaten = [label for label in better if not any(advice.shows_better(other, label) for other in better)]
    return min(unbeaten, key=lambda label: advice.seconds[label], default=NOTHING)


def advice_of(runs: Runs, asked: int) -> Advice:
    """Decide from the runs of one comparison on one data set.

    Args:
        runs: They may lack finished ones.
        asked: Number of seeds that a learner must have.

    Raises:
        UserError: If there are runs of several comparisons.
    """
    frame = runs.runs
    comparison, *others = dict.fromkeys(frame["comparison"])
    if others:
        raise UserError(
            f"The folder of this recommendation has runs of other comparisons: {few_names(list(map(str, others)))}. A "
            "recommendation needs a folder of its own: choose a new one with --out."
        )
    correct = {str(label): runs.correct(str(comparison), str(label), 0) for label in dict.fromkeys(frame["label"])}
    seconds = frame.groupby("label")["seconds_training"].mean()
    return advise(correct, {str(label): float(value) for label, value in seconds.items()}, asked)
