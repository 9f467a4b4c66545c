"""Plug-in files and packages: all four kinds come in, workers see them, what is broken takes nothing down."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.catalogues import datasets, methods, networks
from augbench.bench.launchers.launcher import launchers
from augbench.bench.registry.plugins import PLUGINS_VARIABLE, load_plugin, plugin_files, plugins_added
from augbench.bench.runs.output_folder import run_folders

CommandLine = Callable[..., tuple[int, str, str]]

METHOD = """
from augbench.bench.contract.method import Hyperparameters, Method
from augbench.bench.registry.registry import register

@register("{name}")
class {class_name}(Method[Hyperparameters]):
    title = "a method of one's own"
"""

EVERYTHING = """
from dataclasses import replace

import torch
from torch import nn

from augbench.bench.data.dataset import DatasetSource
from augbench.bench.launchers.local import Local
from augbench.bench.contract.method import Hyperparameters, Method
from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry.registry import register
from augbench.datasets.mnist5k import Mnist5k

@register("my-method")
class MyMethod(Method[Hyperparameters]):
    title = "a method"

@register("my-digits")
class MyDigits(DatasetSource):
    title = "a hundred digits"
    checksum = "none"

    def load(self, options, root):
        digits = Mnist5k().load(Mnist5k.options_type(size=14), root)
        train = digits.train.subset(torch.arange(0, 4000, 40))
        test = digits.test.subset(torch.arange(0, 1000, 10))
        return replace(digits, train=train, test=test, upright_test=None)

@register("my-network")
class MyNetwork(NetworkSource):
    title = "one layer"

    def build(self, channels, classes):
        return nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * channels, classes))

@register("my-launcher")
class MyLauncher(Local):
    title = "as local"
"""

SUITE = """
name = "own"
title = "Own"
seeds = [0]
[[comparisons]]
datasets = [{{ name = "{dataset}" }}]
methods = [{{ name = "none" }}, {{ name = "{method}" }}]
network = "{network}"
budget = {{ epochs = 1 }}
"""


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without plug-ins."""
    monkeypatch.delenv(PLUGINS_VARIABLE, raising=False)


def write_method(path: Path, name: str = "mine", class_name: str = "Mine") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(METHOD.format(name=name, class_name=class_name))
    return path


def test_a_file_is_known_for_the_length_of_a_command(augbench: CommandLine, tmp_path: Path) -> None:
    path = write_method(tmp_path / "mine.py")
    path.write_text("print('loading')\n" + path.read_text())
    code, text, errors = augbench("--plugin", path, "list", "methods", "--json")
    (card,) = [card for card in json.loads(text) if card["name"] == "mine"]
    assert code == 0
    assert card["origin"] == f"Mine in {path}"
    assert card["source"] == "plug-in mine.py"
    assert "loading" in errors, "and not in the JSON"
    assert PLUGINS_VARIABLE not in os.environ
    assert "mine" not in methods().entries
    assert augbench("list", "methods", "mine")[0] == 2


