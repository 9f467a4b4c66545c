"""What gets installed from a tree without symbolic links, such as an archive that a tool without them has unpacked."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("bench", "datasets", "methods", "results", "slurm")
OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")

pytestmark = pytest.mark.slow


@pytest.fixture
def without_links(tmp_path: Path) -> Path:
    """Copy the source tree; where a link was, there is a file with its text, as git writes it without links."""
    tree = tmp_path / "tree"
    left_out = shutil.ignore_patterns("__pycache__", "measured", "*.egg-info")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tree / folder, ignore=left_out)
    (tree / "src" / "augbench").mkdir(parents=True)
    for path in (ROOT / "src" / "augbench").iterdir():
        target = tree / "src" / "augbench" / path.name
        if path.name in FOLDERS:
            target.write_text(f"../../{path.name}")
        elif path.is_file():
            shutil.copy(path, target)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    return tree


def pip(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pip", *map(str, arguments)], capture_output=True, text=True)


def test_a_tree_without_links_gives_a_whole_wheel(without_links: Path, tmp_path: Path) -> None:
    done = pip("wheel", *OFFLINE, without_links, "--wheel-dir", tmp_path / "wheel")
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheel").glob("augbench-*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("augbench/")}
    modules = {f"augbench/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert modules <= packed
    assert {path for path in packed if path.endswith(".py")} - modules == {
        "augbench/__init__.py",
        "augbench/__main__.py",
    }
    data = {"py.typed", "bench/budgets.toml", "bench/suites/demo.toml", "results/published/published.csv"}
    assert {f"augbench/{name}" for name in data} <= packed


def test_an_editable_install_of_it_is_refused_in_a_sentence(without_links: Path, tmp_path: Path) -> None:
    done = pip("install", *OFFLINE, "--target", tmp_path / "target", "--editable", without_links)
    assert done.returncode != 0
    assert "needs the links in src/augbench" in done.stderr + done.stdout
    assert "Install without -e (`pip install .`)" in done.stderr + done.stdout
