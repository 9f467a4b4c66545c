"""Turns, ratios and goals, on made-up clocks and numbers."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.rows import Entry, Goal, Row, Settings, compare
from benchmarks.timing import Spread, paired_ratio, spread, take_turns


class MadeUpMachine:
    """A clock that only goes on while contestants work, slower or faster as the machine is."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def clock(self) -> float:
        """Seconds of work up to now."""
        return self.now

    def contestant(self, name: str, seconds: Callable[[int], float]) -> Callable[[], None]:
        """Work as long as the number of its call says."""

        def work() -> None:
            self.now += seconds(self.calls.count(name))
            self.calls.append(name)

        return work


def test_quartiles_are_values_that_occurred() -> None:
    assert spread([5, 1, 4, 2, 3]) == Spread(3, 2, 4)
    assert spread([8, 1, 2, 3, 4, 5, 6, 7]) == Spread(4.5, 3, 6)
    assert spread([7]) == Spread(7, 7, 7)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_a_quarter_of_the_values_lies_on_either_side(values: list[float]) -> None:
    found = spread(values)
    assert found.lower <= found.median <= found.upper
    assert sum(value < found.lower for value in values) <= len(values) / 4
    assert sum(value > found.upper for value in values) <= len(values) / 4


def test_ratios_are_taken_turn_by_turn() -> None:
    # in the second turn the machine was ten times slower: the ratio of the medians would be 40 / 10
    assert paired_ratio([20, 400, 40], [10, 200, 10]) == Spread(2, 2, 4)
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        paired_ratio([1, 2], [1])


def test_contestants_take_turns_and_take_turns_in_beginning() -> None:
    machine = MadeUpMachine()
    names = ("a", "b", "c")
    contestants = {name: machine.contestant(name, lambda _: 1.0) for name in names}
    seconds = take_turns(contestants, repeats=4, clock=machine.clock)
    assert "".join(machine.calls[-12:]) == "abcbcacababc"
    assert seconds == {name: [1.0] * 4 for name in names}


def test_the_warm_up_is_not_counted() -> None:
    machine = MadeUpMachine()
    slow_at_first = machine.contestant("a", lambda call: 100.0 if call < 2 else float(call))
    seconds = take_turns({"a": slow_at_first}, repeats=3, clock=machine.clock)
    assert seconds == {"a": [3.0, 4.0, 5.0]}


def test_what_is_quick_is_called_until_a_turn_is_long_enough() -> None:
    machine = MadeUpMachine()
    contestants = {
        "quick": machine.contestant("quick", lambda _: 0.25),
        "slow": machine.contestant("slow", lambda _: 3.0),
    }
    seconds = take_turns(contestants, repeats=2, clock=machine.clock, shortest_turn=1.0)
    assert machine.calls[6:] == ["quick"] * 4 + ["slow"] + ["slow"] + ["quick"] * 4
    assert seconds == {"quick": [0.25, 0.25], "slow": [3.0, 3.0]}


def test_each_row_is_compared_with_its_own_reference() -> None:
    entries = {
        "floor": Entry(lambda: None),
        "ours": Entry(lambda: None, "floor", Goal(1.25)),
        "theirs": Entry(lambda: None, "ours", Goal(2.5, at_least=True)),
    }
    rows = compare("section", "case", entries, Settings(repeats=5), images=3)
    floor, ours, theirs = rows
    assert [row.contestant for row in rows] == list(entries)
    assert (floor.ratio, floor.met) == (None, None)
    assert ours.ratio == paired_ratio(ours.values, floor.values)
    assert theirs.ratio == paired_ratio(theirs.values, ours.values)
    assert ours.images_per_second == pytest.approx(3 / ours.value.median)


@pytest.mark.parametrize(
    ("goal", "ratio", "met"),
    [(Goal(1.25), 1.25, True), (Goal(1.25), 1.26, False), (Goal(10, True), 10, True), (Goal(10, True), 9.9, False)],
)
def test_a_goal_is_an_upper_or_a_lower_bound_of_the_ratio(goal: Goal, ratio: float, met: bool) -> None:
    assert Row("s", "c", "who", [5.0], ratio=Spread(ratio, ratio, ratio), goal=goal).met is met


def test_without_a_ratio_a_goal_is_one_of_the_value() -> None:
    assert Row("s", "c", "who", [0.3, 0.4, 9.0], goal=Goal(0.4)).met is True
    assert Row("s", "c", "who", [0.3, 0.5, 9.0], goal=Goal(0.4)).met is False


def test_bytes_are_no_rate() -> None:
    assert Row("s", "c", "who", [5.0], unit="B", images=3).images_per_second is None


def test_a_row_as_json_has_the_raw_values_and_what_is_made_of_them() -> None:
    row = Row("s", "c", "who", [2.0, 1.0, 3.0], images=4, reference="x", ratio=Spread(2, 1, 3), goal=Goal(1.5))
    found = row.as_json()
    assert found["values"] == [2.0, 1.0, 3.0]
    assert found["value"] == {"median": 2.0, "lower": 1.0, "upper": 3.0}
    assert found["ratio"] == {"median": 2, "lower": 1, "upper": 3}
    assert (found["images_per_second"], found["met"]) == (2.0, False)
    assert found["goal"] == {"bound": 1.5, "at_least": False}
