"""The network's optimiser, as a budget asks for it."""

from typing import Any

import torch
from torch import nn

from augbench.bench.experiment.protocol import Budget
from augbench.bench.networks.base import NORMS
from augbench.bench.predictors.layers import OwnRate


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


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate of the next step; parameters with a rate of their own get their multiple of it."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("rate_factor", 1.0)


def _groups(network: nn.Module, budget: Budget) -> list[dict[str, Any]]:
    """Split the parameters: those that decay, those that do not, and those of a rate of their own; no group is empty.

    Within a group they keep their order.
    """
    spared = {
        parameter
        for module in network.modules()
        for name, parameter in module.named_parameters(recurse=False)
        if (isinstance(module, NORMS) and budget.decayed != "all") or (name == "bias" and budget.decayed == "weights")
    }
    own = {
        parameter: (module.rate_factor, 0.0)
        for module in network.modules()
        if isinstance(module, OwnRate)
        for parameter in module.parameters(recurse=False)
    }
    if (rate := budget.norm_bias_rate) != 1:
        norms = [module for module in network.modules() if isinstance(module, NORMS)]
        biases = [bias for norm in norms for name, bias in norm.named_parameters(recurse=False) if name == "bias"]
        own |= {bias: (rate, 0.0 if bias in spared else budget.weight_decay / rate) for bias in biases}
    usual = [parameter for parameter in network.parameters() if parameter not in own]
    groups: list[dict[str, Any]] = [
        {"params": [parameter for parameter in usual if parameter not in spared]},
        {"params": [parameter for parameter in usual if parameter in spared], "weight_decay": 0.0},
    ]
    for factor, decay in sorted(set(own.values())):
        alike = [parameter for parameter in own if own[parameter] == (factor, decay)]
        groups.append({"params": alike, "weight_decay": decay, "rate_factor": factor})
    return [group for group in groups if group["params"]]
