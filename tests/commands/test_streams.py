"""Standard input, output and error: any encoding, closed, full, or no terminal."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from rich.table import Table

from augbench.bench.commands.plain import new_console
from augbench.bench.commands.screen import is_screen
from augbench.bench.commands.streams import prepare_streams, readable

CommandLine = Callable[..., tuple[int, str, str]]

MOVES = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]")  # what a terminal obeys, other than colours


def in_a_shell(command: str, begin: str = "exec ", **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run `augbench` in a shell, which can close streams."""
    line = f'{begin}"{sys.executable}" -m augbench {command}'
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=os.environ | environment)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], BytesIO]:
    """Give standard output an encoding; returns what takes its bytes."""

    def begin(encoding: str) -> BytesIO:
        taken = BytesIO()
        monkeypatch.setattr("sys.stdout", TextIOWrapper(taken, encoding))
        monkeypatch.setattr("sys.stderr", TextIOWrapper(BytesIO(), encoding))
        prepare_streams()
        return taken

    return begin


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("ascii", "97.9 +- 0.1, alpha <= 45 deg, Orsted, ?"),
        ("us-ascii", "97.9 +- 0.1, alpha <= 45 deg, Orsted, ?"),
        ("latin-1", "97.9 ± 0.1, alpha <= 45°, Ørsted, ?"),
        ("utf-8", "97.9 ± 0.1, α ≤ 45°, Ørsted, 中"),
    ],
)
def test_whatever_prints_writes_replacements_for_what_a_stream_lacks(
    encoding: str, said: str, written: Callable[[str], BytesIO]
) -> None:
    taken = written(encoding)
    text = "97.9 ± 0.1, α ≤ 45°, Ørsted, 中"
    typer.echo(text)
    Console().print(text, highlight=False)
    table = Table("heading")
    table.add_row("cell")
    Console().print(table)
    lines = taken.getvalue().decode(encoding).splitlines()
    assert lines[:2] == [said] * 2
    assert lines[2].startswith("┏━" if encoding == "utf-8" else "+-")


def test_replacements_are_ascii_and_say_what_is_meant() -> None:
    assert [readable(one) for one in "±·…πΣé²\udcff"] == ["+-", ".", "...", "pi", "Sigma", "e", "2", "?"]
    assert all(readable(chr(number)).isascii() for number in range(0x80, 0x3000))


def test_the_command_line_takes_care_of_its_streams() -> None:
    said = in_a_shell("list budgets", PYTHONIOENCODING="ascii")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.isascii()


@pytest.mark.parametrize("command", ["list suites", "--version", "--help"])
def test_a_full_disk_behind_standard_output_is_said_in_one_sentence(command: str) -> None:
    said = in_a_shell(f"{command} > /dev/full")
    assert said.returncode == 2
    assert said.stderr.startswith("Error: Standard output cannot be written to: No space left on device.")
    assert said.stderr.count("\n") == 1


def test_a_full_disk_behind_standard_error_changes_no_exit_status() -> None:
    said = in_a_shell("list suites x 2> /dev/full")
    assert (said.returncode, said.stdout) == (2, "")


def test_a_reader_that_has_read_enough_is_no_error() -> None:
    said = in_a_shell("list suites demo | head -1", begin="")
    assert (said.stdout.count("\n"), said.stderr) == (1, "")


@pytest.mark.parametrize(("closed", "shown"), [(">&-", False), ("2>&-", True), ("<&- >&- 2>&-", False)])
def test_closed_streams_are_as_if_nobody_read_them(closed: str, shown: bool) -> None:
    said = in_a_shell(f"list suites {closed}")
    assert (said.returncode, said.stderr) == (0, "")
    assert ("digits" in said.stdout) is shown


@pytest.mark.parametrize(
    ("terminal", "variables", "moves"),
    [
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm", "FORCE_COLOR": "1"}, False),
        (False, {"TERM": "xterm", "TTY_COMPATIBLE": "1"}, False),
    ],
)
def test_things_move_on_terminals_alone(
    terminal: bool, variables: dict[str, str], moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    reader, writer = pty.openpty() if terminal else os.pipe()
    with os.fdopen(writer, "w") as file:
        assert is_screen(Console(file=file)) is moves
    os.close(reader)


def test_colours_that_are_asked_for_move_nothing(
    plant: Any, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    plant.done()
    for command in (("watch", "--out", plant.out), ("list", "methods", "scale")):
        code, text, errors = augbench(*command)
        assert code == 0
        assert not MOVES.findall(text + errors)


@pytest.mark.slow
def test_a_log_has_a_line_for_each_run_though_colours_are_asked_for(
    write_suite: Callable[..., Path], tmp_path: Path
) -> None:
    said = in_a_shell(f"run {write_suite(seeds=(0, 1))} --out {tmp_path}/out --workers 1 < /dev/null", FORCE_COLOR="1")
    assert said.returncode == 0
    assert not MOVES.findall(said.stdout + said.stderr)
    assert re.findall(r"^\[(\d)/2\] none_mnist5k_.*: done$", said.stdout, re.MULTILINE) == ["1", "2"]


@pytest.mark.slow
def test_bars_are_drawn_on_a_terminal(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "augbench", "run", write_suite(), "--out", tmp_path / "out"]
    reader, writer = pty.openpty()
    with subprocess.Popen(
        command, stdin=writer, stdout=writer, stderr=writer, env=os.environ | {"TERM": "xterm"}
    ) as run:
        os.close(writer)
        shown = b""
        with suppress(OSError):  # how a terminal says that nobody writes to it any more
            while more := os.read(reader, 4096):
                shown += more
    os.close(reader)
    assert run.returncode == 0
    assert MOVES.findall(shown.decode())
    assert "[1/1] none_mnist5k" not in shown.decode()


def test_what_is_shown_stands_as_it_is_even_where_it_looks_like_markup(capsys: pytest.CaptureFixture[str]) -> None:
    odd = "scale [red] :cat: [/red]"
    table = Table("method", title=odd)
    table.add_row(odd)
    new_console().print(table, odd)
    new_console(errors=True).print(odd)
    shown = capsys.readouterr()
    assert (shown.out.count(odd), shown.err.count(odd)) == (3, 1)
