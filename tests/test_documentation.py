"""The code in README and docs works."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from augbench.bench.method import Method, Setting
from augbench.bench.space import shared_space
from augbench.bench.suite import parse_suite

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CommandLine = Callable[..., tuple[int, str, str]]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_method_of_the_readme_augments() -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own page
    target: type[Method[Any]] = names["Brightness"]
    setting = Setting(shared_space(14), 1, 10, 100, 1, 2, torch.device("cpu"))
    method = target(target.hyperparameters_type(), setting)
    images = torch.randint(256, (3, 1, 14, 14), dtype=torch.uint8)
    copies = method.augment(images, torch.Generator().manual_seed(0)).images
    assert copies.shape == (6, 1, 14, 14)
    assert 0 <= copies.min() < copies.max() <= 1
    assert target.name == "brightness"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_suites_in_pages_resolve(page: Path) -> None:
    for text in blocks(page, "toml"):
        assert parse_suite(text, page.name).specs()
        assert set(tomllib.loads(text)) <= {"name", "title", "seeds", "protocol", "comparisons"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_pages_exist(page: Path, augbench: CommandLine) -> None:
    text = page.read_text("utf-8")
    commands = set(
        re.findall(r"\baugbench (\w+)", "\n".join(blocks(page, "console")) + "\n".join(re.findall(r"`[^`]+`", text)))
    )
    for command in commands:
        assert augbench(command, "--help")[0] == 0, command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing
