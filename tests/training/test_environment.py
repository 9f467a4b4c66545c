"""Which code and which device a result comes from."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from augbench.bench.common.errors import UserError
from augbench.bench.training import environment
from augbench.bench.training.environment import available_devices, choose_device, code_state, describe_environment


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a git checkout with one file of code and take the code to be there."""
    (tmp_path / "bench" / "training").mkdir(parents=True)
    code = tmp_path / "bench" / "training" / "environment.py"
    code.write_text("one = 1\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "one")
    monkeypatch.setattr(environment, "__file__", str(code))
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_code_is_clean_until_a_file_of_it_changes(checkout: Path) -> None:
    assert code_state() == {"commit": git(checkout, "rev-parse", "HEAD"), "dirty": False}
    (checkout / "my-runs").mkdir()
    (checkout / "my-runs" / "result.json").write_text("{}")
    assert code_state()["dirty"] is False
    (checkout / "bench" / "training" / "environment.py").write_text("one = 2\n")
    assert code_state()["dirty"] is True


def test_a_new_file_of_code_is_a_change(checkout: Path) -> None:
    (checkout / "methods").mkdir()
    (checkout / "methods" / "mine.py").touch()
    assert code_state()["dirty"] is True


def test_an_installed_package_has_no_commit(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the environment that it is installed in lies inside somebody's checkout."""
    installed = checkout / "venv" / "augbench" / "bench" / "training"
    installed.mkdir(parents=True)
    (installed / "environment.py").touch()
    monkeypatch.setattr(environment, "__file__", str(installed / "environment.py"))
    assert code_state() == {"commit": None, "dirty": None}


def test_a_repository_that_a_hook_of_git_names_is_not_asked(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "--quiet")
    for name, path in (("DIR", other / ".git"), ("WORK_TREE", other), ("INDEX_FILE", other / ".git" / "index")):
        monkeypatch.setenv(f"GIT_{name}", str(path))
    assert code_state() == {"commit": commit, "dirty": False}


def test_new_files_count_also_where_the_user_has_git_pass_over_them(checkout: Path) -> None:
    git(checkout, "config", "status.showUntrackedFiles", "no")
    (checkout / "bench" / "new.py").touch()
    assert code_state()["dirty"] is True


def test_code_in_a_worktree_has_a_commit(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path_factory.mktemp("beside") / "tree"
    git(checkout, "worktree", "add", "--quiet", str(place))
    monkeypatch.setattr(environment, "__file__", str(place / "bench" / "training" / "environment.py"))
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
    described = describe_environment(torch.device("cpu"))
    assert described["code"]["dirty"] is None
    assert described["code_unknown"].startswith(reason)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert described["code_unknown"] in caplog.text


def test_a_checkout_without_git_says_so(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))
    described = describe_environment(torch.device("cpu"))
    assert described["code"] == {"commit": None, "dirty": None}
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
    written: str | None, commit: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = Mock(read_text=lambda name: written if name == "direct_url.json" else "", locate_file=tmp_path.joinpath)
    monkeypatch.setattr(environment, "distribution", {"augbench": installed}.__getitem__)
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "augbench" / "bench" / "training" / "environment.py"))
    assert code_state() == {"commit": commit, "dirty": None}
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "another" / "environment.py"))
    assert code_state() == {"commit": None, "dirty": None}


def test_devices() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    assert available_devices("cpu") == ["cpu"]
    with pytest.raises(UserError, match=r"no device 'tpu' here.*auto, cpu"):
        choose_device("tpu")


def test_the_environment_names_versions_and_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["augbench", "run", "my suite.toml"])
    described = describe_environment(torch.device("cpu"))
    assert described["command"] == "augbench run 'my suite.toml'"
    assert described["packages"]["torch"] == torch.__version__.partition("+")[0]
    assert described["device"]
    monkeypatch.setenv(environment.COMMAND_VARIABLE, "augbench demo")
    assert describe_environment(torch.device("cpu"))["command"] == "augbench demo"


def test_the_environment_says_how_convolutions_and_resampling_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    described = describe_environment(torch.device("cpu"))
    assert (described["float32_convolutions"], described["resampling"]) == ("ieee", "torch")


@pytest.mark.parametrize(
    ("capability", "allowed", "name"), [((9, 0), True, "tf32"), ((9, 0), False, "ieee"), ((7, 5), True, "ieee")]
)
def test_convolutions_are_in_tf32_where_a_gpu_has_it_and_torch_may(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], allowed: bool, name: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    with torch.backends.cudnn.flags(allow_tf32=allowed):
        assert environment.float32_convolutions(torch.device("cuda")) == name


def test_whoever_asks_for_code_or_command_need_not_wait_for_torch() -> None:
    program = "import sys, augbench.bench.training.environment; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
