"""`augbench check`: exit status, what it prints, and the user's mistakes."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from augbench.bench.conformance import CHECKS
from augbench.bench.conformance.apart_tasks import TASKS

CommandLine = Callable[..., tuple[int, str, str]]
SHARED = Path(__file__).parents[1] / "shared"
ENDING = Path(__file__).parents[1] / "plugins" / "ending.py"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have checks done in this process, which is faster than in one of their own."""

    def run(what: str, order: dict[str, Any], seconds: float, show: Callable[[str], None]) -> dict[str, Any]:
        return TASKS[order["do"]](order, lambda place: show(place))

    monkeypatch.setattr("augbench.bench.conformance.apart.run_apart", run)


@pytest.mark.usefixtures("here")
def test_a_method_that_keeps_the_contract(augbench: CommandLine) -> None:
    code, text, _ = augbench("check", "method", "none")
    assert code == 0
    assert "none keeps the contract." in text
    assert all(check.name in text for check in CHECKS)
    assert "has no search phase" in text
    assert "× the step of `none`" in text


@pytest.mark.usefixtures("here")
def test_a_method_that_does_not(augbench: CommandLine) -> None:
    code, text, errors = augbench("--plugin", SHARED / "planted_faults.py", "check", "method", "mean-loss")
    assert code == 1
    assert f"mean-loss does not keep the contract: it fails 1 of {len(CHECKS)} checks." in text
    assert "`loss` returned the shape (28,) for 2 copies of 28 images." in " ".join(text.split())
    assert 'reduction="none"' in text, "what to do"
    assert "while 'loss' is not passed" in text
    assert "Traceback" not in text + errors


def failures_as_json(augbench: CommandLine, name: str) -> dict[str, dict[str, Any]]:
    """Check a method that has faults; returns the checks that it fails."""
    code, text, _ = augbench("--plugin", ENDING, "check", "method", name, "--json")
    report = json.loads(text)
    assert (code, report["method"], report["passed"]) == (1, name, False)
    assert [one["check"] for one in report["checks"]] == [check.name for check in CHECKS]
    return {one["check"]: one for one in report["checks"] if one["result"] == "failed"}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("float64", "process", "It changes settings of the whole process: torch's default type."),
        ("interleaved", "order", "Another image in place 0 of a batch of 28 changed copy 0 of image 1."),
        ("reversed", "order", "Another image in place 0 of a batch of 28 changed copy"),
        ("no-number", "regulariser", "`regulariser` returned nan."),
    ],
)
def test_failures_as_json(name: str, check: str, words: str, augbench: CommandLine) -> None:
    failed = failures_as_json(augbench, name)
    assert words in failed[check]["text"]
    assert failed[check]["advice"]


@pytest.mark.slow
def test_a_thread_that_is_left_behind_is_a_failure_and_keeps_nothing_from_ending(augbench: CommandLine) -> None:
    (failure,) = failures_as_json(augbench, "threaded").values()
    assert (failure["check"], "Threads that it started still run: left behind" in failure["text"]) == ("process", True)


@pytest.mark.slow
def test_what_a_method_prints_does_not_spoil_json(augbench: CommandLine) -> None:
    code, text, errors = augbench("--plugin", SHARED / "planted_faults.py", "check", "method", "spoken", "--json")
    assert code == 0
    assert json.loads(text)["passed"]
    assert "augmenting" in errors


@pytest.mark.usefixtures("here")
def test_values_are_read_as_in_toml_and_texts_need_no_quotes(augbench: CommandLine) -> None:
    settings = ["--set", "copies=2", "--set", "estimator=rloo", "--set", "learning_rate = 0.01"]
    code, text, _ = augbench("check", "method", "scale", *settings, "--json")
    assert code == 0, text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "estimator"], "--set estimator is no KEY=VALUE, such as --set learning_rate=0.1."),
        (["--set", "=1"], "--set =1 is no KEY=VALUE"),
        (["--set", "copies=9", "--set", "copies=4"], "--set gives copies twice"),
        (["--set", "learning_rate=abc"], "learning_rate: Input should be a valid number (given: 'abc')"),
        (["--set", "learning_rat=1"], "no key 'learning_rat'. Did you mean 'learning_rate'?"),
        (["--set", "estimator=rloo", "--set", "copies=1"], "the estimator 'rloo' needs copies of at least 2"),
        (["--set", "copies=2\ncopies=3"], "copies: Input should be a valid integer"),
        (["--device", "tpu"], "no device 'tpu'"),
    ],
)
@pytest.mark.usefixtures("here")
def test_mistakes_of_the_user(options: list[str], words: str, augbench: CommandLine) -> None:
    code, _, errors = augbench("check", "method", "scale", *options)
    assert code == 2
    assert errors.startswith("Error: ")
    assert words in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["method", "hanging"],
            r"did not finish within 30 s, in the check 'images', at line \d+ of ending.py \(`augment`\)",
        ),
        (["method", "leaving"], r"ended by itself with status 0, at line \d+ of ending.py \(`start_epoch`\)"),
        (["method", "crashing"], r"was killed by SIG\w+, at line \d+ of ending.py \(`start_epoch`\)"),
        (["dataset", "dots", "--set", "how=leave"], "ended by itself with status 0, at line"),
    ],
)
def test_what_ends_the_process_or_never_ends_is_reported(
    arguments: list[str], words: str, augbench: CommandLine
) -> None:
    code, text, errors = augbench("--plugin", ENDING, "check", *arguments, "--limit", "30")
    assert code == 2
    assert re.search(words, errors), errors
    assert "Traceback" not in text + errors


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["dataset", "dots"], 0, "dots keeps the contract"),
        (["dataset", "dots", "how=change"], 1, "`train.images` differs when the data set is loaded again"),
        (["dataset", "dots", "how=same"], 1, "Every test image is a training image, too"),
        (["network", "tiny"], 0, "tiny keeps the contract"),
        (["network", "linear"], 0, "linear keeps the contract"),
        (["network", "unused"], 1, "No gradient reaches unused.weight, unused.bias"),
        (["network", "batchwise"], 1, "The logits of an image depend on the other images of the batch"),
        (["network", "linaer"], 2, "Did you mean 'linear'?"),
    ],
)
@pytest.mark.usefixtures("here")
def test_data_sets_and_networks_are_checked(arguments: list[str], code: int, words: str, augbench: CommandLine) -> None:
    what, name, *settings = arguments
    options = [option for setting in settings for option in ("--set", setting)]
    done, text, errors = augbench("--plugin", ENDING, "check", what, name, *options)
    assert done == code
    assert words in " ".join((text + errors).split())


@pytest.mark.slow
@pytest.mark.parametrize(("how", "words"), [("leave", "the process ended by itself with status 0"), ("float", "")])
def test_a_data_set_that_ends_the_process_is_said_before_a_launch(
    how: str, words: str, augbench: CommandLine, write_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = write_suite(dataset=f'{{ name = "dots", options = {{ how = "{how}" }} }}')
    code, _, errors = augbench("--plugin", ENDING, "run", suite, "--out", tmp_path / "out", "--dry-run")
    assert code == (2 if words else 0)
    assert words in errors
