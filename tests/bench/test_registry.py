"""The registry: what is found, what is broken, what is there twice."""

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from augbench.bench import registry
from augbench.bench.catalogues import datasets, methods, networks
from augbench.bench.errors import UserError
from augbench.bench.launchers.launcher import launchers
from augbench.bench.network import NetworkSource
from augbench.bench.registry import Catalogue, build_catalogue, register

GOOD = """
from torch import nn
from augbench.bench.network import NetworkSource
from augbench.bench.registry import register

@register("{name}")
class Line(NetworkSource):
    def build(self, channels, classes):
        return nn.Flatten()
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make an empty package called planted_networks that can be imported."""
    folder = tmp_path / "planted_networks"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith("planted_networks")]:
        del sys.modules[name]


def catalogue() -> Catalogue[NetworkSource]:
    return build_catalogue("network", NetworkSource, "planted_networks", "no.such.group")  # type: ignore[type-abstract]


def test_everything_that_the_project_brings_is_found() -> None:
    assert [entry.name for entry in methods()] == ["augerino", "fixed", "none", "scale", "trivialaugment"]
    assert [entry.name for entry in datasets()] == ["mnist", "mnist5k", "rotmnist5k"]
    assert "tiny" in networks().entries
    assert "local" in launchers().entries
    assert not methods().broken + datasets().broken + networks().broken + launchers().broken


def test_a_file_in_the_folder_is_found(package: Path) -> None:
    (package / "line.py").write_text(GOOD.format(name="line"))
    assert catalogue().get("line").__name__ == "Line"


def test_a_broken_file_is_named_with_its_reason_and_takes_nothing_down(package: Path) -> None:
    (package / "line.py").write_text(GOOD.format(name="line"))
    (package / "typo.py").write_text("import a_package_that_is_not_there")
    (package / "syntax.py").write_text("def")
    (package / "runtime.py").write_text("raise RuntimeError('no driver')")
    (package / "exits.py").write_text("import sys; sys.exit(3)")
    found = catalogue()
    assert set(found.entries) == {"line"}
    assert {broken.origin for broken in found.broken} == {
        "planted_networks.syntax",
        "planted_networks.typo",
        "planted_networks.runtime",
        "planted_networks.exits",
    }
    with pytest.raises(UserError, match="a_package_that_is_not_there"):
        found.get("typo")


def test_two_of_one_name_are_an_error_that_names_both(package: Path) -> None:
    (package / "first.py").write_text(GOOD.format(name="line"))
    (package / "second.py").write_text(GOOD.format(name="line"))
    with pytest.raises(UserError, match=r"planted_networks\.first\.Line and planted_networks\.second\.Line"):
        catalogue()


@pytest.mark.parametrize("value", ["line", "line:Line", "again:Line"])
def test_entry_points_name_modules_or_classes(value: str, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = package.parent / "planted_networks_none"
    empty.mkdir()
    (empty / "__init__.py").touch()
    (package / "line.py").write_text(GOOD.format(name="line"))
    (package / "again.py").write_text("from planted_networks.line import Line")
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [EntryPoint("line", f"planted_networks.{value}", group)]
    )
    found = build_catalogue("network", NetworkSource, "planted_networks_none", "a.group")  # type: ignore[type-abstract]
    assert found.get("line").__name__ == "Line"


@pytest.mark.parametrize("name", ["", "../up", "a b", "<script>", "Upper", "a_b"])
def test_names_that_would_not_fit_a_folder_or_a_table_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no name for a table row"):
        register(name)


def test_unknown_names_are_explained() -> None:
    with pytest.raises(UserError, match=r"no method 'scael'\. Did you mean 'scale'\?.*`augbench list methods`"):
        methods().get("scael")
    with pytest.raises(UserError, match="`augbench list datasets`"):
        datasets().get("imagenet")
