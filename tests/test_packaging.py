"""The package is whole, also where a copy of the project has small files in place of its symbolic links."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from augbench.bench.training.provenance import fingerprint

ROOT = Path(__file__).parents[1]
FOLDERS = ("bench", "datasets", "methods", "results", "slurm")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation")

pytestmark = pytest.mark.slow


def copy_project(to: Path, *, links: bool) -> Path:
    """Copy what the package is built from; without links, files have their text, as in zip files and on some disks."""
    leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "measured")
    for name in ("src", *FOLDERS):
        shutil.copytree(ROOT / name, to / name, symlinks=True, ignore=leave_out)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, to / name)
    for name in FOLDERS:
        link = to / "src" / "augbench" / name
        link.unlink()
        if links:
            link.symlink_to(Path("..", "..", name))
        else:
            link.write_text(f"../../{name}")
    return to


def call(*command: str | Path) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_of_wheel(project: Path, to: Path) -> set[str]:
    call(*PIP, "wheel", *OFFLINE, project, "--wheel-dir", to)
    (wheel,) = to.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def test_a_wheel_is_whole_with_and_without_links(tmp_path: Path) -> None:
    with_links = files_of_wheel(copy_project(tmp_path / "links", links=True), tmp_path / "first")
    without = files_of_wheel(copy_project(tmp_path / "none", links=False), tmp_path / "second")
    assert with_links == without
    project = tmp_path / "none"
    sources = {path.relative_to(project) for name in FOLDERS for path in (project / name).rglob("*") if path.is_file()}
    wanted = {f"augbench/{path.as_posix()}" for path in sources if path.suffix != ".md"}
    packed = {name for name in without if name.startswith("augbench/")}
    assert packed == wanted | {f"augbench/{name}" for name in ("__init__.py", "__main__.py", "py.typed")}


def test_an_editable_install_without_links_finds_everything(tmp_path: Path) -> None:
    project = copy_project(tmp_path / "project", links=False)
    call(sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries))
    call(*PIP, "--python", python, "install", *OFFLINE, "--editable", project)
    code = "import augbench, json; from augbench.bench.training.provenance import fingerprint as made"
    root, files = json.loads(call(python, "-c", f"{code}; print(json.dumps([augbench.__file__, made()['files']]))"))
    assert root == str(project / "src" / "augbench" / "__init__.py")
    assert files == fingerprint()["files"]
    for kind in ("methods", "datasets", "networks"):
        ours = json.loads(call(sys.executable, "-m", "augbench.bench.commands", "list", kind, "--json"))
        assert json.loads(call(tmp_path / "venv" / "bin" / "augbench", "list", kind, "--json")) == ours
