"""`augbench check method`: exit status, what it prints, and the user's mistakes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from augbench.bench.conformance import CHECKS

CommandLine = Callable[..., tuple[int, str, str]]
PLANTED = Path(__file__).parent.parent / "bench" / "planted_faults.py"


def test_a_method_that_keeps_the_contract(augbench: CommandLine) -> None:
    code, text, _ = augbench("check", "method", "none")
    assert code == 0
    assert "none keeps the contract." in text
    assert all(check.name in text for check in CHECKS)
    assert "has no search phase" in text
    assert "× the step of `none`" in text


def test_a_method_that_does_not(augbench: CommandLine) -> None:
    code, text, _ = augbench("--plugin", PLANTED, "check", "method", "mean-loss")
    assert code == 1
    assert f"mean-loss does not keep the contract: it fails 1 of {len(CHECKS)} checks." in text
    assert "`loss` returned the shape (28,) for 2 copies of 28 images." in " ".join(text.split())
    assert 'reduction="none"' in text, "what to do"
    assert "while 'loss' is not passed" in text


def test_a_method_that_raises_is_no_traceback(augbench: CommandLine) -> None:
    code, text, errors = augbench("--plugin", PLANTED, "check", "method", "raises")
    assert code == 1
    assert "Traceback" not in text + errors
    assert "The method raised ZeroDivisionError: division by zero (line " in " ".join(text.split())


def test_as_json(augbench: CommandLine) -> None:
    code, text, _ = augbench("--plugin", PLANTED, "check", "method", "mean-loss", "--json")
    report = json.loads(text)
    assert code == 1
    assert report["method"] == "mean-loss"
    assert report["passed"] is False
    assert [check["check"] for check in report["checks"]] == [check.name for check in CHECKS]
    (failure,) = [check for check in report["checks"] if check["result"] == "failed"]
    assert failure["check"] == "loss"
    assert failure["advice"]


def test_what_a_method_prints_does_not_spoil_json(augbench: CommandLine) -> None:
    code, text, errors = augbench(
        "--plugin", PLANTED.with_name("planted_slips.py"), "check", "method", "spoken", "--json"
    )
    assert code == 0
    assert json.loads(text)["passed"]
    assert "augmenting" in errors


def test_values_are_read_as_in_toml_and_texts_need_no_quotes(augbench: CommandLine) -> None:
    settings = ["--set", "copies=2", "--set", "estimator=rloo", "--set", "learning_rate = 0.01"]
    code, text, _ = augbench("check", "method", "scale", *settings, "--json")
    assert code == 0, text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["learning_rat=1"], "no key 'learning_rat'. Did you mean 'learning_rate'?"),
        (["learning_rate=abc"], "learning_rate: Input should be a valid number (given: 'abc')"),
        (["learning_rate=2.0"], "learning_rate: Input should be less than or equal to 1 (given: 2.0)"),
        (["copies=2.5"], "copies: Input should be a valid integer (given: 2.5)"),
        (["estimator=rloo", "copies=1"], "the estimator 'rloo' needs copies of at least 2"),
        (["estimator"], "--set estimator is no KEY=VALUE, such as --set learning_rate=0.1."),
        (["=1"], "--set =1 is no KEY=VALUE"),
        (["copies=2\ncopies=3"], "copies: Input should be a valid integer"),
    ],
)
def test_wrong_settings_are_a_mistake_of_the_user(settings: list[str], words: str, augbench: CommandLine) -> None:
    arguments = [argument for setting in settings for argument in ("--set", setting)]
    code, _, errors = augbench("check", "method", "scale", *arguments)
    assert code == 2
    assert errors.startswith("Error: ")
    assert words in errors
    assert "Traceback" not in errors


def test_unknown_names(augbench: CommandLine) -> None:
    code, _, errors = augbench("check", "method", "scael")
    assert code == 2
    assert "no method 'scael'. Did you mean 'scale'?" in errors
    code, _, errors = augbench("check", "method", "scale", "--device", "tpu")
    assert code == 2
    assert "no device 'tpu'" in errors
    assert augbench("check", "network", "tiny")[0] == 2
