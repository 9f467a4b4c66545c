"""What the numbers in tables mean, in sentences."""

from collections.abc import Iterable, Sequence

import pandas as pd

from augbench.results.statistics.paired import LEAST_SEEDS
from augbench.results.tables.table import NOTHING
from augbench.results.wording import listed

LEVEL = 0.05
"""Significance level of what is bold together with the best."""

FEW_SEEDS = 5
"""With so many or fewer the test finds large differences only, so that bold is no praise."""


def best_definition(finished: pd.DataFrame) -> str:
    """Say what is bold, and what that is worth with so few seeds."""
    seeds = finished["asked"]
    sentences = [
        "Bold: the best mean (highest accuracy, lowest NLL, Brier score and ECE) among the methods with all seeds, and "
        "every method that is not significantly worse: paired t-test over seeds, corrected after Holm for all tests "
        f"against the best, level {LEVEL:g}, on these test images."
    ]
    if seeds.between(LEAST_SEEDS, FEW_SEEDS).any():
        sentences.append("With so few seeds much is bold because little is known, not because it is as good.")
    if seeds.min() < LEAST_SEEDS:
        sentences.append(f"Fewer than {LEAST_SEEDS} seeds are not tested: there the best mean alone is bold.")
    return " ".join(sentences)


def accuracy_definition(finished: pd.DataFrame, draws: Sequence[int]) -> str:
    """Define the accuracy without draws and with each of `draws`, which are above 0."""
    plain = "Accuracy: share of test images whose most probable class is right, after the last epoch."
    if not draws:
        return plain
    return (
        f"{plain} With {listed([str(one) for one in draws], 'or')} draw{'' if list(draws) == [1] else 's'}: class "
        "probabilities averaged over so many test-time draws from the method's policy, mean of "
        f"{numbers(finished['test_time_repeats'])} repeats; {NOTHING} for methods without a policy to draw from."
    )


def calibration_definition(finished: pd.DataFrame, *, equal_mass: bool = False) -> str:
    """Define NLL, Brier score and ECE, and the ECE of bins of equal mass where that is asked for."""
    bins = numbers(finished["calibration_bins"])
    mass = (
        f" ECE, equal mass: the same with {bins} bins that hold about equally many images; equal confidences share one."
        if equal_mass
        else ""
    )
    return (
        "NLL: mean negative log-likelihood, nats. Brier: mean squared distance to the one-hot label, 0 to 2. "
        f"ECE: expected calibration error of the top label, {bins} equal-width bins, mean absolute gap, 0 to 1.{mass}"
    )


def numbers(values: Iterable[int]) -> str:
    """List different numbers: "1" or "1 or 3"."""
    return " or ".join(str(value) for value in sorted({int(value) for value in values}))
