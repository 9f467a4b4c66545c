"""The registry: what is found, what is broken, what is there twice."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.catalogues import datasets, methods, networks
from augbench.bench.launchers.launcher import launchers
from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry import registry
from augbench.bench.registry.registry import Catalogue, build_catalogue, register

GOOD = """
from torch import nn
from augbench.bench.networks.base import NetworkSource
from augbench.bench.registry.registry import register

@register("{name}")
class Line(NetworkSource):
    def build(self, channels, classes):
        return nn.Flatten()
"""


WITHOUT_DEVIATIONS = {"none", "fixed"}


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
    assert {"augerino", "fixed", "none", "scale", "trivialaugment"} <= set(methods().entries)
    assert {"mnist", "rotmnist", "rotmnist-12k", "fashionmnist", "cifar10", "cifar100", "svhn", "svhn-extra"} <= set(
        datasets().entries
    )
    assert {"tiny", "smallnet", "wrn-16-4", "wrn-28-10", "wrn-40-2", "resnet18", "resnet34"} <= set(networks().entries)
    assert "local" in launchers().entries
    assert not methods().broken + datasets().broken + networks().broken + launchers().broken


def test_a_method_of_the_project_says_what_it_is() -> None:
    for target in [entry.target for entry in methods() if entry.source == "augbench"]:
        assert target.title and target.paper and target.__doc__, target
        assert bool(target.deviations) != (target.name in WITHOUT_DEVIATIONS), target
        assert all(field.description for field in target.hyperparameters_type.model_fields.values()), target


def test_a_file_in_the_folder_is_found(package: Path) -> None:
    (package / "line.py").write_text(GOOD.format(name="line"))
    found = catalogue()
    assert found.get("line").__name__ == "Line"
    assert found.entry("line").origin == "planted_networks.line.Line"
    assert found.entry("line").source == "augbench"


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


def test_an_entry_point_without_anything_registered_is_broken(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package / "nothing.py").write_text("from augbench.bench.networks.base import NetworkSource\nclass Line: pass")
    points = [
        EntryPoint("a", f"planted_networks.nothing{inside}", "a.group") for inside in ("", ":Line", ":NetworkSource")
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    reasons = [str(broken) for broken in catalogue().broken]
    assert len(reasons) == 3
    assert all("of an unknown package registers nothing: put @register" in reason for reason in reasons)


def test_an_entry_can_be_held_for_a_moment(package: Path) -> None:
    (package / "line.py").write_text(GOOD.format(name="line"))
    found = catalogue()
    entry = found.entry("line")
    other = replace(entry, origin="another")
    with pytest.raises(RuntimeError, match="leave"), found.holding(other):
        assert found.entry("line") is other
        raise RuntimeError("leave")
    assert found.entry("line") is entry
    with found.holding(replace(entry, name="new")):
        assert [one.name for one in found] == ["line", "new"]
    assert [one.name for one in found] == ["line"]


class Line(NetworkSource):
    """Has no name."""


@pytest.mark.parametrize(
    ("name", "target", "error", "words"),
    [
        (
            "alone",
            type("Alone", (), {}),
            TypeError,
            "Alone must derive from Method, .* NetworkSource, Predictor or",
        ),
        ("layer", nn.Flatten, TypeError, "Flatten must derive from Method, .* Predictor or Launcher"),
        ("line", len, TypeError, r"^@register\('line'\) belongs above a class, and len is none\.$"),
        (Line, None, TypeError, r'^@register needs a name: write @register\("a-name"\) .* above Line\.$'),
        (3, None, TypeError, r"^@register needs a name: .* above 3\.$"),
        ("x" * 65, Line, ValueError, "has 65 characters; names of folders have room for 64"),
        *((name, Line, ValueError, "cannot be registered") for name in ("", "../up", "a b", "<b>", "Upper", "a_b")),
    ],
)
def test_what_cannot_be_registered(name: Any, target: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        register(name)(target)


def test_unknown_names_are_explained() -> None:
    own = r".*in your own file, name that before the command: `augbench --plugin FILE"
    with pytest.raises(UserError, match=r"no method 'scael'\. Did you mean 'scale'\?.*`augbench list methods`" + own):
        methods().get("scael")
    with pytest.raises(UserError, match="`augbench list datasets`" + own):
        datasets().get("imagenet")
    with pytest.raises(UserError) as caught:
        methods().get("x" * 100_000)
    assert len(str(caught.value)) < 1500
    assert "x…'" in str(caught.value)
