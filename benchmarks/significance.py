"""Which test of all pairs of methods finds most and still errs seldom: simulated comparisons, as a Markdown table.

python -m benchmarks.significance
python -m benchmarks.significance --comparisons 200
"""

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from scipy import stats

from augbench.results.statistics.bootstrap import Weights, mean_intervals
from augbench.results.statistics.moderated import common_spread, t_tests
from augbench.results.statistics.paired import holm
from augbench.results.statistics.resolution import Spread, smallest_difference, spread_of

Floats = NDArray[np.float64]
Rule = Callable[[Floats], "Beaten"]
Beaten = set[tuple[int, int]]
"""Pairs (winner, loser) that a rule tells apart."""

LEVEL = 0.05
SEED_EFFECT = 0.5  # what a seed does to all methods alike, in standard deviations of a run
IMAGES = 500
# Standard deviations over three seeds of the fifteen learners in results/measured/digits-10-epochs.parquet, in points
MEASURED = (
    (0.10, 0.10, 0.12, 0.15, 0.15, 0.15, 0.20, 0.25, 0.26, 0.29, 0.36, 0.44, 0.51, 0.60, 0.61),
    (0.30, 0.42, 0.55, 0.61, 0.64, 0.65, 0.71, 0.76, 0.76, 0.93, 0.93, 0.93, 1.07, 1.31, 1.86),
)


def all_pairs(values: Floats) -> tuple[list[tuple[int, int]], Floats]:
    """Return all pairs of columns of values (S, K), and their differences (P, S)."""
    pairs = list(combinations(range(values.shape[1]), 2))
    first, second = np.array(pairs).T
    return pairs, (values[:, first] - values[:, second]).T


def told_apart(values: Floats, p_values: tuple[float | None, ...]) -> Beaten:
    """Apply Holm's correction to the p-values of all pairs."""
    pairs, differences = all_pairs(values)
    ahead = differences.mean(axis=1) > 0
    found = zip(pairs, ahead, holm(p_values), strict=True)
    return {pair if first else pair[::-1] for pair, first, p in found if p is not None and p <= LEVEL}


def paired(values: Floats) -> Beaten:
    """Test each pair alone."""
    return told_apart(values, t_tests(all_pairs(values)[1]))


def moderated(values: Floats) -> Beaten:
    """Test each pair with what all pairs tell of the spread: the rule of our tables."""
    return told_apart(values, t_tests(all_pairs(values)[1], common_spread(values)))


def _pooled(values: Floats) -> tuple[float, int]:
    """Standard error of a difference of two methods in a two-way layout, and its degrees of freedom."""
    seeds, methods = values.shape
    residuals = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    degrees = (seeds - 1) * (methods - 1)
    return math.sqrt(2 * (residuals**2).sum() / degrees / seeds), degrees


def pooled(values: Floats) -> Beaten:
    """Test all pairs with one variance: randomised blocks."""
    error, degrees = _pooled(values)
    p_values = 2 * stats.t.sf(np.abs(all_pairs(values)[1].mean(axis=1)) / error, degrees)
    return told_apart(values, tuple(p_values.tolist()))


def against_the_best(values: Floats) -> Beaten:
    """Test the best mean against the others with one variance, as if it had been named before (Dunnett's type)."""
    error, degrees = _pooled(values)
    means, best = values.mean(axis=0), int(values.mean(axis=0).argmax())
    others = [method for method in range(len(means)) if method != best]
    p_values = holm((2 * stats.t.sf((means[best] - means[others]) / error, degrees)).tolist())
    return {(best, method) for method, p in zip(others, p_values, strict=True) if p is not None and p <= LEVEL}


RULES: Mapping[str, Rule] = {
    "paired t": paired,
    "one variance": pooled,
    "one variance, against the best": against_the_best,
    "moderated t": moderated,
}


