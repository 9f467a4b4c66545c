"""The table of checks, and how they are gone through."""

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from augbench.bench.common.errors import UserError
from augbench.bench.common.user_code import USER_CODE_ERRORS, format_exception
from augbench.bench.conformance import (
    augmentation,
    cost,
    description,
    evaluating,
    hooks,
    learning,
    resuming,
    searching,
    starting,
)
from augbench.bench.conformance.outcome import ConformanceError, DoesNotApplyError, Outcome, Report, Result
from augbench.bench.conformance.states import global_states_restored
from augbench.bench.conformance.subject import Subject
from augbench.bench.contract.method import Method
from augbench.bench.experiment.spec import validated
from augbench.bench.training.environment import choose_device
from augbench.bench.training.process_state import put_back, threads_left_behind


@dataclass(frozen=True)
class Check:
    """One thing that a method must do.

    Attributes:
        name: What it is called.
        examine: Returns nothing, or a remark; raises ConformanceError, DoesNotApplyError or what the method raises.
        needs: Checks without which it makes no sense.
    """

    name: str
    examine: Callable[[Subject], str | None]
    needs: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        """What is checked, in a sentence."""
        return (self.examine.__doc__ or "").strip()


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
    with put_back(subject.changed.extend), global_states_restored():
        for check in CHECKS[:-1]:
            begin(check.name)
            outcome = _told_once(_outcome(check, subject, outcomes), outcomes.values())
            outcomes[check.name] = replace(outcome, meaning=check.meaning)
    subject.threads += threads_left_behind(threads)
    last = CHECKS[-1]
    outcomes[last.name] = replace(_outcome(last, subject, outcomes), meaning=last.meaning)
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


def _outcome(check: Check, subject: Subject, before: Mapping[str, Outcome]) -> Outcome:
    missing = [name for name in check.needs if before[name].result in (Result.FAILED, Result.LEFT_OUT)]
    if missing:
        return Outcome(check.name, Result.LEFT_OUT, f"while {missing[0]!r} is not passed")
    try:
        remark = check.examine(subject)
    except ConformanceError as error:
        return Outcome(check.name, Result.FAILED, error.wrong, error.advice)
    except DoesNotApplyError as reason:
        return Outcome(check.name, Result.DOES_NOT_APPLY, str(reason))
    except UserError as error:
        return Outcome(check.name, Result.FAILED, str(error))
    except USER_CODE_ERRORS as error:
        files = _files_of(subject.target)
        text = f"The method raised {format_exception(error, *files)}."
        return Outcome(check.name, Result.FAILED, text, hooks.advice_on(error, subject.target, files))
    return Outcome(check.name, Result.PASSED, remark or "")


def _told_once(outcome: Outcome, before: Iterable[Outcome]) -> Outcome:
    """Leave out a failure that says what an earlier one has said."""
    same = [one.check for one in before if one.result is Result.FAILED and one.text == outcome.text]
    if outcome.result is not Result.FAILED or not same:
        return outcome
    return Outcome(outcome.check, Result.LEFT_OUT, f"for the same reason as {same[0]!r}")


def _files_of(target: type[Any]) -> list[Path]:
    """Files of the class and of the classes that it is derived from, apart from the contract's own."""
    strangers = [one for one in target.__mro__ if one.__module__ != Method.__module__ and issubclass(one, Method)]
    files = [getattr(sys.modules.get(one.__module__), "__file__", None) for one in strangers]
    return [Path(file) for file in files if file]
