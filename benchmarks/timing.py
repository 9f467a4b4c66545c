"""Timing side by side: contestants take turns in one process, so that other load on the machine hits all alike.

The ratio of two of them is taken turn by turn and then summarised: a slow moment of the machine is in both times of a
turn and cancels out, which it would not in the ratio of two medians.
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

Contestant = Callable[[], object]
Clock = Callable[[], float]
LONGEST_WARM_UP = 3  # calls
SHORTEST_TURN = 0.005  # seconds: many times what reading the clock takes


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of some numbers."""

    median: float
    lower: float
    upper: float


def spread(values: Sequence[float]) -> Spread:
    """Summarise at least one number; quartiles are values that occurred."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return Spread(statistics.median(ordered), ordered[quarter], ordered[-1 - quarter])


def paired_ratio(times: Sequence[float], reference: Sequence[float]) -> Spread:
    """Summarise the ratios of times that were measured in the same turns.

    Raises:
        ValueError: If there are not equally many of both.
    """
    return spread([own / other for own, other in zip(times, reference, strict=True)])


def device_clock(device: torch.device) -> Clock:
    """Return a clock, in seconds, that waits for all work of the device before it is read."""

    def read() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    return read


def take_turns(
    contestants: Mapping[str, Contestant], repeats: int, clock: Clock, shortest_turn: float = SHORTEST_TURN
) -> dict[str, list[float]]:
    """Time contestants in turns; the order changes from round to round, so that none always follows the same one.

    What is quicker than a turn has to be is called several times in each of its turns, everywhere equally often. The
    calls by which that is found out are the warm-up.

    Args:
        contestants: What is timed, by name.
        repeats: Rounds.
        clock: Gives seconds; see `device_clock`.
        shortest_turn: Seconds that a turn has to last.

    Returns:
        By name, the seconds of one call in each round, averaged over the calls of a turn.
    """
    calls = {name: _calls_in_a_turn(contestant, clock, shortest_turn) for name, contestant in contestants.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    for repeat in range(repeats):
        first = repeat % len(names)
        for name in names[first:] + names[:first]:
            contestant = contestants[name]
            start = clock()
            for _ in range(calls[name]):
                contestant()
            seconds[name].append((clock() - start) / calls[name])
    return seconds


def _calls_in_a_turn(contestant: Contestant, clock: Clock, shortest_turn: float) -> int:
    """Calls that last as long as a turn, by the fastest of a few calls."""
    fastest = math.inf
    for _ in range(LONGEST_WARM_UP):
        start = clock()
        contestant()
        fastest = min(fastest, clock() - start)
    return max(1, math.ceil(shortest_turn / max(fastest, 1e-9)))
