"""Which code and device a result comes from, and that a queued job notices when the code is another."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from augbench.bench.common.errors import UserError
from augbench.bench.registry.plugins import plugins_added
from augbench.bench.training import provenance
from augbench.bench.training.provenance import (
    MOST_NAMED,
    available_devices,
    choose_device,
    code_state,
    describe_environment,
    differences,
    fingerprint,
)

CPU = torch.device("cpu")
UNKNOWN = {"commit": None, "dirty": None}
Place = Callable[[Path], Path]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    """Take the code to be in some folder; returns its file there."""

    def take(folder: Path) -> Path:
        code = folder / "bench" / "training" / "provenance.py"
        code.parent.mkdir(parents=True, exist_ok=True)
        code.touch()
        monkeypatch.setattr(provenance, "__file__", str(code))
        return code

    return take


@pytest.fixture
def checkout(tmp_path: Path, place: Place) -> Path:
    """Make a git checkout with one file of code and take the code to be there."""
    place(tmp_path).write_text("one = 1\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "one")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_code_is_clean_until_a_file_of_it_changes(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    assert code_state() == {"commit": commit, "dirty": False}
    (checkout / "my-runs").mkdir()
    (checkout / "my-runs" / "result.json").write_text("{}")
    assert code_state()["dirty"] is False
    (checkout / "bench" / "training" / "provenance.py").write_text("one = 2\n")
    assert code_state() == {"commit": commit, "dirty": True}


@pytest.mark.parametrize("folder", ["bench", "methods"])
def test_a_new_file_is_a_change_also_where_the_user_has_git_pass_over_it(folder: str, checkout: Path) -> None:
    git(checkout, "config", "status.showUntrackedFiles", "no")
    (checkout / folder).mkdir(exist_ok=True)
    (checkout / folder / "mine.py").touch()
    assert code_state()["dirty"] is True


def test_an_installed_package_has_no_commit(checkout: Path, place: Place) -> None:
    """Also where the environment that it is installed in lies inside somebody's checkout."""
    place(checkout / "venv" / "augbench")
    assert code_state() == UNKNOWN


def test_a_repository_that_a_hook_of_git_names_is_not_asked(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "--quiet")
    for name, path in (("DIR", other / ".git"), ("WORK_TREE", other), ("INDEX_FILE", other / ".git" / "index")):
        monkeypatch.setenv(f"GIT_{name}", str(path))
    assert code_state() == {"commit": commit, "dirty": False}