def test_the_environment_and_the_command_add_up(
    augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (write_method(tmp_path / f"{name}.py", name) for name in ("first", "second", "third"))
    monkeypatch.setenv(PLUGINS_VARIABLE, os.pathsep.join([str(first), "", str(second), str(first)]))
    assert plugin_files() == (first, second)
    code, text, _ = augbench("--plugin", third, "--plugin", second, "list", "methods", "--json")
    assert code == 0
    assert {"first", "second", "third"} <= {card["name"] for card in json.loads(text)}
    assert plugin_files() == (first, second)


def test_two_files_of_one_name_do_not_clash(tmp_path: Path) -> None:
    paths = [write_method(tmp_path / folder / "mine.py", folder) for folder in ("a", "b")]
    with plugins_added(paths):
        found = {name: methods().get(name) for name in ("a", "b")}
    assert found["a"].__module__ != found["b"].__module__
    assert all(sys.modules[target.__module__].__file__ for target in found.values())


@pytest.mark.parametrize("ending", ["", "\nraise RuntimeError('broken')"])
def test_a_file_is_imported_once_for_all_catalogues(ending: str, tmp_path: Path) -> None:
    path = write_method(tmp_path / "mine.py")
    counting = f"with open({str(tmp_path / 'count')!r}, 'a') as file:\n    file.write('once')\n"
    path.write_text(path.read_text() + counting + ending)
    with plugins_added([path]):
        found = methods(), datasets(), networks(), launchers()
        assert methods() is found[0]
    assert (tmp_path / "count").read_text() == "once"
    assert all(bool(catalogue.broken) == bool(ending) for catalogue in found)


def test_a_file_may_look_into_a_catalogue_while_it_is_imported(tmp_path: Path) -> None:
    path = write_method(tmp_path / "mine.py")
    path.write_text(
        path.read_text() + "\nfrom augbench.bench.experiment.catalogues import methods\nSCALE = methods().get('scale')"
    )
    before = path.read_bytes()
    with plugins_added([path]):
        assert methods().get("mine").name == "mine"
        assert not methods().broken
    path.write_text("changed since")
    assert load_plugin(path).sha256 == hashlib.sha256(before).hexdigest(), "of what was imported"


@pytest.mark.slow
def test_a_file_brings_in_every_kind_and_its_runs_record_it(
    augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text(EVERYTHING)
    (tmp_path / "own.toml").write_text(SUITE.format(dataset="my-digits", method="my-method", network="my-network"))
    monkeypatch.chdir(tmp_path)
    command = ("--plugin", "own.py", "run", "own.toml")
    code, text, errors = augbench(*command, "--launcher", "my-launcher", "--workers", "1", "--out", "out")
    assert code == 0, errors
    assert "2 runs: 2 done." in text
    monkeypatch.chdir("/")
    checksum = hashlib.sha256(EVERYTHING.encode()).hexdigest()
    for folder in run_folders(tmp_path / "out"):
        (attempt,) = json.loads((folder.path / "environment.json").read_text())["attempts"]
        assert attempt["plugins"] == [{"path": str(tmp_path / "own.py"), "sha256": checksum}]
        assert attempt["command"].startswith("augbench --plugin own.py run own.toml")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.py", "does not exist"),
        ("folder.py", "is no file"),
        ("notes.txt", "is no Python file"),
        (f"a{os.pathsep}b.py", "separates the paths in AUGBENCH_PLUGINS"),
        ("~nosuchuser/mine.py", "begins with an unknown home directory"),
    ],
)
def test_what_is_no_file_is_a_mistake_before_anything_else(
    name: str, words: str, augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "notes.txt").touch()
    monkeypatch.chdir(tmp_path)
    code, _, errors = augbench("--plugin", name, "list", "methods")
    assert code == 2
    assert errors.startswith("Error: The plug-in ")
    assert words in errors
    assert "`augbench --plugin my.py list methods`" in errors
    if os.pathsep not in name:
        monkeypatch.setenv(PLUGINS_VARIABLE, name)
        code, _, errors = augbench("list", "methods")
        assert code == 2
        assert ", which the variable AUGBENCH_PLUGINS names, " in errors


def test_a_file_may_be_named_after_the_command(augbench: CommandLine, tmp_path: Path) -> None:
    path = write_method(tmp_path / "mine.py")
    for option in (["--plugin", path], [f"--plugin={path}"]):
        code, text, _ = augbench("list", "methods", "mine", *option)
        assert code == 0
        assert f"origin: Mine in {path}" in text
        assert augbench("list", "methods", "--", *option)[0] == 2, "these are names"
    code, _, errors = augbench("list", "methods", "--plugin")
    assert code == 2
    assert errors.strip() == "Error: --plugin needs a Python file after it, as in `augbench --plugin my.py …`."


IMPORTED = "from augbench.bench.registry.registry import register"
BROKEN = {
    "from augbench.bench import space": "import what augbench offers from `augbench` itself",
    "import augbench.bench.method": "import what augbench offers from `augbench` itself",
    "import a_library_that_is_not_there": "could not be imported: ModuleNotFoundError: No module named 'a_library_th",
    "\n\nclass OwnError(Exception): pass\nraise OwnError('no [driver]')": "OwnError: no [driver] (line 4 of mine.py).",
    "import sys\nsys.exit(3)": "could not be imported: SystemExit: 3 (line 2 of mine.py).",
    "def": "could not be imported: SyntaxError: invalid syntax (mine.py, line 1).",
    "one = 1": 'registers nothing: put @register("a-name") above a class derived from Method,',
    "from augbench.bench.contract.method import Method": "registers nothing",
    f"{IMPORTED}\n@register('a')\nclass A: pass": "A must derive from Method, Datas",
    f"{IMPORTED}\n@register\nclass A: pass": 'write @register("a-name") above the cl',
    f"{IMPORTED}\n@register('a')\ndef a(): pass": "belongs above a class, and a is no",
    "raise RuntimeError('long ' * 1000)": "…",
    f"{IMPORTED}\nregister('A b')": "'A b' cannot be registered",
}


