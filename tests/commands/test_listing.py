"""`augbench list`: cards on a terminal and in a pipe, and suites as text to copy."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from augbench.bench.commands import listing
from augbench.bench.experiment.suite import built_in_suites

CommandLine = Callable[..., tuple[int, str, str]]


class Screen(io.StringIO):
    """Text that a terminal has got."""

    def isatty(self) -> bool:
        """Say that it is one."""
        return True


@pytest.fixture
def on_terminal(augbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Run the command as on a terminal of 60 columns; returns the lines it shows."""

    def run(*arguments: str) -> list[str]:
        screen = Screen()
        monkeypatch.setattr(listing, "new_console", lambda: Console(file=screen, force_terminal=True, width=60))
        assert augbench(*arguments)[0] == 0
        return screen.getvalue().splitlines()

    return run


def test_a_terminal_gets_whole_words_with_a_hanging_indent(
    augbench: CommandLine, on_terminal: Callable[..., list[str]]
) -> None:
    _, piped, _ = augbench("list", "methods", "fast-aa")
    lines = on_terminal("list", "methods", "fast-aa")
    long_words = [word for word in piped.split() if len(word) > 50]  # which stick out rather than being broken
    assert all(len(line) <= 60 for line in lines if not any(word in line for word in long_words))
    assert " ".join(lines).split() == piped.split()
    (start,) = [index for index, line in enumerate(lines) if line.startswith("  search_images: ")]
    assert lines[start + 1].startswith(" " * 6)
    assert not lines[start + 1].startswith(" " * 7)


def test_a_pipe_gets_each_setting_on_one_line(augbench: CommandLine) -> None:
    code, text, _ = augbench("list", "methods", "fast-aa")
    assert code == 0
    assert "None" not in text
    lines = {name: line for line in text.splitlines() for name in ("search_images", "policy") if f"  {name}: " in line}
    assert lines["search_images"].endswith("(default 4000, ≥ 20)")
    assert len(lines["search_images"]) > 80
    assert lines["policy"].endswith("(left out by default)")


def test_a_suite_is_printed_as_it_stands(augbench: CommandLine) -> None:
    for name, suite in built_in_suites().items():
        assert augbench("list", "suites", name) == (0, suite, "")