@dataclass(frozen=True)
class Scenario:
    """Comparisons of methods whose values are normal.

    Attributes:
        methods: Number of methods, K.
        seeds: Number of seeds.
        spread: Name of how the standard deviations are drawn.
    """

    methods: int
    seeds: int
    spread: str

    def comparisons(self, means: Floats, count: int) -> Iterator[Floats]:
        """Draw values (S, K) of `count` comparisons; the root mean square of the standard deviations is 1."""
        generator = np.random.default_rng([self.methods, self.seeds, len(self.spread)])
        for _ in range(count):
            spreads = SPREADS[self.spread](self.methods, generator)
            spreads = spreads / math.sqrt((spreads**2).mean())
            noise = generator.normal(size=(self.seeds, self.methods)) * spreads
            yield means + SEED_EFFECT * generator.normal(size=(self.seeds, 1)) + noise


def _measured(methods: int, generator: np.random.Generator) -> Floats:
    return generator.choice(MEASURED[generator.integers(len(MEASURED))], size=methods)


def _one_triple(methods: int, generator: np.random.Generator) -> Floats:
    return np.where(np.arange(methods) == generator.integers(methods), 3.0, 1.0)


SPREADS: Mapping[str, Callable[[int, np.random.Generator], Floats]] = {
    "equal": lambda methods, _: np.ones(methods),
    "as measured": _measured,
    "one three times the others'": _one_triple,
}