def test_code_in_a_worktree_has_a_commit(
    checkout: Path, place: Place, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree = tmp_path_factory.mktemp("beside") / "tree"
    git(checkout, "worktree", "add", "--quiet", str(tree))
    place(tree)
    assert code_state() == {"commit": git(checkout, "rev-parse", "HEAD"), "dirty": False}


def refused(folder: Path) -> str:
    """Have git refuse the repository, as it refuses those of other users."""
    (folder / ".git" / "HEAD").write_text("no reference\n")
    return "git says: fatal: not a git repository"


def without_commits(folder: Path) -> str:
    """Leave a repository in which nothing was committed yet."""
    git(folder, "update-ref", "-d", "HEAD")
    return "git says: fatal: Needed a single revision"


def with_a_broken_commit(folder: Path) -> str:
    """Have git find the commit, and no files in it to compare with."""
    tree = git(folder, "rev-parse", "HEAD^{tree}")
    (folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    return "git says: error: bad tree object"


@pytest.mark.parametrize("harm", [refused, without_commits, with_a_broken_commit])
def test_why_git_knows_no_commit_or_changes_is_recorded_and_logged(
    harm: Callable[[Path], str], checkout: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reason = harm(checkout)
    described = describe_environment(CPU)
    assert described["code"]["dirty"] is None
    assert described["code_unknown"].startswith(reason)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert described["code_unknown"] in caplog.text


def test_a_checkout_without_git_says_so(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))
    described = describe_environment(CPU)
    assert described["code"] == UNKNOWN
    assert described["code_unknown"] == "git cannot be started: No such file or directory"


@pytest.mark.parametrize(
    ("written", "commit"),
    [
        ('{"url": "https://a.org/b.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}', "c0ffee"),
        ('{"url": "file:///a", "dir_info": {"editable": true}}', None),
        ("{", None),
        (None, None),
    ],
)
def test_a_package_that_pip_took_from_a_repository_has_its_commit(
    written: str | None, commit: str | None, tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = Mock(read_text=lambda name: written if name == "direct_url.json" else "", locate_file=tmp_path.joinpath)
    monkeypatch.setattr(provenance, "distribution", {"augbench": installed}.__getitem__)
    place(tmp_path / "augbench")
    assert code_state() == {"commit": commit, "dirty": None}
    place(tmp_path / "another")
    assert code_state() == UNKNOWN


def test_devices() -> None:
    assert choose_device("cpu") == CPU
    assert available_devices("cpu") == ["cpu"]
    with pytest.raises(UserError, match=r"no device 'tpu' here.*auto, cpu"):
        choose_device("tpu")


def test_the_environment_names_versions_command_and_how_images_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["augbench", "run", "my suite.toml"])
    described = describe_environment(CPU)
    assert described["command"] == "augbench run 'my suite.toml'"
    assert described["packages"]["torch"] == torch.__version__.partition("+")[0]
    assert described["device"]
    assert (described["float32_convolutions"], described["resampling"]) == ("ieee", "torch")
    monkeypatch.setenv(provenance.COMMAND_VARIABLE, "augbench demo")
    assert provenance.given_command() == "augbench demo"


@pytest.mark.parametrize(
    ("capability", "allowed", "name"), [((9, 0), True, "tf32"), ((9, 0), False, "ieee"), ((7, 5), True, "ieee")]
)
def test_convolutions_are_in_tf32_where_a_gpu_has_it_and_torch_may(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], allowed: bool, name: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    with torch.backends.cudnn.flags(allow_tf32=allowed):
        assert provenance.float32_convolutions(torch.device("cuda")) == name


def test_a_job_compares_its_code_before_it_imports_torch() -> None:
    program = "import sys, augbench.bench.launchers.slurm_jobs.job_runs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# Differences of code

OLD = {
    "commit": "a" * 40,
    "dirty": False,
    "files": {"bench/a.py": "1", "bench/b.py": "2"},
    "packages": {"torch": "2.9"},
}


def test_the_same_code_has_no_differences_and_every_source_is_in_it() -> None:
    first = fingerprint()
    assert differences(first, fingerprint()) == []
    root = Path(provenance.__file__).resolve().parents[2]
    on_disk = {str(path.relative_to(root)) for name in ("bench", "methods") for path in (root / name).rglob("*.py")}
    assert on_disk <= set(first["files"])
    assert "bench/experiment/suites/paper.toml" in first["files"]


def test_what_differs_is_named_unless_it_is_the_commit_alone() -> None:
    new = OLD | {"commit": "b" * 40, "files": {"bench/a.py": "9", "bench/c.py": "3"}, "packages": {"torch": "2.10"}}
    assert differences(OLD, new) == [
        "commit aaaaaaaaaaaa then, bbbbbbbbbbbb now",
        "bench/a.py has changed",
        "bench/c.py is new",
        "bench/b.py is gone",
        "torch 2.9 then, 2.10 now",
    ]
    assert differences(OLD, OLD | {"commit": "b" * 40, "dirty": True}) == []


def test_many_differences_are_counted() -> None:
    found = differences(OLD, OLD | {"files": {f"bench/{index}.py": "1" for index in range(30)}})
    assert len(found) == MOST_NAMED + 1
    assert found[-1] == f"and {32 - MOST_NAMED} more"


def test_a_plug_in_counts(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("A = 1\n")
    with plugins_added([file]):
        before = fingerprint()
        file.write_text("A = 2\n")
        assert differences(before, fingerprint()) == [f"{file} has changed"]
