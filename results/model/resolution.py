"""What the tests of a table can show, from the spread of its own runs."""

from collections.abc import Iterator

import pandas as pd

from augbench.bench.common.wording import counted, two_digits
from augbench.results.model.cells import asked_seeds, by_comparison, is_single_epoch, scores_of
from augbench.results.model.frame import Runs
from augbench.results.statistics.moderated import LEAST_SEEDS, LEVEL
from augbench.results.statistics.paired import by_seed
from augbench.results.statistics.resolution import POWER, smallest_difference, spread_of


def resolution_definitions(runs: Runs, finished: pd.DataFrame) -> list[str]:
    """Name the smallest difference of accuracy that the tests find, for each comparison that is tested.

    Args:
        runs: All runs.
        finished: Those in the table.
    """
    smallest = [*_smallest(runs, finished)]
    if not smallest:
        return []
    return [
        f"Smallest difference: {'; '.join(smallest)}. If two methods truly differ by so much in accuracy, without "
        f"test-time draws, the tests of all pairs show it with a probability of {100 * POWER:.0f} %, even if no other "
        "pair differs. Spread: standard deviation of the difference of two methods over seeds, in points, root mean "
        "square over pairs."
    ]


def _smallest(runs: Runs, finished: pd.DataFrame) -> Iterator[str]:
    for here, group in by_comparison(runs, finished):
        asked = asked_seeds(group)
        if is_single_epoch(group) or asked < LEAST_SEEDS:
            continue
        accuracies = by_seed(scores_of(here, group, "accuracy", 0))
        compared = 100 * accuracies.loc[:, accuracies.notna().sum() >= asked]
        methods = compared.shape[1]
        if methods > 1 and (spread := spread_of(compared.to_numpy())):
            points = two_digits(smallest_difference(spread, asked, methods, level=LEVEL))
            about = f"{counted(methods, 'method')}, {counted(asked, 'seed')}, spread {two_digits(spread.deviation)}"
            yield f"{points} points on {group['comparison'].iloc[0]} ({about})"
