"""`augbench check method`: exit status, what it prints, and the user's mistakes."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from augbench.bench.conformance import CHECKS

CommandLine = Callable[..., tuple[int, str, str]]
PLANTED = Path(__file__).parents[1] / "shared" / "planted_faults.py"


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
    code, text, errors = augbench("--plugin", PLANTED, "check", "method", "spoken", "--json")
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
    arguments = [argument for context in settings for argument in ("--set", context)]
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


ENDING = Path(__file__).parent.parent / "plugins" / "ending.py"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hanging", r"did not finish within 20 s, in the check 'images', at line \d+ of ending.py \(`augment`\)"),
        ("leaving", r"ended by itself with status 0, at line \d+ of ending.py \(`start_epoch`\)"),
        ("crashing", r"was killed by SIG\w+, at line \d+ of ending.py \(`start_epoch`\)"),
    ],
)
def test_a_method_that_ends_the_process_or_never_ends_is_reported(name: str, words: str, augbench: CommandLine) -> None:
    code, text, errors = augbench("--plugin", ENDING, "check", "method", name, "--limit", "20")
    assert code == 2
    assert re.search(words, errors), errors
    assert "Traceback" not in text + errors


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("threaded", "process", "Threads that it started still run: left behind"),
        ("float64", "process", "It changes settings of the whole process: torch's default type."),
        ("interleaved", "order", "Another image in place 0 of a batch of 28 changed copy 0 of image 1."),
        ("reversed", "order", "Another image in place 0 of a batch of 28 changed copy"),
        ("no-number", "regulariser", "`regulariser` returned nan."),
    ],
)
def test_what_a_run_would_not_notice_is_found(name: str, check: str, words: str, augbench: CommandLine) -> None:
    code, text, _ = augbench("--plugin", ENDING, "check", "method", name, "--json")
    assert code == 1
    (failed,) = [one for one in json.loads(text)["checks"] if one["result"] == "failed" and one["check"] == check]
    assert words in failed["text"]


def test_a_setting_is_given_once(augbench: CommandLine) -> None:
    code, _, errors = augbench("check", "method", "scale", "--set", "copies=9", "--set", "copies=4")
    assert code == 2
    assert "--set gives copies twice" in errors


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("", 0, "dots keeps the contract"),
        ("change", 1, "`train.images` is another one when the data set is loaded again"),
        ("same", 1, "Every test image is a training image, too"),
        ("leave", 2, "ended by itself with status 0, at line"),
        ("hang", 2, "did not finish within 20 s, in the check 'load', at line"),
    ],
)
def test_data_sets_are_checked(how: str, code: int, words: str, augbench: CommandLine) -> None:
    done, text, errors = augbench(
        "--plugin", ENDING, "check", "dataset", "dots", "--set", f"how={how}", "--limit", "20"
    )
    assert done == code
    assert words in " ".join((text + errors).split())


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("tiny", 0, "tiny keeps the contract"),
        ("linear", 0, "linear keeps the contract"),
        ("unused", 1, "No gradient reaches unused.weight, unused.bias"),
        ("batchwise", 1, "The logits of an image depend on the other images of the batch"),
        ("linaer", 2, "Did you mean 'linear'?"),
    ],
)
def test_networks_are_checked(name: str, code: int, words: str, augbench: CommandLine) -> None:
    done, text, errors = augbench("--plugin", ENDING, "check", "network", name)
    assert done == code
    assert words in " ".join((text + errors).split())


@pytest.mark.parametrize(("how", "words"), [("leave", "the process ended by itself with status 0"), ("float", "")])
def test_a_data_set_that_ends_the_process_is_said_before_a_launch(
    how: str, words: str, augbench: CommandLine, tmp_path: Path
) -> None:
    suite = tmp_path / "s.toml"
    suite.write_text(
        'name = "s"\ntitle = "s"\nseeds = [0]\n[[comparisons]]\nnetwork = "tiny"\nbudget = { epochs = 1 }\n'
        f'datasets = [{{ name = "dots", options = {{ how = "{how}" }} }}]\nmethods = [{{ name = "none" }}]\n'
    )
    code, _, errors = augbench("--plugin", ENDING, "run", suite, "--out", tmp_path / "out", "--dry-run")
    assert code == (2 if words else 0)
    assert words in errors
