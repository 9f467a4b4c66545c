"""The plain step: timed by a clock of our own, added up over attempts, and without a trace in the run."""

import json
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import pytest
import torch
from fake_clock import TICKING, FakeClock, ticking_network
from short_runs import Runs, result_of

from augbench.bench.experiment.base import BaseStep
from augbench.bench.experiment.spec import RunSpec, network_component
from augbench.bench.runs.run_folder import RunFolder
from augbench.bench.training import cost, plain_step, worker
from augbench.bench.training.cost import Cost, repeated
from augbench.bench.training.plain_step import time_plain_step
from augbench.bench.training.stopping import StopCause, StopRequested, StopSignal
from augbench.bench.training.trainer import Trainer

CPU = torch.device("cpu")
EACH = 0.001  # seconds that the ticking network takes for an image


@pytest.fixture
def few_plain_steps() -> None:
    """Have runs time as many as they do."""


@pytest.fixture
def clock() -> Iterator[FakeClock]:
    """Register a network that takes a millisecond of this clock for an image in training, and none otherwise."""
    found = FakeClock()
    with ticking_network(found, [EACH, 0.0]):
        yield found


def with_budget(spec: RunSpec, network: str = TICKING, **budget: Any) -> RunSpec:
    update = {"network": network_component(network), "budget": spec.budget.model_copy(update=budget)}
    return spec.model_copy(update=update)


@pytest.mark.parametrize(("each", "times"), [(0.01, 20), (2.5, 3), (100.0, 2)])
def test_work_is_repeated_for_some_seconds_and_at_least_twice(each: float, times: int) -> None:
    clock = FakeClock()
    found = repeated(lambda: clock.passes(each), clock, fewest=2, most=20, seconds=6.0)
    assert found == [pytest.approx(each)] * times


