"""How many epochs and seeds of a comparison fit into some minutes, from measured seconds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.spec import RunSpec

LEAST_SEEDS, MOST_SEEDS = 5, 20
MOST_EPOCHS = 100
"""More minutes than these epochs take become more seeds, which tell learners apart; longer training hardly does."""

SHARE_PLANNED = 0.85
"""Of the time: runs beside one another slow each other down, and their number seldom divides by that of the workers."""

SECONDS_OF_A_RUN = 1.0
"""What a run costs beside its clocks: reading, writing, drawing examples."""

SECONDS_AROUND = 30.0
"""Importing torch in every worker before the runs, and tables, figure and report after them."""


@dataclass(frozen=True)
class LearnerCost:
    """What runs of one learner cost on one worker.

    Attributes:
        copies: Copies of each image that it sees in a batch.
        seconds_of_a_pass: Seconds of training for each pass of all training images, a copy counted as an image.
        fixed_seconds: Seconds of everything else in a run.
    """

    copies: int
    seconds_of_a_pass: float
    fixed_seconds: float

    @classmethod
    def estimated(cls, spec: RunSpec, phases: Mapping[str, float]) -> "LearnerCost":
        """Read it off the estimated seconds of each phase of a run."""
        seconds, budget = dict(phases), spec.budget
        copies = int(str(spec.method.all_settings.get("copies", budget.baseline_copies)))
        passes = copies * budget.epochs_with(copies)
        return cls(copies, seconds.pop("training") / passes, sum(seconds.values()) + SECONDS_OF_A_RUN)

    def seconds(self, budget: Budget) -> float:
        """Seconds of a run with a budget."""
        return self.fixed_seconds + self.copies * budget.epochs_with(self.copies) * self.seconds_of_a_pass


@dataclass(frozen=True)
class ShortBudget:
    """What fits.

    Attributes:
        epochs: Epochs of the budget.
        seeds: Number of seeds.
    """

    epochs: int
    seeds: int


def wall_seconds(costs: Sequence[LearnerCost], budget: Budget, seeds: int, workers: int) -> float:
    """Bound the time of all runs on some workers, none of which waits while a run is left (Graham, 1969)."""
    each = [cost.seconds(budget) for cost in costs]
    return seeds * sum(each) / workers + (1 - 1 / workers) * max(each)


def fitting(costs: Sequence[LearnerCost], budget: Budget, seconds: float, workers: int) -> ShortBudget | None:
    """Find the most epochs that fit with `LEAST_SEEDS`, and with `MOST_EPOCHS` the most seeds.

    Args:
        costs: Of each learner.
        budget: Everything about the budget but its epochs.
        seconds: Time for everything that is still to be done.
        workers: Runs at the same time.

    Returns:
        Epochs and seeds; None where not even one epoch of each learner fits.
    """

    def fits(epochs: int, seeds: int) -> bool:
        taken = wall_seconds(costs, budget.model_copy(update={"epochs": epochs}), seeds, workers)
        return taken <= SHARE_PLANNED * (seconds - SECONDS_AROUND)

    epochs = max(
        (number for number in range(_fewest(costs, budget), MOST_EPOCHS + 1) if fits(number, LEAST_SEEDS)), default=None
    )
    if epochs is None:
        return None
    seeds = (
        LEAST_SEEDS if epochs < MOST_EPOCHS else max(n for n in range(LEAST_SEEDS, MOST_SEEDS + 1) if fits(epochs, n))
    )
    return ShortBudget(epochs, seeds)


def least_minutes(costs: Sequence[LearnerCost], budget: Budget, spent: float, workers: int) -> int:
    """Whole minutes into which one epoch of each learner fits, if so many seconds are spent before the runs."""
    shortest = budget.model_copy(update={"epochs": _fewest(costs, budget)})
    runs = wall_seconds(costs, shortest, LEAST_SEEDS, workers)
    return math.ceil((spent + SECONDS_AROUND + runs / SHARE_PLANNED) / 60)


def _fewest(costs: Sequence[LearnerCost], budget: Budget) -> int:
    """Epochs of the budget with which every learner has one, and those of equal passes are equal."""
    return max(cost.copies for cost in costs) if budget.equal == "passes" else 1
