"""Comparing states bit for bit, and sending them through a file."""

import io
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from augbench.bench.common.randomness import seed_globally as seed_torch
from augbench.bench.common.user_code import USER_CODE_ERRORS, format_exception
from augbench.bench.conformance.outcome import ConformanceError


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """Save a state and load it again, as a run that is resumed does.

    Raises:
        ConformanceError: If that cannot be done.
    """
    buffer = io.BytesIO()
    try:
        torch.save(state, buffer)
        buffer.seek(0)
        loaded: dict[str, Any] = torch.load(buffer, map_location="cpu", weights_only=True)
    except USER_CODE_ERRORS as error:
        raise ConformanceError(
            f"What `state_dict` returns cannot be saved and loaded again: {format_exception(error)[:300]}.",
            "Return tensors, numbers, texts, lists and dictionaries only, no objects, arrays or functions.",
        ) from None
    return loaded


def first_difference(first: object, second: object, place: str = "") -> str | None:
    """Name the first place where two nested states differ in a bit; None if they do not."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        if first.keys() != second.keys():
            return f"{place} (its names)".strip()
        pairs = [(f"{place}.{key}" if place else str(key), first[key], second[key]) for key in first]
    elif _is_sequence(first) and _is_sequence(second):
        if len(first) != len(second):
            return f"{place} (its length)".strip()
        pairs = [(f"{place}[{index}]", *pair) for index, pair in enumerate(zip(first, second, strict=True))]
    else:
        return None if _same(first, second) else place or "all of it"
    return next(filter(None, (first_difference(one, other, inside) for inside, one, other in pairs)), None)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _same(first: object, second: object) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return same_bits(first, second)
    if isinstance(first, float) and isinstance(second, float):
        return first == second or (first != first and second != second)  # two that are no numbers are the same here
    return type(first) is type(second) and bool(first == second)


def same_bits(first: Tensor, second: Tensor) -> bool:
    """Say whether two tensors have the same type, shape and numbers, also where these are not finite."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    first, second = first.detach().cpu(), second.detach().cpu()
    return torch.equal(first, second) or bool(torch.allclose(first, second, rtol=0, atol=0, equal_nan=True))


def copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a state, so that it stays as it is now."""
    return deepcopy(dict(state))


def seed_globally(seed: int) -> None:
    """Seed every global generator: torch's, NumPy's and Python's."""
    seed_torch(seed, "cuda" if torch.cuda.is_available() else "cpu")
    np.random.seed(seed)
    random.seed(seed)


def global_states() -> dict[str, Any]:
    """State of every global generator."""
    legacy = np.random.get_state()
    numbers = [torch.from_numpy(part.copy()) if isinstance(part, np.ndarray) else part for part in legacy]
    states = {"torch": torch.get_rng_state(), "NumPy": numbers, "Python": list(random.getstate())}
    if torch.cuda.is_available():
        states["torch on the GPU"] = torch.cuda.get_rng_state()
    return states


@contextmanager
def global_states_restored() -> Iterator[None]:
    """Leave the global generators after the block as they were before it."""
    states, legacy, python = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(states)
        np.random.set_state(legacy)
        random.setstate(python)
