"""The simulation of tests of all pairs: its rules, its counting, and that it runs."""

import sys

import numpy as np
import pytest

from benchmarks import significance
from benchmarks.significance import RULES, Scenario, errs, found_at_smallest, paired, share_beaten, simulate, truths


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_a_method_far_behind_is_beaten_and_nobody_else(rule: significance.Rule) -> None:
    values = np.random.default_rng(0).normal(size=(6, 5)) * 0.1 + np.array([0, 0, 0, 0, -5])
    assert {loser for _, loser in rule(values)} == {4}


def test_what_counts_as_an_error_and_as_power() -> None:
    means = np.array([0.0, 0.0, -1.0])
    assert not errs({(0, 2)}, means) and errs({(0, 1)}, means) and errs({(2, 1)}, means)
    assert share_beaten({(1, 2)}, means) == 1 and share_beaten({(0, 1)}, means) == 0


def test_the_paired_test_keeps_its_level() -> None:
    wrong, _, _ = simulate(Scenario(5, 3, "equal"), paired, 200)
    assert wrong <= 0.1


def test_naming_the_best_mean_afterwards_does_not() -> None:
    equal = truths(15)["equal"]
    rule = RULES["one variance, against the best"]
    found = [rule(values) for values in Scenario(15, 5, "equal").comparisons(equal, 200)]
    assert np.mean([errs(beaten, equal) for beaten in found]) > 0.1


@pytest.mark.parametrize("methods", [3, 5, 15])
@pytest.mark.parametrize("seeds", [3, 5])
def test_the_smallest_difference_is_found_in_80_percent_of_simulated_comparisons(methods: int, seeds: int) -> None:
    """Of the tests of the tables, moderated from what the values show."""
    _, known, _ = found_at_smallest(Scenario(methods, seeds, "equal"), 400)
    assert known == pytest.approx(0.8, abs=0.05)  # standard error: at most 0.02


def test_it_prints_three_tables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["significance", "--comparisons", "1"])
    significance.main()
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("| 15 | 3 |") for line in lines) == 2 * len(significance.SPREADS)
    assert "| seeds | crossed bootstrap | moderated t |" in lines
    assert sum(line.startswith("| 3 | 5 |") for line in lines) == len(significance.SPREADS)
