"""The start of the program: nothing is imported that a command does not need, and Ctrl-C ends it quietly."""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
import typer

from augbench.bench.commands.main import COMMANDS
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.run_folder import RunFolder, RunState

ImportedBy = Callable[..., tuple[list[int], set[str]]]
HEAVY = {"torch", "numpy", "pandas", "scipy", "matplotlib", "seaborn"}
GROUPS = (("new", "method"), ("check", "method"), ("data", "prepare"), ("data", "verify"))

STOPPED_AT_IMPORTS = """
import json, signal, sys
from augbench.bench.commands.interrupts import ended_by_ctrl_c
from augbench.bench.commands.main import main

with ended_by_ctrl_c():
    ends_quietly = signal.getsignal(signal.SIGINT)

class Stop:
    def find_spec(self, name, path=None, target=None):
        if name in heavy:
            sys.exit("ends quietly" if signal.getsignal(signal.SIGINT) is ends_quietly else "is interrupted")

commands, heavy, ends = json.loads(sys.argv[1]), set(sys.argv[2:]), []
sys.meta_path.insert(0, Stop())
for arguments in commands:
    sys.argv = ["augbench", *arguments]
    try:
        main()
        ends.append("imports nothing of the kind")
    except SystemExit as end:
        ends.append(end.code)
print(json.dumps(ends))
"""


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


@pytest.mark.parametrize("library", ["typer", "pydantic", "numpy", "torch", "torch.nn"])
def test_ctrl_c_while_libraries_are_imported_ends_quietly(library: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT_AN_IMPORT, library]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_what_takes_long_to_import_is_imported_where_ctrl_c_ends_quietly(tmp_path: Path) -> None:
    runs, out = ("--from", tmp_path), ("--out", tmp_path)
    commands = [
        *(("demo",), ("plan", "demo"), ("run", "demo"), ("retry", "--all"), ("toy",), ("probe", tmp_path, *out)),
        *(("list", "methods"), ("list", "datasets"), ("list", "networks"), ("list", "suites", "--json")),
        *(("tables", *runs), ("figures", *runs, *out), ("report", *runs, *out), ("archive", *runs, *out)),
        *(("tune", "scale", "--dataset", "mnist"), ("bound", tmp_path, "--lipschitz", "1", "--loss-range", "0", "1")),
        *(("new", "method", "my-own"), ("check", "method", "scale"), ("data", "prepare"), ("data", "verify")),
    ]
    arguments = json.dumps([list(map(str, command)) for command in commands])
    process = subprocess.run(
        [sys.executable, "-c", STOPPED_AT_IMPORTS, arguments, *HEAVY], capture_output=True, text=True, check=True
    )
    assert dict(zip(commands, json.loads(process.stdout), strict=True)) == dict.fromkeys(commands, "ends quietly")


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
    assert ours == {"interrupts", "main", "streams"}


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


def test_a_plan_needs_torch_for_what_is_registered_and_no_other_library_that_computes(
    imported_by: ImportedBy, tmp_path: Path
) -> None:
    codes, modules = imported_by(("plan", "digits", "--out", tmp_path), ("plan", "digits", "--out", tmp_path, "--json"))
    assert codes == [0, 0]
    assert modules & HEAVY == {"torch", "numpy"}
    assert not modules & {"torchvision", "ray", "submitit", "pyarrow", "augbench.bench.commands.measuring"}


def test_the_package_itself_imports_nothing() -> None:
    program = "import sys; before = set(sys.modules); import augbench; print(*(set(sys.modules) - before))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["augbench"]