def have_optimizer_take(seconds: Iterator[float], clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    step = torch.optim.Adam.step

    def slow(self: torch.optim.Adam, *arguments: Any, **named: Any) -> Any:
        clock.passes(next(seconds))
        return step(self, *arguments, **named)

    monkeypatch.setattr(torch.optim.Adam, "step", slow)


@pytest.mark.parametrize(
    ("method", "budget", "images", "steps"),
    [
        ("none", {"epochs": 2, "batch_size": 10}, 10, 20),  # 0.04 s each, and a twentieth of 80 steps is less than 20
        ("none", {"epochs": 12, "batch_size": 10}, 10, 24),  # a twentieth of 480 steps
        ("none", {"epochs": 100, "batch_size": 10}, 10, 25),  # no more than a second
        ("scale", {"epochs": 2, "batch_size": 100}, 400, 3),  # four copies of each image
        ("scale", {"epochs": 2, "batch_size": 100, "copies_in_batch": True}, 100, 8),  # four copies of 25
        ("none", {"epochs": 2, "batch_size": 1000}, 400, 3),  # all images there are
    ],
)
def test_the_unit_is_a_batch_with_one_copy_of_each_image_at_the_rate_of_the_batches_of_the_run(
    method: str,
    budget: dict[str, Any],
    images: int,
    steps: int,
    clock: FakeClock,
    runs: Runs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    have_optimizer_take(repeat(0.03), clock, monkeypatch)  # which many images share
    trainer = runs.trainer(with_budget(runs.spec(method), **budget))
    time_plain_step(trainer, StopSignal(), clock)
    (timing,) = trainer.cost.plain_step_timings
    unit = (0.03 + images * EACH) * min(budget["batch_size"], 400) / images
    assert trainer.cost.plain_step_seconds == timing["seconds"] == pytest.approx(unit)
    assert timing["quartiles"] == [pytest.approx(unit)] * 3
    assert (timing["images"], timing["threads"]) == (images, torch.get_num_threads())
    assert timing["steps"] == steps


def test_median_and_quartiles_are_those_of_the_timed_steps(
    clock: FakeClock, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = runs.trainer(with_budget(runs.spec(), batch_size=100))
    delays = iter([9.0, 0.13, 0.1, 0.11, 0.14, 0.12])  # the first step, long enough to be the only one that warms up
    have_optimizer_take(delays, clock, monkeypatch)
    time_plain_step(trainer, StopSignal(), clock)
    (timing,) = trainer.cost.plain_step_timings
    assert timing["quartiles"] == [pytest.approx(0.1 + delay) for delay in (0.11, 0.12, 0.13)]
    assert timing["seconds"] == pytest.approx(0.22)


def in_phase(cost: Cost, name: str, seconds: float, clock: FakeClock) -> None:
    with cost.phase(name):
        clock.passes(seconds)


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Have all costs use one clock."""
    found = FakeClock()
    monkeypatch.setattr(Cost, "now", lambda self: found())
    return found


def test_seconds_are_divided_by_the_plain_step_of_their_attempt(clocked: FakeClock) -> None:
    first = Cost(CPU)
    first.count_in_plain_steps(0.5, {"threads": 1})
    in_phase(first, "search", 3.0, clocked)
    in_phase(first, "training", 4.0, clocked)
    second = Cost(CPU)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    second.count_in_plain_steps(0.25, {"threads": 2})
    in_phase(second, "training", 1.0, clocked)
    in_phase(second, "evaluation", 2.0, clocked)
    assert second.plain_steps == {"search": 6.0, "training": 12.0, "evaluation": 8.0, "compilation": 0.0}
    assert second.plain_step_timings == [{"threads": 1, "seconds": 0.5}, {"threads": 2, "seconds": 0.25}]
    assert first.plain_steps == {"search": 6.0, "training": 8.0, "evaluation": 0.0, "compilation": 0.0}
    second.forget("search")
    assert (second.plain_steps or {})["search"] == 0.0


def test_time_without_the_unit_leaves_the_whole_unknown(clocked: FakeClock) -> None:
    untimed = Cost(CPU)
    in_phase(untimed, "training", 1.0, clocked)
    earlier = Cost(CPU)
    earlier.load_state_dict({"seconds": {}, "image_passes": {}})  # of a version that timed no plain step
    for cost_of_run in (untimed, earlier):
        cost_of_run.count_in_plain_steps(0.5, {})
        in_phase(cost_of_run, "training", 1.0, clocked)
        cost_of_run.forget("search")
        assert cost_of_run.state_dict()["plain_steps"] is None


def test_nothing_of_a_run_changes(clock: FakeClock, runs: Runs) -> None:
    base = (BaseStep(name="crop", pixels=2), BaseStep(name="cutout", pixels=7))
    trainer = runs.trainer(with_budget(runs.spec("scale"), base=base))
    before = json.dumps(_plain(trainer))
    time_plain_step(trainer, StopSignal(), clock)
    assert json.dumps(_plain(trainer)) == before


def _plain(trainer: Trainer) -> dict[str, Any]:
    """Everything that training goes on from, without costs."""
    state = trainer.state_dict()
    kept = {name: state[name] for name in ("network", "optimizer", "method", "augmentation", "base", "global", "sums")}
    leaves, _ = torch.utils._pytree.tree_flatten(kept)
    return {"leaves": [leaf.tolist() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]}


def test_a_step_that_does_not_fit_into_memory_leaves_the_cost_unknown(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(trainer: Trainer, images: int) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(plain_step, "_plain_step", full)
    trainer = runs.trainer(runs.spec("none"))
    time_plain_step(trainer, StopSignal())
    with trainer.cost.phase("training"):
        pass
    assert trainer.cost.state_dict()["plain_steps"] is None


@pytest.mark.parametrize("method", ["none", pytest.param("scale", marks=pytest.mark.slow)])
def test_a_run_ends_bit_for_bit_as_without_it(
    method: str, runs: Runs, outcome: Callable[[RunFolder], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = runs.done(method)
    monkeypatch.setattr(worker, "time_plain_step", lambda trainer, stop: None)
    plain = runs.done(method)
    assert outcome(timed) == outcome(plain)
    assert result_of(plain)["plain_steps"] is None
    found = result_of(timed)
    ((device, seconds),), (timing,) = found["seconds"].items(), found["plain_step_timings"]
    assert timing["device"] == device
    assert found["plain_steps"] == pytest.approx({name: each / timing["seconds"] for name, each in seconds.items()})


def test_a_run_that_goes_on_elsewhere_adds_up(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = runs.folder()
    for name, step, questions in (("first device", 0.5, 3), ("second device", 0.25, None)):
        monkeypatch.setattr(cost, "describe_device", lambda device, name=name: name)
        monkeypatch.setattr(
            worker, "time_plain_step", lambda trainer, stop, step=step: trainer.cost.count_in_plain_steps(step, {})
        )
        runs.execute(folder, questions)
    found = result_of(folder)
    first, second = found["seconds"]["first device"], found["seconds"]["second device"]
    expected = {phase: first[phase] / 0.5 + second[phase] / 0.25 for phase in first}
    assert found["plain_steps"] == pytest.approx(expected)
    assert first["training"] > 0 < second["training"]
    assert [timing["seconds"] for timing in found["plain_step_timings"]] == [0.5, 0.25]


def test_a_run_that_is_to_stop_stops_before_the_next_plain_step(clock: FakeClock, runs: Runs) -> None:
    trainer, stop = runs.trainer(with_budget(runs.spec())), StopSignal()
    stop.request(StopCause.REQUESTED)
    with pytest.raises(StopRequested):
        time_plain_step(trainer, stop, clock)
    assert clock.seconds == 0.0
    assert trainer.cost.plain_step_timings == []
