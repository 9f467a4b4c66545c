"""Learning rates of a budget against torch's own schedulers."""

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, OneCycleLR

from augbench.bench.experiment.protocol import Budget

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


@pytest.mark.parametrize("steps", TOTALS)
def test_one_cycle_is_that_of_torch(steps: int) -> None:
    optimizer = _optimizer(0.1)
    scheduler = OneCycleLR(optimizer, max_lr=0.3, total_steps=steps, cycle_momentum=False)
    budget = Budget(epochs=1, learning_rate=0.3, schedule="one-cycle")
    ours = [budget.learning_rate_at(step, steps) for step in range(steps)]
    assert ours == pytest.approx(_course(optimizer, scheduler, steps), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("steps", TOTALS)
def test_cosine_is_that_of_torch(steps: int) -> None:
    optimizer = _optimizer(0.3)
    scheduler = CosineAnnealingLR(optimizer, T_max=steps)
    budget = Budget(epochs=1, learning_rate=0.3, schedule="cosine")
    ours = [budget.learning_rate_at(step, steps) for step in range(steps)]
    assert ours == pytest.approx(_course(optimizer, scheduler, steps), rel=1e-6, abs=1e-9)


def test_constant_rate_stays() -> None:
    budget = Budget(epochs=1, learning_rate=0.07, schedule="constant")
    assert {budget.learning_rate_at(step, 50) for step in range(50)} == {0.07}


def test_one_cycle_reaches_the_peak_and_ends_far_below_its_start() -> None:
    budget = Budget(epochs=1, learning_rate=1.0, schedule="one-cycle")
    rates = [budget.learning_rate_at(step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(1 / 25)
    assert rates.index(max(rates)) == 29
    assert max(rates) == pytest.approx(1)
    assert rates[-1] == pytest.approx(4e-6)
