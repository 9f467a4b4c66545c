"""Learning rates of a budget against torch's own schedulers."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    OneCycleLR,
    SequentialLR,
)

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.spec import validated

TOTALS = [*range(1, 13), 33, 100, 1000]


def _optimizer(rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=rate)


def _course(optimizer: torch.optim.Optimizer, scheduler: LRScheduler, steps: int) -> list[float]:
    """Rates that the optimiser steps with."""
    rates = []
    for step in range(steps):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        if step < steps - 1:
            scheduler.step()
    return rates


def _ours(steps: int, **budget: Any) -> list[float]:
    made = Budget.model_validate({"epochs": 1, **budget})
    return [made.learning_rate_at(step, steps) for step in range(steps)]


@pytest.mark.parametrize("steps", TOTALS)
def test_schedules_are_those_of_torch(steps: int) -> None:
    def ours(schedule: str, rate: float) -> list[float]:
        return _ours(steps, learning_rate=rate, schedule=schedule)

    optimizer = _optimizer(0.1)
    one_cycle = OneCycleLR(optimizer, max_lr=0.3, total_steps=steps, cycle_momentum=False)
    assert ours("one-cycle", 0.3) == pytest.approx(_course(optimizer, one_cycle, steps), rel=1e-9, abs=1e-12)
    optimizer = _optimizer(0.3)
    cosine = CosineAnnealingLR(optimizer, T_max=steps)
    assert ours("cosine", 0.3) == pytest.approx(_course(optimizer, cosine, steps), rel=1e-6, abs=1e-9)
    assert set(ours("constant", 0.07)) == {0.07}


@pytest.mark.parametrize("steps", [8, 40, 200, 1000])
def test_steps_and_warm_ups_are_those_of_torch(steps: int) -> None:
    passed = [round(share * steps) for share in (0.3, 0.6, 0.8)]
    stepped = {"schedule": "step", "milestones": [0.3, 0.6, 0.8], "step_factor": 0.2, "learning_rate": 0.4}
    optimizer = _optimizer(0.4)
    expected = _course(optimizer, MultiStepLR(optimizer, passed, gamma=0.2), steps)
    assert _ours(steps, **stepped) == pytest.approx(expected)

    rising = steps // 8
    warm = {"warm_up": 0.125, "warm_up_start": 0.25, "learning_rate": 0.4}
    optimizer = _optimizer(0.4)
    up, down = LinearLR(optimizer, 0.25, total_iters=rising), CosineAnnealingLR(optimizer, T_max=steps - rising)
    expected = _course(optimizer, SequentialLR(optimizer, [up, down], [rising]), steps)
    assert _ours(steps, **warm, schedule="cosine") == pytest.approx(expected, abs=1e-9)

    optimizer = _optimizer(0.4)
    up, level = LinearLR(optimizer, 0.25, total_iters=rising), ConstantLR(optimizer, factor=1.0)
    expected = _course(optimizer, SequentialLR(optimizer, [up, level], [rising]), steps)
    assert _ours(steps, **warm, schedule="constant") == pytest.approx(expected)

    optimizer = _optimizer(0.4)
    up = LinearLR(optimizer, 0.25, total_iters=rising)
    down = LinearLR(optimizer, 1.0, end_factor=0.0, total_iters=steps - rising)
    expected = _course(optimizer, SequentialLR(optimizer, [up, down], [rising]), steps)
    assert _ours(steps, **warm, schedule="linear") == pytest.approx(expected)
    assert _ours(steps, learning_rate=0.4, schedule="linear")[-1] == pytest.approx(0.4 / steps)


def test_a_warm_up_by_hand() -> None:
    assert _ours(6, warm_up=0.5, schedule="constant", learning_rate=0.3) == pytest.approx([0, 0.1, 0.2, 0.3, 0.3, 0.3])
    stepped = {"schedule": "step", "milestones": [0.5], "warm_up": 0.25}
    rates = _ours(8, **stepped, learning_rate=1.0)
    assert rates == pytest.approx([0, 0.5, 1, 1, 0.1, 0.1, 0.1, 0.1]), "milestones count from the very beginning"
    assert _ours(2, warm_up=0.1, schedule="constant", learning_rate=0.3) == [0.3, 0.3], "shorter than half a step"
    assert _ours(1, warm_up=0.9, schedule="cosine", learning_rate=0.3) == [0.0], "longer than all steps but a tenth"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"warm_up": 5}, ["warm_up", "share of the training", "0.025 for 5 of 200 epochs", "given: 5"]),
        ({"warm_up": 1.0}, ["from 0 to below 1"]),
        ({"warm_up": -0.1}, ["from 0 to below 1"]),
        ({"warm_up": 0.1, "schedule": "one-cycle"}, ["one-cycle", "leave out `warm_up`"]),
        ({"warm_up_start": 0.1}, ["`warm_up_start` means something with `warm_up` only"]),
        ({"warm_up": 0.1, "warm_up_start": 1.5}, ["warm_up_start", "less than or equal to 1"]),
        ({"schedule": "step"}, ["`milestones` and `schedule", "need each other", "milestones = [0.3, 0.6, 0.8]"]),
        ({"milestones": [0.5]}, ["need each other"]),
        ({"schedule": "step", "milestones": [60, 120]}, ["rising between 0 and 1", "60 and 120 of 200"]),
        ({"schedule": "step", "milestones": [0.6, 0.3]}, ["rising"]),
        ({"schedule": "step", "milestones": [0.3, 0.3]}, ["rising"]),
        ({"schedule": "step", "milestones": [0.3, 1.0]}, ["rising"]),
        ({"schedule": "step", "milestones": [0.5], "step_factor": 1.0}, ["step_factor", "less than 1"]),
        ({"step_factor": 0.2}, ["`step_factor` means something"]),
        ({"label_smoothing": 1.0}, ["label_smoothing", "less than 1"]),
        ({"label_smoothing": -0.1}, ["label_smoothing", "greater than or equal to 0"]),
        ({"norm_bias_rate": 0.0}, ["norm_bias_rate", "greater than 0"]),
        ({"gradient_clip": 0.0}, ["gradient_clip", "greater than 0"]),
        ({"decayed": "norms"}, ["decayed", "'all', 'all but norms' or 'weights'"]),
    ],
)
def test_mistakes_are_explained(wrong: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        validated(Budget, {"epochs": 200, "schedule": "cosine", **wrong}, "mine.toml")
    missing = [word for word in words if word not in str(error.value)]
    assert not missing, str(error.value)


def test_new_options_are_not_in_what_an_identity_is_made_of() -> None:
    assert Budget(epochs=3).model_dump(mode="json", exclude_defaults=True) == {"epochs": 3}
