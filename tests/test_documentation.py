"""The code in README and docs works."""

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import augbench as public
from augbench.bench.augmentation.affine_space import shared_space
from augbench.bench.commands.creating import NewMethod
from augbench.bench.common.files import write_text
from augbench.bench.conformance import check_method
from augbench.bench.conformance.predictors import Converted, check_predictor
from augbench.bench.contract.method import Method, RunContext
from augbench.bench.experiment.catalogues import networks, predictors
from augbench.bench.experiment.suite import Suite, parse_suite
from augbench.bench.planning.profile import parse_profile
from augbench.bench.predictors.base import PredictorSettings
from augbench.bench.registry.plugins import GROUPS, load_plugin, plugins_added

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ADDING = ROOT / "docs" / "adding-a-method.md"
CommandLine = Callable[..., tuple[int, str, str]]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_method_of_the_readme_augments() -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own page
    target: type[Method[Any]] = names["Brightness"]
    context = RunContext(shared_space(14), 1, 10, 100, 1, 2, torch.device("cpu"))
    method = target(target.hyperparameters_type(), context)
    images = torch.randint(256, (3, 1, 14, 14), dtype=torch.uint8)
    copies = method.augment(images, torch.Generator().manual_seed(0)).images
    assert copies.shape == (6, 1, 14, 14)
    assert 0 <= copies.min() < copies.max() <= 1
    assert target.name == "brightness"


@pytest.fixture
def my_method(tmp_path: Path) -> Path:
    """Write what `augbench new method my-method` writes."""
    new = NewMethod("my-method", tmp_path)
    for path, text in new.texts().items():
        write_text(path, text)
    return new.file


def suites(page: Path) -> list[str]:
    return [text for text in blocks(page, "toml") if not text.startswith(("[project]", "launcher"))]


def test_profiles_in_pages_are_valid() -> None:
    texts = [text for page in PAGES for text in blocks(page, "toml") if text.startswith("launcher")]
    assert texts
    for text in texts:
        parse_profile(text, "page")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_suites_in_pages_resolve(page: Path, my_method: Path) -> None:
    for text in suites(page):
        with plugins_added([my_method]):
            assert parse_suite(text, page.name).specs()
        assert set(tomllib.loads(text)) <= set(Suite.model_fields)


def test_entry_points_in_pages_are_those_that_are_looked_for() -> None:
    (text,) = set(blocks(ADDING, "toml")) - set(suites(ADDING))
    assert set(tomllib.loads(text)["project"]["entry-points"]) <= set(GROUPS)


@pytest.fixture(scope="module")
def page_methods(tmp_path_factory: pytest.TempPathFactory) -> dict[str, type[Method[Any]]]:
    """Execute the Python code of the page about adding a method, as one plug-in."""
    path = tmp_path_factory.mktemp("page") / "page.py"
    path.write_text("".join(blocks(ADDING, "python")), "utf-8")
    module = load_plugin(path).module
    assert module is not None, load_plugin(path).problem
    found = [member for member in vars(module).values() if isinstance(member, type) and "name" in vars(member)]
    return {target.name: target for target in found}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["darker", "learned-flip", "tried-darkening", "input-dropout"])
def test_methods_of_the_page_keep_the_contract(name: str, page_methods: dict[str, type[Method[Any]]]) -> None:
    report = check_method(page_methods[name])
    assert report.passed, report


def test_the_predictor_of_the_page_keeps_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "page.py"
    path.write_text("".join(blocks(ROOT / "docs" / "predictors.md", "python")), "utf-8")
    with plugins_added([path]):
        source = Converted(predictors().get("both-sides"), PredictorSettings(), networks().get("tiny")(), 14)
    report = check_predictor(source)
    assert report.passed, report


def test_the_page_has_no_other_methods(page_methods: dict[str, type[Method[Any]]]) -> None:
    assert set(page_methods) == {"darker", "learned-flip", "tried-darkening", "input-dropout"}


