"""Code of one's own in runs: an edited plug-in is noticed, and what it ends in is recorded with its line."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from short_runs import Runs

from augbench.bench.common.files import write_json
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.planning.changed_plugins import changed_plugins
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.registry.plugins import PLUGINS_VARIABLE, load_plugin, plugins_added
from augbench.bench.runs.run_folder import RunFolder, RunState

CommandLine = Callable[..., tuple[int, str, str]]

SOURCE = """
import sys
from augbench.bench.contract.method import Hyperparameters, Method
from augbench.bench.registry.registry import register

@register("mine")
class Mine(Method[Hyperparameters]):
    title = "mine"

    def regulariser(self):
        {line}
"""
SUITE = """
name = "own"
title = "Own"
seeds = [0]
[[comparisons]]
datasets = [{ name = "mnist5k" }]
methods = [{ name = "none" }, { name = "mine" }]
network = "tiny"
budget = { epochs = 1 }
"""


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without plug-ins."""
    monkeypatch.delenv(PLUGINS_VARIABLE, raising=False)


def write_plugin(path: Path, line: str = "return None") -> Path:
    path.write_text(SOURCE.format(line=line))
    load_plugin.cache_clear()  # as in another process, which would read it anew
    for name in [name for name in sys.modules if name.startswith("augbench_plugin_")]:
        del sys.modules[name]
    return path


def planned(folder: RunFolder) -> PlannedRun:
    return PlannedRun(folder.read_spec(), folder, folder.state())


def test_an_edited_file_is_noticed_where_a_run_was_made_with_it(runs: Runs, tmp_path: Path) -> None:
    path = write_plugin(tmp_path / "noticed.py")
    with plugins_added([path]):
        folders = [runs.done("mine"), runs.done("none")]
        made = list(map(planned, folders))
        assert changed_plugins(made) == []
        write_plugin(path, "return 0 * 1")
        assert changed_plugins(made) == [  # `none` is not made with it
            f"noticed.py has changed since run {folders[0].path.name} was made; raise `version` in it to compute "
            "such runs again; else finished runs are kept."
        ]
        assert changed_plugins([made[0], made[0]])[0].startswith("noticed.py has changed since 2 runs, such as mine_")
        for content in ({}, {"attempts": []}, {"attempts": [{}]}):
            write_json(folders[0].path / "environment.json", content)
            assert changed_plugins(made) == []


def test_an_edited_file_is_noticed_where_a_run_was_begun_with_it(runs: Runs, tmp_path: Path) -> None:
    path = write_plugin(tmp_path / "begun.py")
    with plugins_added([path]):
        folder = runs.folder("mine")
        assert runs.execute(folder, 3) is RunState.CANCELLED
        assert changed_plugins([planned(folder)]) == []
        write_plugin(path, "return 0 * 1")
        (sentence,) = changed_plugins([planned(folder)])
        assert sentence.startswith(f"begun.py has changed since run {folder.path.name} was begun; raise `version`")
        folder.checkpoint.unlink()  # it starts from the beginning
        assert changed_plugins([planned(folder)]) == []


@pytest.mark.slow
def test_plan_and_run_tell_of_it_and_keep_the_result(augbench: CommandLine, runs: Runs, tmp_path: Path) -> None:
    path, suite, out = write_plugin(tmp_path / "told.py"), tmp_path / "own.toml", tmp_path / "out"
    suite.write_text(SUITE)
    command = ("--plugin", path, "plan", suite, "--out", out)
    code, text, errors = augbench(*command, "--json")
    assert (code, errors) == (0, "")
    with plugins_added([path]):
        for run in json.loads(text)["runs"]:
            folder = RunFolder(Path(run["folder"]))
            folder.write_spec(RunSpec.model_validate(run["spec"]))
            assert runs.execute(folder) is RunState.DONE
    write_plugin(path, "return 0 * 1")
    code, text, errors = augbench(*command, "--json")
    assert code == 0
    assert [run["state"] for run in json.loads(text)["runs"]] == ["done", "done"]
    assert errors.startswith("Note: told.py has changed since run mine_")
    assert errors.count("\n") == 1
    code, text, errors = augbench("--plugin", path, "run", suite, "--out", out)
    assert code == 0
    assert "Nothing to compute" in text
    assert errors.startswith("Note: told.py has changed since run mine_")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("sys.exit(3)", "SystemExit: 3 (line 11 of ending.py)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt (line 11 of ending.py)"),
        ("return 1 / 0", "ZeroDivisionError: division by zero (line 11 of ending.py)"),
        ("raise ValueError('long ' * 1000)", "ValueError: " + "long " * 40 + "… (line 11 of ending.py)"),
    ],
)
def test_what_a_run_ends_in_is_recorded_with_the_line_of_the_file(
    line: str, reason: str, runs: Runs, tmp_path: Path
) -> None:
    path = write_plugin(tmp_path / "ending.py", line)
    with plugins_added([path]):
        folder = runs.folder("mine")
        assert runs.execute(folder) is RunState.FAILED
    status = folder.read_status()
    assert status["reason"] == reason
    assert "ending.py" in status["traceback"]
    assert "ending.py" in folder.log.read_text()
