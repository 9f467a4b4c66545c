"""`augbench new method`: what it writes works and is clean, and it never overwrites anything."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from augbench import methods as project_methods
from augbench.bench.commands.creating import NewMethod
from augbench.bench.conformance import check_method
from augbench.bench.registry.plugins import load_plugin

CommandLine = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parent.parent.parent
RUFF = [sys.executable, "-m", "ruff"]
CONFIGURATION = ["--config", str(ROOT / "pyproject.toml")]
NAMES = ("my-method", "a", "c++", "2fast", "random", "tensor", "true", "test-me", "the-longest-name-that-is")


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_files_are_written_and_the_next_commands_named(
    augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, text, _ = augbench("new", "method", "my-method")
    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my_method.py", "test_my_method.py"]
    assert "  augbench --plugin my_method.py check method my-method\n" in text
    assert "  python -m pytest test_my_method.py\n" in text
    assert check_method(load_plugin(tmp_path / "my_method.py").module.MyMethod).passed


def test_what_is_written_is_a_method_and_keeps_our_rules_whatever_its_name(
    augbench: CommandLine, tmp_path: Path
) -> None:
    for name in NAMES:
        assert augbench("new", "method", name, "--folder", tmp_path)[0] == 0
        new = NewMethod(name, tmp_path)
        assert new.test.exists()
        assert getattr(load_plugin(new.file).module, new.class_name).name == name
    asserts_allowed = ["--per-file-ignores", "test_*.py:S101"]  # as in our own tests
    run([*RUFF, "check", *CONFIGURATION, *asserts_allowed, "."], tmp_path)
    run([*RUFF, "format", "--check", *CONFIGURATION, "."], tmp_path)


@pytest.mark.slow
def test_what_is_written_is_typed_and_its_test_passes_from_the_folder_and_from_elsewhere(
    augbench: CommandLine, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    assert augbench("new", "method", "random", "--folder", own)[0] == 0
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-W", "error"]
    assert "2 passed" in run([*pytest_command, "test_method_random.py"], own)
    assert "2 passed" in run([*pytest_command, "own/test_method_random.py"], tmp_path)
    run([sys.executable, "-m", "mypy", "--strict", "method_random.py", "test_method_random.py"], own)


def test_in_a_checkout_it_becomes_part_of_the_project(
    augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its test goes to the tests, and no plug-in is needed."""
    (tmp_path / "methods").mkdir()
    (tmp_path / "tests" / "methods").mkdir(parents=True)
    monkeypatch.setattr(project_methods, "__path__", [str(tmp_path / "methods")])
    code, text, _ = augbench("new", "method", "random", "--folder", tmp_path / "methods")
    assert code == 0
    assert "  augbench check method random\n" in text
    test = tmp_path / "tests" / "methods" / "test_random.py"
    assert "from augbench.methods.random import Random, RandomHyperparameters" in test.read_text()
    assert (tmp_path / "methods" / "random.py").exists()
    run([*RUFF, "check", *CONFIGURATION, "--per-file-ignores", "test_*.py:S101", str(test)], tmp_path)


@pytest.mark.parametrize("name", ["My", "a_b", "../up", "-a", "a b", "ä", "a" * 25, "a/b"])
def test_bad_names_are_refused(name: str, augbench: CommandLine, tmp_path: Path) -> None:
    code, _, errors = augbench("new", "method", "--folder", tmp_path / "new", "--", name)
    assert code == 2
    assert f"{name!r} is no name for a method: use at most 24 lower-case letters" in errors
    assert not (tmp_path / "new").exists()


def test_names_that_are_taken_are_refused_with_the_place(augbench: CommandLine, tmp_path: Path) -> None:
    code, _, errors = augbench("new", "method", "scale", "--folder", tmp_path / "new")
    assert code == 2
    assert "There is a method 'scale' already: augbench.methods.scale.Scale." in errors
    assert augbench("new", "method", "mine", "--folder", tmp_path)[0] == 0
    plugin = tmp_path / "mine.py"
    code, _, errors = augbench("--plugin", plugin, "new", "method", "mine", "--folder", tmp_path / "new")
    assert code == 2
    assert f"There is a method 'mine' already: Mine in {plugin}." in errors
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("existing", ["my_method.py", "test_my_method.py"])
def test_nothing_is_overwritten(existing: str, augbench: CommandLine, tmp_path: Path) -> None:
    (tmp_path / existing).write_text("mine")
    code, _, errors = augbench("new", "method", "my-method", "--folder", tmp_path)
    assert code == 2
    assert f"{tmp_path / existing} exists already." in errors
    assert "--folder" in errors
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_another_folder_is_made_also_at_home(
    augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    code, text, _ = augbench("new", "method", "my-method", "--folder=~/with blank/new")
    assert code == 0
    file = tmp_path / "home" / "with blank" / "new" / "my_method.py"
    assert f"Wrote {file}" in text
    assert f"augbench --plugin '{file}' check method my-method" in text
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("folder", ["/proc/nowhere", "/proc/cpuinfo", "x" * 300, "/sys", "~nosuchuser/new"])
def test_a_folder_that_cannot_be_written_to(folder: str, augbench: CommandLine) -> None:
    code, _, errors = augbench("new", "method", "my-method", "--folder", folder)
    assert code == 2
    assert errors.startswith("Error: ")
    assert "--folder" in errors
    assert "--out" not in errors