@pytest.mark.parametrize("source", BROKEN)
def test_a_broken_file_is_listed_with_its_reason_and_takes_nothing_down(
    source: str, augbench: CommandLine, tmp_path: Path
) -> None:
    broken, good = tmp_path / "mine.py", write_method(tmp_path / "good.py", "good")
    broken.write_text(source)
    command = ("--plugin", broken, "--plugin", good)
    code, text, _ = augbench(*command, "list", "methods")
    assert code == 0
    assert f"{broken} " in text
    assert BROKEN[source] in text
    assert "good" in text
    code, _, errors = augbench(*command, "list", "methods", "mine")
    assert code == 2
    assert BROKEN[source] in errors
    assert "\n" not in errors.strip()


def test_a_plan_works_beside_a_broken_file(augbench: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def")
    assert augbench("--plugin", tmp_path / "mine.py", "plan", "demo", "--out", tmp_path / "out")[0] == 0


def test_two_of_one_name_are_an_error_that_names_both_places(augbench: CommandLine, tmp_path: Path) -> None:
    path = write_method(tmp_path / "mine.py", "scale")
    code, _, errors = augbench("--plugin", path, "list", "methods")
    assert code == 2
    assert f"Two methods are called 'scale': augbench.methods.scale.Scale and Mine in {path}." in errors
    path = write_method(tmp_path / "twins.py", "twin")
    path.write_text(path.read_text() + METHOD.format(name="twin", class_name="Other"))
    with plugins_added([path]), pytest.raises(UserError, match=r"'twin': Mine in .* and Other in .*twins\.py"):
        methods()


# Installed packages


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a good and a broken package, without a network, into a folder of their own."""
    folder = tmp_path_factory.mktemp("installed")
    source = Path(__file__).parent.parent / "plugins"
    packages = [folder / "source" / name for name in ("good_package", "broken_package")]
    for package in packages:
        shutil.copytree(source / package.name, package)  # a build writes into the source
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", folder / "site", *packages]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def command_line(site: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "augbench.bench.commands", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(site)})


@pytest.mark.slow
def test_installed_packages_are_listed_and_a_broken_one_with_its_reason(installed: Path) -> None:
    done = command_line(installed, "list", "methods", "--json")
    assert done.returncode == 0
    cards = {card["name"]: card for card in json.loads(done.stdout)}
    assert cards["inversion"]["source"] == "augbench-good 1.2.3"
    assert cards["inversion"]["origin"] == "augbench_good.inversion.Inversion of augbench-good 1.2.3"
    assert cards["scale"]["source"] == "augbench"
    assert done.stderr.strip() == (
        "augbench_broken.needs_more of augbench-broken 0.1 could not be imported: "
        "ModuleNotFoundError: No module named 'a_library_that_is_not_there'."
    )
    assert "augbench_broken.nothing of augbench-broken 0.1 registers nothing" in (
        command_line(installed, "list", "networks").stdout
    )


@pytest.mark.slow
def test_a_method_and_a_network_of_a_package_run_and_keep_the_contract(installed: Path, tmp_path: Path) -> None:
    suite = tmp_path / "own.toml"
    suite.write_text(SUITE.format(dataset="mnist5k", method="inversion", network="line"))
    done = command_line(installed, "run", suite, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "2 runs: 2 done." in done.stdout
    for folder in run_folders(tmp_path / "out"):
        (attempt,) = json.loads((folder.path / "environment.json").read_text())["attempts"]
        assert attempt["plugins"] == []
        assert attempt["plugin_packages"] == ["augbench-broken 0.1", "augbench-good 1.2.3"]
    done = command_line(installed, "check", "method", "inversion", "--json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["passed"]
