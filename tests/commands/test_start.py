"""The start of the program: nothing is imported that a command does not need, and Ctrl-C ends it quietly."""

import inspect
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module

import pytest
import typer

from augbench.bench.causes import Cause
from augbench.bench.commands.main import COMMANDS
from augbench.bench.run_folder import RunFolder, RunState
from augbench.bench.spec import RunSpec

ImportedBy = Callable[..., tuple[list[int], set[str]]]
HEAVY = {"torch", "numpy", "pandas", "scipy", "matplotlib", "seaborn"}
GROUPS = (("new", "method"), ("check", "method"), ("data", "prepare"), ("data", "verify"))


@pytest.mark.parametrize("seconds", [0.8, 1.1])
def test_ctrl_c_while_libraries_are_imported_ends_quietly(seconds: float) -> None:
    command = [sys.executable, "-m", "augbench.bench.commands", "list", "methods"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, 0)
    assert errors == ""


def test_the_list_of_commands_says_what_their_docstrings_say() -> None:
    for name, place in COMMANDS.items():
        found = getattr(import_module(f"augbench.bench.commands.{place.module}"), place.attribute)
        text = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)
        assert place.help == text.partition("\n\n")[0], name


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_first_thing_that_one_types_imports_no_command(imported_by: ImportedBy, option: str) -> None:
    codes, modules = imported_by([option])
    assert codes == [0]
    assert not modules & (HEAVY | {"pydantic", "jinja2", "importlib.metadata"})
    ours = {name.rpartition(".")[2] for name in modules if name.startswith("augbench.bench.commands.")}
    assert ours == {"interrupts", "main", "plain"}


def test_help_of_a_command_needs_no_library_that_computes(imported_by: ImportedBy) -> None:
    commands = [*((name,) for name in COMMANDS), *GROUPS]
    codes, modules = imported_by(*((*command, "--help") for command in commands))
    assert codes == [0] * len(commands)
    assert not modules & HEAVY


def test_what_is_only_looked_up_needs_no_library_that_computes(imported_by: ImportedBy) -> None:
    kinds = ("suites", "budgets", "profiles", "launchers")
    commands = [*(("list", kind) for kind in kinds), ("list", "suites", "demo"), ("list", "profiles", "example")]
    codes, modules = imported_by(*commands)
    assert codes == [0] * len(commands)
    assert not modules & HEAVY


def test_following_runs_needs_no_library_that_computes(
    imported_by: ImportedBy, make_spec: Callable[..., RunSpec], make_folder: Callable[[RunSpec], RunFolder]
) -> None:
    folder = make_folder(make_spec("scale"))
    folder.write_status(RunState.FAILED, cause=Cause.EXCEPTION, reason="no idea")
    out = ("--out", folder.path.parent.parent)
    expected = {
        ("status", *out): 0,
        ("status", "--json", *out): 0,
        ("watch", *out): 2,  # as a run has no result
        ("logs", folder.path.name, *out): 0,
        ("failures", *out): 0,
        ("failures", "--json", *out): 0,
        ("cancel", "--all", "--yes", *out): 0,
    }
    codes, modules = imported_by(*expected)
    assert codes == list(expected.values())
    assert not modules & HEAVY


def test_the_package_itself_imports_nothing() -> None:
    program = "import sys; before = set(sys.modules); import augbench; print(*(set(sys.modules) - before))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["augbench"]
