"""Epochs and seeds that fit into some minutes, against a plain search and hand computations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from augbench.bench.experiment.protocol import Budget
from augbench.bench.planning.short_budget import (
    LEAST_SEEDS,
    MOST_EPOCHS,
    MOST_SEEDS,
    SECONDS_AROUND,
    SECONDS_OF_A_RUN,
    SHARE_PLANNED,
    LearnerCost,
    fitting,
    least_minutes,
    wall_seconds,
)

PASSES = Budget(epochs=10, equal="passes", copies_in_batch=True)
PLAIN, FOURFOLD = LearnerCost(1, 2.0, 3.0), LearnerCost(4, 2.5, 5.0)


def test_seconds_of_all_runs_are_bounded_as_by_hand() -> None:
    # 10 epochs are 10 passes of one learner and 3 epochs of 4 copies of the other: 23 and 35 seconds
    assert PLAIN.seconds(PASSES) == 23
    assert FOURFOLD.seconds(PASSES) == 35
    assert wall_seconds([PLAIN, FOURFOLD], PASSES, seeds=5, workers=1) == 5 * 58
    assert wall_seconds([PLAIN, FOURFOLD], PASSES, seeds=5, workers=2) == 5 * 58 / 2 + 35 / 2


def test_costs_are_read_off_the_phases_of_a_run(make_spec: "pytest.FixtureRequest") -> None:
    spec = make_spec("scale", epochs=10)  # type: ignore[operator]
    cost = LearnerCost.estimated(spec, {"training": 80.0, "evaluation": 3.0, "compilation": 1.0})
    assert cost == LearnerCost(4, 2.0, 4.0 + SECONDS_OF_A_RUN)


@given(st.floats(60, 5000), st.integers(1, 4), st.floats(0.05, 20))
def test_the_most_that_fits_is_found(seconds: float, workers: int, of_a_pass: float) -> None:
    costs = [LearnerCost(1, of_a_pass, 1.0), LearnerCost(4, 1.2 * of_a_pass, 1.0)]
    found = fitting(costs, PASSES, seconds, workers)

    def taken(epochs: int, seeds: int) -> float:
        return wall_seconds(costs, PASSES.model_copy(update={"epochs": epochs}), seeds, workers)

    room = SHARE_PLANNED * (seconds - SECONDS_AROUND)
    if found is None:
        assert taken(4, LEAST_SEEDS) > room
        return
    assert taken(found.epochs, found.seeds) <= room
    assert LEAST_SEEDS <= found.seeds <= MOST_SEEDS
    if found.epochs < MOST_EPOCHS:
        assert found.seeds == LEAST_SEEDS
        assert taken(found.epochs + 1, found.seeds) > room
    elif found.seeds < MOST_SEEDS:
        assert taken(found.epochs, found.seeds + 1) > room


@given(st.floats(0.5, 100), st.integers(1, 4), st.floats(0, 300))
def test_the_least_minutes_suffice_and_one_less_does_not(of_a_pass: float, workers: int, spent: float) -> None:
    costs = [LearnerCost(4, of_a_pass, 1.0)]
    least = least_minutes(costs, PASSES, spent, workers)
    assert fitting(costs, PASSES, 60 * least - spent, workers) is not None
    assert fitting(costs, PASSES, 60 * (least - 1) - spent, workers) is None
