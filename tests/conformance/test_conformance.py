"""The conformance checks: sound methods pass all of them, each fault is caught by the check that is about it."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from augbench.bench.common.errors import UserError
from augbench.bench.conformance import CHECKS, Outcome, Report, Result, check_method, cost
from augbench.bench.contract.method import Hyperparameters, Method
from augbench.bench.experiment.catalogues import methods
from augbench.bench.registry.plugins import load_plugin, marked_classes

PLUGIN = load_plugin(Path(__file__).parents[1] / "shared" / "planted_faults.py")
PLANTED = {target.name: target for target in marked_classes(PLUGIN.module)} if PLUGIN.module else {}

# Fault: the checks that must fail, and no other, with what the first of them says.
FAULTS = {
    "no-paper": (["card"], "no paper"),
    "undescribed": (["hyperparameters"], "'strength' has no description"),
    "unlimited": (["hyperparameters"], "'strength' has neither limits nor choices"),
    "wrong-shape": (["images"], "made (56, 1, 13, 14) of a batch (28, 1, 14, 14) with 2 copies"),
    "one-copy": (["images"], "made (28, 1, 14, 14) of a batch (28, 1, 14, 14) with 2 copies"),
    "grey-only": (["images", "test policy"], "RuntimeError: "),
    "ends-the-process": (["images"], "SystemExit: 3 (line "),
    "bytes": (["values"], "type uint8"),
    "out-of-range": (["values"], "values from -0.94"),
    "one-image": (["values"], "not finite"),
    "in-place": (["inputs"], "changed the batch"),
    "unseeded": (["seed"], "`augment` drew something else with the same seed"),
    "global-torch": (["global randomness"], "`augment` draws from the global generator of torch"),
    "global-numpy": (["global randomness"], "`augment` draws from the global generator of NumPy"),
    "global-python": (["global randomness"], "`test_policy` draws from the global generator of Python"),
    "mean-loss": (["loss"], "the shape (28,) for 2 copies of 28 images"),
    "loss-without-gradient": (["loss"], "has no gradient"),
    "raises": (["step"], "ZeroDivisionError: division by zero (line "),
    "not-a-leaf": (["start"], "learnable['raw'] is computed from other tensors"),
    "detached": (["gradients"], "learnable['raw'] requires a gradient"),
    "frozen": (["learning"], "left everything in `learnable` unchanged"),
    "says-the-same": (["learning"], "`learned` returns the same"),
    "nan-learned": (["learned numbers"], "'strength' is nan"),
    "tensor-learned": (["learned numbers"], "of type Tensor"),
    "probability-above-one": (["learned numbers"], "'probability/darkening' is 1.5, not in [0, 1]"),
    "diverges": (["training"], "learnable['other'] is not finite"),
    "hidden-state": (["state", "resume"], "what `augment` draws differs"),
    "counts-steps": (["resume"], "after step 2 of 10 and resumed"),
    "forgets-schedule": (["state"], "what `test_policy` draws differs"),
    "saves-an-object": (["state"], "cannot be saved and loaded again"),
    "unseeded-search": (["search seed"], "Two searches with the same seed"),
    "peeking-search": (["search seed"], "depends on the test images"),
    "uncounted-search": (["search"], "reported 20 images to `count_passes`, but passed 115"),
    "destructive-search": (["search inputs"], "changed its training images"),
    "destroys-data": (["data"], "Search or training changed the train images or labels"),
    "policy-of-another-shape": (["test policy"], "made (34, 1, 14, 14) of a batch (17, 1, 14, 14)"),
    "policy-changes-images": (["test policy"], "changed the images"),
    "policy-learns": (["evaluation"], "learnable.raw differs"),
    "policy-uses-network": (["evaluation"], "changed the network"),
    "flat-transforms": (["transforms"], "(17, 2, 2)"),
    # What newcomers forget, misspell or return in another type.
    "search-without-searches": (["hooks"], "`search` that no run calls, since `searches` is False"),
    "searches-without-search": (["hooks"], "no `search` of its own"),
    "american-hook": (
        ["hooks"],
        "No run calls `regularizer`, though its name is close to that of the hook `regulariser`",
    ),
    "underscored-hook": (["hooks"], "close to that of the hook `after_epoch`"),
    "joined-hook": (["hooks"], "close to that of the hook `after_epoch`"),
    "draw-without-base": (["hooks"], "a `draw` that nothing calls"),
    "no-base-start": (["start"], "has no `hyperparameters` after its `__init__`"),
    "no-base-start-used": (["start"], "has no attribute 'context'"),
    "no-draw": (["start"], "has no `draw`"),
    "no-hyperparameters-type": (
        ["hyperparameters"],
        "is for OwnHyperparameters, but its hyperparameters_type is Hyper",
    ),
    "no-hyperparameters-type-said": (["start"], "'Hyperparameters' object has no attribute 'rate'"),
    "empty-state": (["start"], "`state_dict` returned nothing under 'learnable'"),
    "no-zero-grad": (["resume"], "after step 2 of 10 and resumed"),
    "no-network": (["start"], "`wrap_network` returned NoneType"),
    "regulariser-tuple": (["regulariser"], "`regulariser` returned tuple."),
    "regulariser-vector": (["regulariser"], "`regulariser` returned Tensor of shape (2,)"),
    "learned-list": (["learned numbers"], "`learned` returned list"),
    "learnable-list": (["start"], "`learnable` is of type list"),
    "learnable-number": (["start"], "learnable['raw'] is of type float"),
    "bare-optimizer": (["start"], "`optimizers` is of type Adam"),
    "policy-text": (["test policy"], "`test_policy` returned str"),
    "mirrors-other-than-it-says": (["described policy"], "has another law than the method's own draws"),
    "draw-of-numbers": (["images", "transforms"], "AttributeError: "),
    "forgetful-search": (["learning"], "left everything in `learnable` unchanged"),
    "forgetful-step": (["learning"], "left everything in `learnable` unchanged"),
}


ADVICE = {
    "no-base-start": "Call super().__init__(hyperparameters, context) first",
    "no-base-start-used": "Call super().__init__(hyperparameters, context) first",
    "no-hyperparameters-type-said": "Set the class attribute `hyperparameters_type`",
    "no-zero-grad": "gradients are not saved: clear them in `after_backward`",
    "draw-of-numbers": "The traceback has no line of the method, but shows a call of `draw`: it must return a Draw,",
}


@pytest.fixture(autouse=True)
def quick_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time one step only."""
    monkeypatch.setattr(cost, "STEPS", 1)


