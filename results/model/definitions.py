"""What the numbers in tables mean, in sentences."""

from collections.abc import Iterable, Sequence

import pandas as pd

from augbench.bench.common.wording import few_names, listed
from augbench.results.model.table import NOTHING
from augbench.results.statistics.moderated import LEAST_METHODS, LEAST_SEEDS, LEVEL

BOLD = (
    "Bold: methods with all seeds that no other one significantly beats (higher accuracy, lower NLL, Brier score or "
    "ECE). Tests: t-tests over paired seeds between all pairs of methods in the table, on these test images, with "
    f"Holm's correction, and moderated from {LEAST_METHODS} methods on: for each measure on each data set, equal "
    f"methods are found to differ in at most about {100 * LEVEL:g} % of cases, if differences are roughly normal. Few "
    "seeds show few differences, so bold does not mean as good as the best mean. A measure without bold could not be "
    "tested."
)
UNTESTED = (
    f"Nothing is bold on {{names}}: nothing can be tested there. A test takes two methods with all of at least "
    f"{LEAST_SEEDS} seeds, more than one epoch, and a difference that varies with the seed."
)
BRIEF_BOLD = "Bold: not shown to be worse than another method; few seeds show little."
BRIEF_UNTESTED = f"Nothing is bold on {{names}}: a test takes two methods with {LEAST_SEEDS} seeds at least."


def bold_definitions(marked: Iterable[tuple[str, bool]], bold: str = BOLD, untested: str = UNTESTED) -> list[str]:
    """Define bold, and name the comparisons without any since nothing could be tested.

    Args:
        marked: Comparisons, each as often as it has cells, and whether the cell is bold.
        bold: What bold means.
        untested: Why nothing is bold on the comparisons `{names}`.
    """
    found: dict[str, bool] = {}
    for comparison, is_bold in marked:
        found[comparison] = found.get(comparison, False) or is_bold
    without = [comparison for comparison, has_bold in found.items() if not has_bold]
    return [*([bold] if any(found.values()) else []), *([untested.format(names=few_names(without))] if without else [])]


def bold_in_brief(marked: Iterable[tuple[str, bool]]) -> str:
    """Define bold in the few words that a terminal has room for."""
    return " ".join(bold_definitions(marked, BRIEF_BOLD, BRIEF_UNTESTED))


def accuracy_definition(finished: pd.DataFrame, draws: Sequence[int]) -> str:
    """Define the accuracy without draws and with each of `draws`, which are above 0."""
    plain = "Accuracy: share of test images whose most probable class is right, after the last epoch."
    if not draws:
        return plain
    return (
        f"{plain} With {listed([str(one) for one in draws], 'or')} draw{'' if list(draws) == [1] else 's'}: class "
        "probabilities averaged over that many test-time draws from the method's policy, mean of "
        f"{numbers(finished['test_time_repeats'])} repeats; {NOTHING} for methods without a policy to draw from."
    )


def calibration_definition(finished: pd.DataFrame, *, equal_mass: bool = False) -> str:
    """Define NLL, Brier score and ECE, and the ECE of bins of equal mass if asked for."""
    bins = numbers(finished["calibration_bins"])
    mass = (
        f" ECE, equal mass: the same with {bins} bins of about equally many images; equal confidences share a bin."
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
