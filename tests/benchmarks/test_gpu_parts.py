"""Parts of a long measurement: each in a process of its own, killed when its time is up, its numbers kept."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks.gpu_parts import Outcome, Part, State, Work, measure_parts
from benchmarks.rows import Goal

# newer Pythons warn that threads do not survive a fork; the parts here have none
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")

LONG = 1000.0  # seconds, of which a test needs a few on the slowest machine
Kept = list[dict[str, dict[str, object]]]


def measured(
    *parts: Part, seconds: float = LONG, device: str = "cpu", after: Callable[[], None] = lambda: None
) -> tuple[dict[str, Outcome], Kept]:
    """Measure parts, doing something after each time of keeping; returns what became of them, and what was kept."""
    kept: Kept = []

    def keep(outcomes: Mapping[str, Outcome]) -> None:
        kept.append({name: dict(outcome.found) for name, outcome in outcomes.items()})
        after()

    return measure_parts(parts, Work(torch.device(device), Path()), seconds, keep), kept


def test_numbers_are_kept_one_by_one_and_known_to_later_parts() -> None:
    def first(work: Work) -> None:
        work.add("speed", 3.0)
        work.add_goal("ratio", 1.2, Goal(1.1))

    def second(work: Work) -> None:
        work.add("twice", 2 * work.earlier["first"]["speed"])

    outcomes, kept = measured(Part("first", 5, first), Part("second", 5, second))
    goal = {"value": 1.2, "bound": 1.1, "at_least": False, "met": False}
    assert outcomes["first"].found == {"speed": 3.0, "goal: ratio": goal}
    assert outcomes["second"].found == {"twice": 6.0}
    assert {outcome.state for outcome in outcomes.values()} == {State.DONE}
    assert kept[0] == {"first": {"speed": 3.0}}
    assert kept[-1] == {name: outcome.found for name, outcome in outcomes.items()}


def test_a_part_that_takes_too_long_is_killed_with_all_that_it_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def let_time_pass() -> None:
        nonlocal now
        now += LONG

    def endless(work: Work) -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        work.add("processes", [os.getpid(), child.pid])
        time.sleep(600)

    monkeypatch.setattr("benchmarks.gpu_parts.time", SimpleNamespace(monotonic=lambda: now))
    parts = [Part("endless", 0, endless), Part("later", 0, lambda work: work.add("here", 1))]
    outcomes, _ = measured(*parts, after=let_time_pass)
    assert outcomes["endless"].state is State.OUT_OF_TIME
    own, child = outcomes["endless"].found["processes"]
    assert not Path("/proc", str(own)).exists()
    # the child has lost its parent: somebody else has to take note of its end
    assert not Path("/proc", str(child)).exists() or " Z " in Path("/proc", str(child), "stat").read_text()
    assert outcomes["later"].state is State.SKIPPED
    assert outcomes["later"].reason == "The time was used up."


def test_time_is_kept_for_later_parts_and_what_is_left_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def quick(work: Work) -> None:
        work.add("left", work.seconds_left)

    monkeypatch.setattr("benchmarks.gpu_parts.time", SimpleNamespace(monotonic=lambda: 0.0))
    parts = [Part("first", 10, quick), Part("on a GPU", 50, quick, needs_gpu=True), Part("last", 30, quick)]
    outcomes, _ = measured(*parts, seconds=100)
    # 100 seconds less the 30 of the last one: a part that is skipped needs none
    assert outcomes["first"].allowed == 70
    assert outcomes["first"].found["left"] == 70
    assert outcomes["on a GPU"].state is State.SKIPPED
    assert outcomes["on a GPU"].reason == "It needs a GPU."
    assert outcomes["last"].allowed == 100


def test_the_last_parts_are_left_out_where_time_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.gpu_parts.time", SimpleNamespace(monotonic=lambda: 0.0))
    parts = [Part("first", 20, lambda work: None), Part("last", 20, lambda work: None)]
    assert measured(*parts, seconds=15)[0]["first"].allowed == 15
    assert measured(*parts, seconds=30)[0]["first"].allowed == 20


def test_a_failure_is_recorded_and_the_next_part_measured() -> None:
    def fails(work: Work) -> None:
        work.add("before", 1)
        raise RuntimeError("an illegal memory access")

    def dies(work: Work) -> None:
        os._exit(3)

    parts = [Part("fails", 5, fails), Part("dies", 5, dies), Part("works", 5, lambda work: work.add("here", 1))]
    outcomes, _ = measured(*parts)
    assert outcomes["fails"].state is State.FAILED
    assert outcomes["fails"].reason.endswith("RuntimeError: an illegal memory access\n")
    assert outcomes["fails"].found == {"before": 1}
    assert (outcomes["dies"].state, outcomes["dies"].reason) == (State.FAILED, "Its process ended with status 3.")
    assert outcomes["works"].found == {"here": 1}
