"""Check of the beginning of a run: the method is made and says what it is made of."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from augbench.bench.conformance.outcome import ConformanceError
from augbench.bench.conformance.problem import NETWORK, PROBLEMS, Problem
from augbench.bench.conformance.subject import Subject
from augbench.bench.contract.method import Method, SharedSpaceMethod
from augbench.bench.training.building import build_network

MADE_BY_BASE = ("hyperparameters", "context", "learnable", "optimizers")
DRAWS_OF_SHARED_SPACE = ("augment", "test_policy", "sample_transforms")
MOST_NAMED = 3  # threads
HARMLESS = ("variables of the environment", "the random state")
CALL_BASE = "Call super().__init__(hyperparameters, context) first in `__init__`."


def start(subject: Subject) -> None:
    """The method can be made, for grey and for colour images, with parts of the right types."""
    _check_draw(subject.target)
    for problem in PROBLEMS:
        method = subject.alone(problem)
        missing = [name for name in MADE_BY_BASE if not hasattr(method, name)]
        if missing:
            raise ConformanceError(f"The method has no `{missing[0]}` after its `__init__`.", CALL_BASE)
        _check_parts(method)
        _check_network(subject, method, problem)
        _check_state(method)
        _check_copies(subject.trainer(problem).method)


def _check_draw(target: type[Any]) -> None:
    if not issubclass(target, SharedSpaceMethod) or target.draw is not SharedSpaceMethod.draw:
        return
    if any(getattr(target, name) is getattr(SharedSpaceMethod, name) for name in DRAWS_OF_SHARED_SPACE):
        raise ConformanceError(
            "It derives from SharedSpaceMethod and has no `draw`.",
            "Override `draw(count, generator)`: return `count` draws, as `self.context.space.sample(…)` makes them.",
        )


def _check_parts(method: Method[Any]) -> None:
    """Check the types of what is saved with a run, and that tensors can be learned."""
    kinds: dict[str, tuple[type[Any], str]] = {
        "learnable": (Tensor, "tensors"),
        "optimizers": (torch.optim.Optimizer, "optimisers of torch.optim"),
    }
    for attribute, (kind, called) in kinds.items():
        parts = getattr(method, attribute)
        advice = f"Make it a dictionary of names and {called}, or leave it as it is."
        if not isinstance(parts, dict):
            raise ConformanceError(f"`{attribute}` is of type {type(parts).__name__}.", advice)
        for name, part in parts.items():
            if not isinstance(name, str) or not isinstance(part, kind):
                raise ConformanceError(f"{attribute}[{name!r}] is of type {type(part).__name__}.", advice)
    for name, tensor in method.learnable.items():
        if tensor.requires_grad and not tensor.is_leaf:
            raise ConformanceError(
                f"learnable[{name!r}] is computed from other tensors and cannot be learned itself.",
                "Store the tensor that the optimiser updates: end its computation with `.detach().requires_grad_()`.",
            )


def _check_network(subject: Subject, method: Method[Any], problem: Problem) -> None:
    network = method.wrap_network(build_network(NETWORK, problem.data().to(subject.device), subject.device))
    if not isinstance(network, nn.Module):
        raise ConformanceError(
            f"`wrap_network` returned {type(network).__name__}.",
            "Return the network to train, a torch.nn.Module; return the given one if nothing is to change.",
        )


def _check_state(method: Method[Any]) -> None:
    state = method.state_dict()
    if not isinstance(state, Mapping):
        raise ConformanceError(
            f"`state_dict` returned {type(state).__name__}.", "Return a dictionary; start from super().state_dict()."
        )
    if type(method).load_state_dict is not Method.load_state_dict:
        return
    for name in ("learnable", "optimizers"):
        if getattr(method, name) and not isinstance(state.get(name), Mapping):
            raise ConformanceError(
                f"`state_dict` returned nothing under {name!r}, which `load_state_dict` restores.",
                "Add to what super().state_dict() returns, or override `load_state_dict` too.",
            )


def _check_copies(method: Method[Any]) -> None:
    if type(method.copies) is not int or method.copies < 1:
        raise ConformanceError(
            f"`copies` is {method.copies!r}.", "Make it the whole number, from 1, of copies of each image."
        )


def process(subject: Subject) -> str | None:
    """It leaves the process as it was, for the runs that follow in it: settings of torch and Python, no threads."""
    if subject.threads:
        names = ", ".join(subject.threads[:MOST_NAMED]) + (", …" if len(subject.threads) > MOST_NAMED else "")
        raise ConformanceError(f"Threads that it started still run: {names}.", "End them in the same hook.")
    left = [name for name in subject.changed if not name.startswith(HARMLESS)]
    if left:
        raise ConformanceError(
            f"It changes settings of the whole process: {', '.join(left)}.",
            "Undo it in the same hook, for instance with a context manager. Runs put it back, but only at their end.",
        )
    return f"it changes {', '.join(subject.changed)}, which runs put back" if subject.changed else None
