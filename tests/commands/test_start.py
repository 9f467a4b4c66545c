"""The start of the program: nothing is imported that a command does not need, and Ctrl-C ends it quietly."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from augbench.bench.commands.main import COMMANDS, load_command, summary
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.run_folder import RunState

ImportedBy = Callable[..., tuple[list[int], set[str]]]
HEAVY = {"torch", "numpy", "pandas", "scipy", "matplotlib", "seaborn"}
GROUPS = (("new", "method"), ("check", "method"), ("data", "prepare"), ("data", "verify"))

INTERRUPTED_AT_AN_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == interrupted:
            os.kill(os.getpid(), signal.SIGINT)

interrupted, sys.argv = sys.argv[1], ["augbench", "list", "methods"]
sys.meta_path.insert(0, Interrupt())
from augbench.bench.commands.__main__ import start
start()
"""


@pytest.mark.parametrize("library", ["typer", "torch.nn"])
def test_ctrl_c_during_an_import_ends_quietly(library: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT_AN_IMPORT, library]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


INTERRUPTED_IN_THE_MIDDLE = """
import os, signal, sys
from augbench.bench.commands.interrupts import heed_ctrl_c

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "tabnanny":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
heed_ctrl_c()
try:
    import tabnanny
    signal.pause()
except KeyboardInterrupt:
    print("stopped,", "tabnanny" in sys.modules)
finally:
    print("tidied up")
"""


def test_ctrl_c_waits_for_an_import_and_what_was_begun_is_tidied_up() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED_IN_THE_MIDDLE], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "stopped, True\ntidied up\n", "")


def test_the_list_of_commands_says_what_their_docstrings_say() -> None:
    for name, (module, attribute) in COMMANDS.items():
        found = getattr(import_module(f"augbench.bench.commands.{module}"), attribute)
        text = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)
        assert summary(name) == text.partition("\n\n")[0], name


def test_no_help_has_brackets_which_typer_takes_for_markup_and_leaves_out() -> None:
    pending = [(name, load_command(name)) for name in COMMANDS]
    for name, command in pending:
        pending += [(f"{name} {part}", inner) for part, inner in getattr(command, "commands", {}).items()]
        for text in (command.help, *(getattr(option, "help", None) for option in command.params)):
            assert "[" not in (text or ""), name


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_first_thing_that_one_types_imports_no_command(imported_by: ImportedBy, option: str) -> None:
    codes, modules = imported_by([option])
    assert codes == [0]
    assert not modules & (HEAVY | {"pydantic", "jinja2", "importlib.metadata"})
    ours = {name.rpartition(".")[2] for name in modules if name.startswith("augbench.bench.commands.")}
    assert ours == {"main", "signatures", "streams"}


@pytest.mark.slow
def test_what_only_looks_up_or_follows_needs_no_library_that_computes(imported_by: ImportedBy, plant: Any) -> None:
    folder = plant.ended(RunState.FAILED, "scale", cause=Cause.EXCEPTION, reason="no idea")
    out = ("--out", plant.out)
    expected = {(*command, "--help"): 0 for command in (*((name,) for name in COMMANDS), *GROUPS)}
    expected |= {("list", kind): 0 for kind in ("suites", "budgets", "profiles", "launchers")}
    expected |= {("list", "suites", "demo"): 0, ("list", "profiles", "example"): 0}
    expected |= {
        ("status", *out): 0,
        ("status", "--json", *out): 0,
        ("watch", *out): 2,  # as a run has no result
        ("logs", folder.path.name, *out): 0,
        ("failures", *out): 0,
        ("failures", "--json", *out): 0,
        ("cancel", "--all", "--yes", *out): 0,
    }
    codes, modules = imported_by(*expected)
    assert dict(zip(expected, codes, strict=True)) == expected
    assert not modules & HEAVY


@pytest.mark.slow
def test_a_plan_needs_torch_for_what_is_registered_and_scipy_for_the_power_of_tests(
    imported_by: ImportedBy, tmp_path: Path
) -> None:
    codes, modules = imported_by(("plan", "digits", "--out", tmp_path), ("plan", "digits", "--out", tmp_path, "--json"))
    assert codes == [0, 0]
    assert modules & HEAVY == {"torch", "numpy", "scipy"}
    assert not modules & {
        "scipy.stats",
        "torchvision",
        "ray",
        "submitit",
        "pyarrow",
        "augbench.bench.commands.measuring",
    }


def test_the_package_itself_imports_nothing() -> None:
    program = "import sys; before = set(sys.modules); import augbench; print(*(set(sys.modules) - before))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["augbench"]
