"""Every way to install gives the whole package; no copy of the project needs symbolic links."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from augbench.bench.training.provenance import fingerprint

ROOT = Path(__file__).parents[1]
FOLDERS = ("bench", "datasets", "methods", "results", "slurm")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation")


def call(*command: str | Path, cwd: Path = Path("/")) -> str:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # finds what is installed
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=cwd, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy what the package is built from, as it lies in a clone and in an archive of one."""
    to = tmp_path / "project"
    leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "measured")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, to / name, ignore=leave_out)
    (to / "src" / "augbench").mkdir(parents=True)
    for name in ("__init__.py", "__main__.py", "py.typed"):
        shutil.copy(ROOT / "src" / "augbench" / name, to / "src" / "augbench")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, to)
    return to


def test_the_repository_has_no_links() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git repository")
    assert "120000" not in {line.split()[0] for line in call("git", "ls-files", "--stage", cwd=ROOT).splitlines()}


def sources(project: Path) -> set[str]:
    found = [path.relative_to(project) for name in FOLDERS for path in (project / name).rglob("*") if path.is_file()]
    own = {f"augbench/{name}" for name in ("__init__.py", "__main__.py", "py.typed")}
    return own | {f"augbench/{path.as_posix()}" for path in found if path.suffix != ".md"}


def files_of_wheel(source: Path, to: Path) -> set[str]:
    call(*PIP, "wheel", *OFFLINE, source, "--wheel-dir", to)
    (wheel,) = to.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        return {name for name in opened.namelist() if name.startswith("augbench/")}


@pytest.mark.slow
def test_an_archive_a_clone_and_an_sdist_give_the_whole_package(project: Path, tmp_path: Path) -> None:
    wanted = sources(project)
    assert files_of_wheel(project, tmp_path / "wheel") == wanted
    call(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path / "sdist", project)
    (packed,) = (tmp_path / "sdist").iterdir()
    with tarfile.open(packed) as opened:
        assert not [member.name for member in opened if member.issym()]
    assert files_of_wheel(packed, tmp_path / "second") == wanted


@pytest.mark.slow
def test_an_editable_install_finds_everything_and_so_do_type_checkers(project: Path, tmp_path: Path) -> None:
    call(sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries))
    call(*PIP, "--python", python, "install", *OFFLINE, "--editable", project)
    package = project / "src" / "augbench"
    assert all((package / name).samefile(project / name) for name in FOLDERS)
    for name in FOLDERS:  # as on a disk that has no links
        (package / name).unlink()
    code = "import augbench, json; from augbench.bench.training.provenance import fingerprint as made"
    root, files = json.loads(call(python, "-c", f"{code}; print(json.dumps([augbench.__file__, made()['files']]))"))
    assert root == str(package / "__init__.py")
    assert files == fingerprint()["files"]
    for kind in ("methods", "datasets", "networks"):
        ours = subprocess.run(
            [sys.executable, "-m", "augbench", "list", kind, "--json"], capture_output=True, check=True
        )
        shown = call(tmp_path / "venv" / "bin" / "augbench", "list", kind, "--json")
        assert json.loads(shown) == json.loads(ours.stdout)