@pytest.mark.slow
def test_the_ten_minutes_of_the_page_work(
    augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (suite,) = suites(ADDING)
    (tmp_path / "my-first.toml").write_text(suite)
    lines = [line for block in blocks(ADDING, "console") for line in block.splitlines()]
    assert len(lines) == 6
    for program, *arguments in map(shlex.split, lines):
        if program == "augbench":
            code, text, errors = augbench(*arguments)
            assert code == 0, text + errors
        else:
            done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
            assert program == "python"
            assert done.returncode == 0, done.stdout
    assert "my-method" in (tmp_path / "my-runs" / "tables" / "comparison.md").read_text()


def test_images_of_your_own(augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUGBENCH_DATA", str(tmp_path / "data"))
    page = ROOT / "docs" / "your-own-images.md"
    (script,) = blocks(page, "python")
    exec(compile(script, page.name, "exec"), {})  # noqa: S102 - our own page
    command = shlex.split(blocks(page, "console")[0])
    code, text, errors = augbench(*command[1:])
    assert code == 0, errors
    (line,) = re.findall(r"datasets = .*", text)
    assert re.sub("[0-9a-f]{12}", "", line) == re.sub(
        "[0-9a-f]{12}", "", *re.findall(r"`(datasets = [^`]*)`", page.read_text("utf-8"))
    )
    assert "96 training images and 24 test images of 3 classes, 3×24×24" in text
    assert augbench("data", "verify", "shapes")[0] == 0


def test_the_cookbook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One block after the other, where the runs that are kept with the project are to be found."""
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for number, code in enumerate(blocks(ROOT / "docs" / "cookbook.md", "python")):
        exec(compile(code, f"block {number} of cookbook.md", "exec"), names)  # noqa: S102 - our own page
    output = capsys.readouterr().out
    written = re.findall(r"PosixPath\('([^']+)'\)", output)
    assert {Path(path).name for path in written} >= {"ranges.tex", "comparison.md", "loss.svg"}
    assert all((tmp_path / path).stat().st_size > 500 for path in written)
    assert "Gain, 8 draws (points)" in (tmp_path / "my-tables" / "comparison.md").read_text()
    assert not names["runs"].warnings()
    label, gains = (
        "scale",
        names["table"].set_index(["comparison", "label", "draws", "seed"])["gain_from_draws"].sort_index(),
    )
    (first, second), draws = (names["runs"].correct(names["where"], label, count) for count in (0, 8)), 8
    by_hand = (second - first).mean(axis=1)
    assert gains[names["where"], label, draws].to_numpy() == pytest.approx(by_hand.to_numpy())


def test_the_code_of_exporting_works_with_an_exported_file(
    augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last two commands of the page with runs that are kept with the project, and the code that follows."""
    page = ROOT / "docs" / "exporting.md"
    (tmp_path / "demo.parquet").symlink_to(ROOT / "results" / "measured" / "demo.parquet")
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line, comments=True) for line in "".join(blocks(page, "console")).splitlines()]
    assert len(commands) == 3
    for command in commands[1:]:
        given = ["demo.parquet" if word == "augbench-demo" else word for word in command[1:]]
        assert augbench(*given)[0] == 0
    (code,) = blocks(page, "python")
    exec(compile(code, "exporting.md", "exec"), {})  # noqa: S102 - our own page
    output = capsys.readouterr().out
    assert "torch.Size([8, 1, 28, 28]) torch.uint8" in output
    assert "tensor([1." in output


def test_the_page_of_exporting_names_every_key() -> None:
    text = (ROOT / "docs" / "exporting.md").read_text("utf-8")
    keys = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))))
    kinds = (public.AffinePolicy, public.BlockLaw, public.OperationPolicy, public.OperationLaw)
    fields = {name for kind in kinds for name in kind.model_fields} - {"kind"}
    targets = {"torchvision", "kornia", "albumentations", "json"}
    assert keys == fields | targets | {"augbench_policy", "policy", "origin"}


def test_commands_in_pages_exist(augbench: CommandLine) -> None:
    pages: dict[str, str] = {}
    for page in PAGES:
        text = "\n".join([*blocks(page, "console"), *re.findall(r"`[^`]+`", page.read_text("utf-8"))])
        for command in re.findall(r"(?<!from )\baugbench (?:--plugin \S+ )?(\w+)", text):
            pages[command] = page.name
    assert len(pages) > 15
    missing = {command: page for command, page in pages.items() if augbench(command, "--help")[0] != 0}
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_every_public_name_is_in_the_reference_once() -> None:
    names = re.findall(r"^::: augbench\.(\w+)$", (ROOT / "docs" / "reference.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(names) == sorted(public.__all__)


def test_code_in_pages_imports_public_names_only() -> None:
    code = "\n".join(text for page in PAGES for language in ("python", "pycon") for text in blocks(page, language))
    assert set(re.findall(r"(?:from|import) (augbench[\w.]*)", code)) == {"augbench"}


def test_citation_names_this_version() -> None:
    assert f"\nversion: {public.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_source_files_in_pages_exist(page: Path) -> None:
    paths = re.findall(r"`((?:\w+/)+\w+\.(?:py|toml|csv))`", page.read_text("utf-8"))
    assert not [path for path in paths if not (ROOT / path).exists() and not (ROOT / "bench" / path).exists()]
