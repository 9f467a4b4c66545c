"""Putting back what user code changes in a process that executes other runs afterwards.

Otherwise a method, network or data set that sets torch's default type, changes the working folder or replaces a
function of torch would change every later run in its process.
"""

import gc
import locale
import operator
import os
import random
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.nn.functional

MODULES: tuple[ModuleType, ...] = (torch, torch.nn, torch.nn.functional, np, random)
TYPES: tuple[type, ...] = (torch.Tensor, torch.nn.Module)
OF_LIBRARIES = ("TORCHINDUCTOR_", "_TORCHINDUCTOR_", "TRITON_", "KMP_")
"""How variables begin that torch's own libraries set while they are imported."""


@dataclass(frozen=True)
class Setting:
    """Something that code can set for the whole process.

    Attributes:
        name: What it is called in messages.
        read: Returns its value.
        write: Sets it to a value that `read` has returned.
        is_same: Whether two values are the same.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    is_same: Callable[[Any, Any], bool] = operator.eq


def _settings() -> tuple[Setting, ...]:
    """List what is looked after."""
    cudnn, rng = torch.backends.cudnn, np.random
    return (
        Setting("torch's default type", torch.get_default_dtype, torch.set_default_dtype),
        Setting("torch's default device", torch.get_default_device, _set_default_device),
        Setting("torch's gradient mode", torch.is_grad_enabled, torch.set_grad_enabled),
        Setting("torch's search for anomalies", torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
        Setting("torch's deterministic mode", _deterministic, lambda mode: torch.use_deterministic_algorithms(**mode)),
        Setting("torch's precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        Setting("cuDNN's search", lambda: cudnn.benchmark, lambda on: setattr(cudnn, "benchmark", on)),
        Setting("cuDNN's choice", lambda: cudnn.deterministic, lambda on: setattr(cudnn, "deterministic", on)),
        Setting("torch's number of threads", torch.get_num_threads, torch.set_num_threads),
        Setting("the random state of Python", random.getstate, random.setstate),
        Setting("the random state of NumPy", _numpy_state, rng.set_state),
        Setting("NumPy's treatment of errors", np.geterr, lambda kinds: np.seterr(**kinds)),
        Setting("the working folder", _working_folder, os.chdir),
        Setting(
            "the locale", lambda: locale.setlocale(locale.LC_ALL), lambda one: locale.setlocale(locale.LC_ALL, one)
        ),
        Setting("variables of the environment", _environment, _set_environment),
        Setting("the handlers of signals", _signal_handlers, _set_signal_handlers),
        Setting("the garbage collector", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
        Setting("the file mode mask", _umask, os.umask),
        *map(_attributes, MODULES),
        *map(_attributes, TYPES),
    )


def _deterministic() -> dict[str, bool]:
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    return {"mode": torch.are_deterministic_algorithms_enabled(), "warn_only": warn_only}


def _numpy_state() -> tuple[Any, ...]:
    name, keys, *others = np.random.get_state()
    return (name, tuple(keys), *others)  # an array cannot be compared with `==`


def _set_default_device(device: torch.device) -> None:
    torch.set_default_device(None if device.type == "cpu" else device)  # None takes the mode for each call away


def _working_folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - no more than a text that `chdir` takes
    except FileNotFoundError:  # deleted meanwhile
        return None


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(OF_LIBRARIES)}


def _set_environment(variables: Mapping[str, str]) -> None:
    for name in _environment().keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)


def _signal_handlers() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


def _set_signal_handlers(handlers: Mapping[int, Any]) -> None:
    for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _attributes(owner: ModuleType | type) -> Setting:
    """Look after the functions and classes of a library, which code can replace by its own; others may be added."""

    def read() -> dict[str, Any]:
        return {name: value for name, value in vars(owner).items() if callable(value)}

    def write(before: Mapping[str, Any]) -> None:
        for name in _replaced(owner, before, read()):
            if name in before:
                setattr(owner, name, before[name])
            else:
                delattr(owner, name)

    return Setting(
        f"functions of {owner.__module__ + '.' if isinstance(owner, type) else ''}{owner.__name__}",
        read,
        write,
        lambda before, now: not _replaced(owner, before, now),
    )


def _replaced(owner: ModuleType | type, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Name what is another one now, or hides what the type has inherited."""
    inherited = [vars(base) for base in owner.__mro__[1:]] if isinstance(owner, type) else []
    hiding = [name for name in now.keys() - before.keys() if any(name in names for names in inherited)]
    changed = hiding + [name for name, value in before.items() if now.get(name) is not value]
    return [name for name in changed if not _is_of(owner, now.get(name))]


def _is_of(owner: ModuleType | type, function: object) -> bool:
    """Whether the library itself has put it there, as torch does when it compiles for the first time."""
    library = (owner.__module__ if isinstance(owner, type) else owner.__name__).partition(".")[0]
    return str(getattr(function, "__module__", "")).partition(".")[0] == library


@contextmanager
def put_back(tell: Callable[[list[str]], None]) -> Iterator[None]:
    """Put back at the end of the block what code in it has changed in this process.

    Args:
        tell: Called with the names of what was put back, if there is any.
    """
    settings = _settings()
    before = [setting.read() for setting in settings]
    try:
        yield
    finally:
        changed = [
            (setting, value)
            for setting, value in zip(settings, before, strict=True)
            if not setting.is_same(value, setting.read())
        ]
        for setting, value in changed:
            with suppress(OSError, TypeError, ValueError, RuntimeError):  # such as a folder that is gone
                setting.write(value)
        if changed:
            tell([setting.name for setting, _ in changed])


def threads_left_behind(before: Collection[threading.Thread]) -> list[str]:
    """Name the threads of Python that were started since and still run, but for those that end with the process."""
    return [one.name for one in threading.enumerate() if one not in before and not one.daemon]
