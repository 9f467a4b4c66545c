"""Which code and which device a result comes from."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from augbench.bench import environment
from augbench.bench.environment import available_devices, choose_device, code_state, describe_environment
from augbench.bench.errors import UserError


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a git checkout with one file of code and take the code to be there."""
    (tmp_path / "bench").mkdir()
    code = tmp_path / "bench" / "environment.py"
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
    (checkout / "bench" / "environment.py").write_text("one = 2\n")
    assert code_state()["dirty"] is True


def test_a_new_file_of_code_is_a_change(checkout: Path) -> None:
    (checkout / "methods").mkdir()
    (checkout / "methods" / "mine.py").touch()
    assert code_state()["dirty"] is True


def test_an_installed_package_has_no_commit(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the environment that it is installed in lies inside somebody's checkout."""
    installed = checkout / "venv" / "augbench" / "bench"
    installed.mkdir(parents=True)
    (installed / "environment.py").touch()
    monkeypatch.setattr(environment, "__file__", str(installed / "environment.py"))
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
    program = "import sys, augbench.bench.environment; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