@cache
def report_of(name: str) -> Report:
    """Check a planted method."""
    return check_method(PLANTED[name])


def failed(report: Report) -> list[str]:
    return [failure.check for failure in report.failures]


def outcome_of(report: Report, check: str) -> Outcome:
    return next(outcome for outcome in report.outcomes if outcome.check == check)


@pytest.mark.parametrize("name", [entry.name for entry in methods()])
def test_every_method_of_the_project_keeps_the_contract(name: str) -> None:
    report = check_method(methods().get(name))
    assert report.passed, report


@pytest.mark.parametrize("name", ["sound", "sound-search"])
def test_a_sound_method_passes_every_check(name: str) -> None:
    report = report_of(name)
    assert report.passed, report
    apart = [outcome.check for outcome in report.outcomes if outcome.result is not Result.PASSED]
    searching = [] if name == "sound-search" else ["search", "search inputs", "search seed"]
    assert apart == sorted([*searching, "transforms", "described policy"], key=[check.name for check in CHECKS].index)
    assert str(report) == f"{name} passes all checks."


def each_fault() -> Iterator[Any]:
    """One fault that each check is about, and those that end early; the others are slow."""
    seen = set[str]()
    for name, ((check, *_), _) in FAULTS.items():
        is_quick = check not in seen or check in ("card", "hyperparameters", "hooks", "start")
        yield pytest.param(name, marks=[] if is_quick else [pytest.mark.slow])
        seen.add(check)


