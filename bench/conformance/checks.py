"""The table of checks, and how they are gone through."""

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from augbench.bench.common.errors import UserError
from augbench.bench.common.user_code import format_exception
from augbench.bench.conformance import (
    augmentation,
    cost,
    describing,
    description,
    evaluating,
    hooks,
    learning,
    resuming,
    searching,
    starting,
)
from augbench.bench.conformance.outcome import Check, Outcome, Report, go_through
from augbench.bench.conformance.states import global_states_restored
from augbench.bench.conformance.subject import Subject
from augbench.bench.contract.method import Method
from augbench.bench.experiment.spec import validated
from augbench.bench.training.process_state import put_back, threads_left_behind
from augbench.bench.training.provenance import choose_device

CHECKS = (
    Check("card", description.card),
    Check("hyperparameters", description.hyperparameters),
    Check("hooks", hooks.hooks),
    Check("start", starting.start, ("hyperparameters",)),
    Check("search", searching.search, ("start",)),
    Check("search inputs", searching.search_inputs, ("start", "search")),
    Check("images", augmentation.images, ("start", "search")),
    Check("values", augmentation.values, ("images",)),
    Check("inputs", augmentation.inputs, ("images",)),
    Check("test policy", evaluating.policy, ("start", "search")),
    Check("transforms", evaluating.transforms, ("start", "search")),
    Check("seed", augmentation.seed, ("images",)),
    Check("global randomness", augmentation.global_randomness, ("seed",)),
    Check("order", augmentation.order, ("values", "global randomness")),
    Check("loss", learning.loss, ("images",)),
    Check("regulariser", learning.regulariser, ("images",)),
    Check("step", learning.step, ("loss", "regulariser")),
    Check("learned numbers", learning.learned_numbers, ("step",)),
    Check("training", learning.training, ("learned numbers", "values")),
    Check("search seed", searching.search_seed, ("training",)),
    Check("gradients", learning.gradients, ("training",)),
    Check("learning", learning.learning, ("gradients",)),
    Check("data", evaluating.data, ("training",)),
    Check("state", resuming.state, ("training", "seed")),
    Check("resume", resuming.resume, ("data", "global randomness")),
    Check("evaluation", evaluating.evaluation, ("training", "test policy")),
    Check("described policy", describing.described, ("training", "test policy")),
    Check("cost", cost.cost, ("training",)),
    Check("process", starting.process),  # the last: it is about what the others have seen
)


def check_method(
    target: type[Method[Any]],
    hyperparameters: Mapping[str, Any] | None = None,
    device: str = "cpu",
    begin: Callable[[str], None] = lambda name: None,
) -> Report:
    """Check whether a method keeps the contract, on small made-up images.

    In a test: `report = check_method(MyMethod)`, then `assert report.passed, report`.

    Args:
        target: The class, registered by the decorator.
        hyperparameters: Values on top of the method's `quick_hyperparameters`.
        device: Where to check it.
        begin: Called with the name of each check when it begins.

    Raises:
        UserError: If the class has no name, a value is wrong or the device does not exist.
    """
    if not isinstance(vars(target).get("name"), str):
        raise UserError(f'{target.__name__} is not registered: put @register("a-name") above the class.')
    subject = Subject(target, _settings(target, hyperparameters or {}), choose_device(device))
    outcomes: dict[str, Outcome] = {}
    threads = threading.enumerate()
    explain = partial(_explain, target, _files_of(target))
    with put_back(subject.changed.extend), global_states_restored():
        go_through(CHECKS[:-1], subject, outcomes, begin, explain)
    subject.threads += threads_left_behind(threads)
    go_through(CHECKS[-1:], subject, outcomes, begin, explain)
    return Report(target.name, tuple(outcomes.values()))


def _settings(target: type[Method[Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """Quick values with those that are given on top, without quick ones that mean nothing beside what is given.

    Wrong ones are the user's mistake only if they were given.
    """
    model, quick = target.hyperparameters_type, target.quick_hyperparameters
    merged = {**quick, **given}
    if given and not _is_valid(model, merged):
        validated(model, given, f"{target.name!r}")
        return dict(given) if _is_valid(model, quick) else merged
    return merged


def _is_valid(model: type[Any], values: Mapping[str, Any]) -> bool:
    try:
        validated(model, values, "")
    except UserError:
        return False
    return True


def _explain(target: type[Method[Any]], files: Sequence[Path], error: BaseException) -> tuple[str, str]:
    return f"The method raised {format_exception(error, *files)}.", hooks.advice_on(error, target, files)


def _files_of(target: type[Any]) -> list[Path]:
    """Files of the class and of the classes that it is derived from, apart from the contract's own."""
    strangers = [one for one in target.__mro__ if one.__module__ != Method.__module__ and issubclass(one, Method)]
    files = [getattr(sys.modules.get(one.__module__), "__file__", None) for one in strangers]
    return [Path(file) for file in files if file]
