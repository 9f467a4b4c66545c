"""Commands in messages: whatever is in a path, a shell takes them as they are meant."""

import re
import shlex
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augbench.bench.common.errors import to_paste
from augbench.bench.runs.run_folder import RunState

CommandLine = Callable[..., tuple[int, str, str]]

COMMAND = re.compile(r"`(augbench [^`]*)`|(augbench failures .*)$", re.MULTILINE)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.text()))
def test_a_command_is_read_as_the_words_that_it_was_made_of(words: list[str]) -> None:
    assert shlex.split(to_paste(*words)) == ["augbench", *words]


def test_a_shell_expands_nothing() -> None:
    words = ["run", "SUITE", "--out", "a b", "$HOME", "`id`", "$(id)", "it's", 'a "b"', "~", "*", "\\n", "%s"]
    echo = f"augbench() {{ printf '%s\\n' \"$@\"; }}; {to_paste(*words)}"
    assert subprocess.run(["bash", "-c", echo], capture_output=True, text=True).stdout.splitlines() == words


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["status", "--out", "{out}"], "failures"),
        (["watch", "--out", "{out}"], "failures"),
        (["cancel", "--all", "--yes", "--out", "{out}"], "retry"),
        (["retry", "--out", "{out}"], "failures"),
        (["tables", "--from", "{out}"], "run"),
        (["probe", "{out}", "--out", "x"], "run"),
        (["bound", "{run}", "--lipschitz", "1", "--loss-range", "0", "1"], "run"),
        (["plan", "demo", "--out", "{out}"], "plan"),
    ],
)
def test_commands_in_messages_hold_the_path_as_it_is(
    arguments: list[str], said: str, plant: Any, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    plant.out = plant.out.with_name("my $HOME; it's")
    folder = plant.ended(RunState.FAILED, "scale", cause="exception", exception="ValueError")
    if said == "retry":
        plant.submitted(plant.planned())
    (plant.out / "calibration.json").write_text("damaged")
    _, text, errors = augbench(*(word.format(out=plant.out, run=folder.path) for word in arguments))
    commands = [shlex.split(quoted or plain) for quoted, plain in COMMAND.findall(text + errors)]
    of_path = [words for words in commands if words[1] == said and "--out" in words]
    assert of_path
    assert all(words[words.index("--out") + 1] == str(plant.out) for words in of_path)
