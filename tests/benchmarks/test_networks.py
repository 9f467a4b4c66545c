"""How far one network is ahead of others, on curves worked out by hand."""

import pytest

from benchmarks.networks import FAST, Point, least_lead


def test_the_least_lead_is_over_points_that_take_at_least_as_long() -> None:
    fast = [Point(FAST, 1, 1.0, 0.90), Point(FAST, 2, 2.0, 0.95), Point(FAST, 4, 4.0, 0.94)]
    others = [Point("tiny", 1, 1.5, 0.80), Point("tiny", 4, 3.0, 0.93), Point("smallnet", 1, 9.0, 0.945)]
    assert least_lead([*fast, *others]) == pytest.approx(0.005)
    assert least_lead([*fast, Point("tiny", 1, 2.0, 0.97)]) == pytest.approx(-0.02)
    assert least_lead([*fast, Point("tiny", 1, 0.5, 0.60)]) == pytest.approx(-0.60), "nothing is as quick"
