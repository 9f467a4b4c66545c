"""The network's optimiser, as a budget asks for it."""

from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from augbench.bench.experiment.protocol import Budget

NORMS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
"""Normalisation layers: batch and instance normalisation are of the first kind."""


def network_optimizer(network: nn.Module, budget: Budget) -> torch.optim.Optimizer:
    """Build the optimiser that a budget asks for."""
    fused = budget.acceleration.fused_optimizer or None  # None leaves it to torch
    groups, rate, decay = _groups(network, budget), budget.learning_rate, budget.weight_decay
    if budget.optimizer == "adam":
        return torch.optim.Adam(groups, rate, weight_decay=decay, fused=fused)
    nesterov = budget.momentum > 0
    return torch.optim.SGD(groups, rate, budget.momentum, weight_decay=decay, nesterov=nesterov, fused=fused)


def clip_gradient(network: nn.Module, budget: Budget) -> None:
    """Shorten the gradient of all of a network's parameters together to the budget's largest norm, if it has one."""
    if budget.gradient_clip is not None:
        nn.utils.clip_grad_norm_(network.parameters(), budget.gradient_clip)


def _groups(network: nn.Module, budget: Budget) -> list[dict[str, Any]]:
    """Split the parameters into those that decay and those that do not, in their order; no group is empty."""
    spared = {
        parameter
        for module in network.modules()
        for name, parameter in module.named_parameters(recurse=False)
        if (isinstance(module, NORMS) and budget.decayed != "all") or (name == "bias" and budget.decayed == "weights")
    }
    decaying = [parameter for parameter in network.parameters() if parameter not in spared]
    others = [parameter for parameter in network.parameters() if parameter in spared]
    groups: list[dict[str, Any]] = [{"params": decaying}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
