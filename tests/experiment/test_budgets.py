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
def test_schedules_are_those_of_torch(steps: int) -> None:
    def ours(schedule: str, rate: float) -> list[float]:
        budget = Budget.model_validate({"epochs": 1, "learning_rate": rate, "schedule": schedule})
        return [budget.learning_rate_at(step, steps) for step in range(steps)]

    optimizer = _optimizer(0.1)
    one_cycle = OneCycleLR(optimizer, max_lr=0.3, total_steps=steps, cycle_momentum=False)
    assert ours("one-cycle", 0.3) == pytest.approx(_course(optimizer, one_cycle, steps), rel=1e-9, abs=1e-12)
    optimizer = _optimizer(0.3)
    cosine = CosineAnnealingLR(optimizer, T_max=steps)
    assert ours("cosine", 0.3) == pytest.approx(_course(optimizer, cosine, steps), rel=1e-6, abs=1e-9)
    assert set(ours("constant", 0.07)) == {0.07}