def truths(methods: int) -> Mapping[str, Floats]:
    """Return true means (K,) by name, in standard deviations of a run."""
    place = np.arange(methods)
    return {
        "equal": np.zeros(methods),
        "half": np.where(place < (methods + 1) // 2, 0.0, -3.0),
        "one": np.where(place == 0, 0.0, -2.0),
    }


def errs(beaten: Beaten, means: Floats) -> bool:
    """Whether two equal methods are told apart, or a method is beaten by a worse one."""
    return any(means[winner] <= means[loser] for winner, loser in beaten)


def share_beaten(beaten: Beaten, means: Floats) -> float:
    """Share of the methods that are not the best in truth and lose their bold type."""
    worse = np.flatnonzero(means < means.max())
    return len({loser for _, loser in beaten} & set(worse.tolist())) / len(worse)


def simulate(scenario: Scenario, rule: Rule, count: int) -> tuple[float, float, float]:
    """Return the largest family-wise error of all truths, and the power where half and where all but one are worse."""
    errors, power = [], {}
    for name, means in truths(scenario.methods).items():
        found = [rule(values) for values in scenario.comparisons(means, count)]
        errors.append(np.mean([errs(beaten, means) for beaten in found]))
        if name != "equal":
            power[name] = float(np.mean([share_beaten(beaten, means) for beaten in found]))
    return float(max(errors)), power["half"], power["one"]


def bootstrap_and_ours(seeds: int, behind: float, count: int) -> Mapping[str, tuple[float, float]]:
    """Compare the crossed bootstrap of seeds and images with our rule on five methods, two of which are behind.

    Each image has a difficulty of its own; the bootstrap's intervals have Bonferroni's level for ten pairs.

    Returns:
        For each rule the family-wise error, and the share of the two that are beaten.
    """
    generator, weights = np.random.default_rng(seeds), Weights(IMAGES, 2000)
    means = np.array([0.0, 0.0, 0.0, -behind, -behind])
    found: dict[str, list[Beaten]] = {"crossed bootstrap": [], "moderated t": []}
    for _ in range(count):
        logits = generator.normal(2, 2, IMAGES) + means[:, None, None] + generator.normal(0, 0.1, (5, seeds, 1))
        right = (generator.random((5, seeds, IMAGES)) < 1 / (1 + np.exp(-logits))).astype(np.float64)
        found["moderated t"].append(moderated(right.mean(axis=2).T))
        pairs = list(combinations(range(5), 2))
        intervals = mean_intervals([right[a] - right[b] for a, b in pairs], weights=weights, confidence=1 - LEVEL / 10)
        ends = [
            (pair, interval.low or 0.0, interval.high or 0.0) for pair, interval in zip(pairs, intervals, strict=True)
        ]
        found["crossed bootstrap"].append(
            {pair for pair, low, _ in ends if low > 0} | {pair[::-1] for pair, _, high in ends if high < 0}
        )
    return {
        name: (
            float(np.mean([errs(one, means) for one in each])),
            float(np.mean([share_beaten(one, means) for one in each])),
        )
        for name, each in found.items()
    }


def found_at_smallest(scenario: Scenario, count: int) -> tuple[float, float, float]:
    """Simulate true differences that are said to be found with 80 % probability: each pair in turn, of equal methods.

    Returns:
        The smallest difference, in standard deviations of the difference of an average pair; the share of pairs that
        are found if they differ by it; the same, if the spread is estimated from the same values.
    """
    spread = Spread(math.sqrt(2))
    smallest = smallest_difference(spread, scenario.seeds, scenario.methods)
    known, estimated = [], []
    for values in scenario.comparisons(np.zeros(scenario.methods), count):
        known.append(_share_found(values, smallest))
        own = spread_of(values)
        if own is not None:
            estimated.append(_share_found(values, smallest_difference(own, scenario.seeds, scenario.methods)))
    return smallest / spread.deviation, float(np.mean(known)), float(np.mean(estimated))


def _share_found(values: Floats, difference: float) -> float:
    differences = all_pairs(values)[1] + difference
    p_values = np.array(t_tests(differences, common_spread(values)), dtype=np.float64)
    return float((p_values * len(differences) <= LEVEL).mean())


def _scenarios() -> list[Scenario]:
    return [Scenario(k, seeds, spread) for k in (3, 5, 15) for seeds in (3, 5, 10) for spread in SPREADS]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.significance", description="Simulate tests of all pairs.")
    parser.add_argument("--comparisons", type=int, default=2000, help="simulated comparisons for each number")
    count = parser.parse_args().comparisons
    console = Console(soft_wrap=True)
    lines = [
        "| learners | seeds | spread of runs | " + " | ".join(RULES) + " |",
        "| ---: | ---: | --- |" + " --- |" * len(RULES),
    ]
    scenarios = [scenario for scenario in _scenarios() if scenario.methods >= 5]
    for scenario in track(scenarios, "Simulating", console=Console(stderr=True)):
        cells = [
            " / ".join(
                f"{100 * each:.0f}" if place else f"{100 * each:.1f}"
                for place, each in enumerate(simulate(scenario, rule, count))
            )
            for rule in RULES.values()
        ]
        lines.append(f"| {scenario.methods} | {scenario.seeds} | {scenario.spread} | " + " | ".join(cells) + " |")
    lines += ["", "| seeds | crossed bootstrap | moderated t |", "| ---: | --- | --- |"]
    for seeds in (3, 5, 10):
        both = bootstrap_and_ours(seeds, 0.5, max(1, count // 5))
        lines.append(
            f"| {seeds} | "
            + " | ".join(f"{100 * wrong:.1f} / {100 * power:.0f}" for wrong, power in both.values())
            + " |"
        )
    lines += ["", "| learners | seeds | spread of runs | smallest difference | found | found, spread estimated |"]
    lines.append("| ---: | ---: | --- | ---: | ---: | ---: |")
    for scenario in track(_scenarios(), "Simulating", console=Console(stderr=True)):
        smallest, known, estimated = found_at_smallest(scenario, max(1, count // 5))
        lines.append(
            f"| {scenario.methods} | {scenario.seeds} | {scenario.spread} | {smallest:.2f} | {100 * known:.0f} % | "
            f"{100 * estimated:.0f} % |"
        )
    console.print("\n".join(lines), markup=False, highlight=False)


if __name__ == "__main__":
    main()