@pytest.mark.parametrize("name", list(each_fault()))
def test_a_fault_is_caught_by_the_check_that_is_about_it(name: str) -> None:
    checks, text = FAULTS[name]
    report = report_of(name)
    assert failed(report) == checks, report
    assert text in report.failures[0].text
    assert all(failure.advice for failure in report.failures)
    assert ADVICE.get(name, "") in report.failures[0].advice


def test_every_fault_that_is_planted_is_looked_for() -> None:
    assert set(PLANTED) == {*FAULTS, "sound", "sound-search", "quick-typo", "given", "spoken"}


def test_what_is_given_need_not_be_learned() -> None:
    """A fixed tensor in `learnable` is saved with the run; that it stays as it is is no fault."""
    report = report_of("given")
    assert report.passed, report
    assert outcome_of(report, "learning").result is Result.DOES_NOT_APPLY
    policy = [[["ShearX", 0.5, 0.3], ["Invert", 0.2, 0.1]]]
    report = check_method(methods().get("fast-aa"), {"policy": policy})
    assert report.passed, report


def test_a_name_that_is_a_little_like_a_hooks_is_remarked_upon() -> None:
    report = report_of("spoken")
    assert report.passed, report
    assert outcome_of(report, "hooks").text == "`losses` is no hook and no run calls it; is `loss` meant?"


def test_an_exception_names_the_line_of_the_method() -> None:
    (failure,) = report_of("raises").failures
    number = re.search(r"\(line (\d+) of planted_faults\.py\)", failure.text)
    assert number is not None
    assert "self.context.epochs / 0" in PLUGIN.path.read_text().splitlines()[int(number[1]) - 1]


def test_wrong_quick_hyperparameters_are_the_methods_fault_and_given_ones_the_users() -> None:
    report = report_of("quick-typo")
    assert failed(report) == ["hyperparameters"]
    assert "no key 'learning_rat'. Did you mean 'learning_rate'?" in report.failures[0].text
    with pytest.raises(UserError, match=r"no key 'learning_rat'\. Did you mean 'learning_rate'"):
        check_method(PLANTED["sound"], {"learning_rat": 0.1})


def test_hyperparameters_are_passed_on_and_an_absurd_cost_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, target = [], PLANTED["sound"]
    start = target.__init__

    def remember(self: Method[Any], hyperparameters: Any, context: Any) -> None:
        seen.append(hyperparameters.learning_rate)
        start(self, hyperparameters, context)

    monkeypatch.setattr(target, "__init__", remember)
    monkeypatch.setattr(cost, "ABSURD", 0.0)
    (failure,) = check_method(target, {"learning_rate": 0.25}).failures
    assert set(seen) == {0.25}
    assert failure.check == "cost"
    assert re.match(r"A step takes \d+\.\d × the step of `none` on as many images", failure.text)


def test_a_class_without_a_name_is_a_users_mistake() -> None:
    class Nameless(Method[Hyperparameters]):
        """Has no decorator."""

    with pytest.raises(UserError, match=r'Nameless is not registered: put @register\("a-name"\)'):
        check_method(Nameless)


def test_a_check_leaves_catalogue_and_global_generators_alone() -> None:
    before = dict(methods().entries)
    torch.manual_seed(5)
    np.random.seed(5)
    check_method(PLANTED["sound"])
    drawn = torch.rand(1).item(), np.random.rand()
    torch.manual_seed(5)
    np.random.seed(5)
    assert drawn == (torch.rand(1).item(), np.random.rand())
    assert methods().entries == before


def test_the_report_as_text_says_what_to_do() -> None:
    text = str(report_of("mean-loss"))
    assert text.startswith(f"mean-loss fails 1 of {len(CHECKS)} checks.\nloss: `loss` returned the shape (28,)")
    assert 'Return (copies, images), with reduction="none"' in text
