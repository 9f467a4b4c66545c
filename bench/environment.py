"""What a result depends on besides its specification: code, versions, machine, device, command."""

import os
import platform
import shlex
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import augbench
from augbench.bench.errors import UnfitMachineError
from augbench.bench.plugins import describe_plugins, plugin_files

if TYPE_CHECKING:  # a launcher asks for no more than a command or the code, and need not wait for torch
    import torch

# A launcher passes the command that a person gave on to its workers in this variable.
COMMAND_VARIABLE = "AUGBENCH_COMMAND"
CODE_FOLDERS = ("bench", "methods", "datasets", "results", "slurm", "src")
PACKAGES = ("torch", "torchvision", "numpy", "pydantic", "mlxtend")


def choose_device(name: str) -> "torch.device":
    """Resolve a device by name; `auto` is the first GPU where there is one, else the CPU.

    Raises:
        UnfitMachineError: If there is no such device here.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    available = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if name in available or (name == "cuda" and len(available) > 1):
        return torch.device(name)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hidden = f" (CUDA_VISIBLE_DEVICES is {visible!r})" if name.startswith("cuda") and visible is not None else ""
    raise UnfitMachineError(
        f"There is no device {name!r} here{hidden}. Valid choices for --device: auto, {', '.join(available)}."
    )


def available_devices(name: str) -> list[str]:
    """Devices to give out in turn: every GPU for `auto` where there are any, else the one that is named.

    Raises:
        UnfitMachineError: If there is no such device here.
    """
    import torch

    chosen = choose_device(name)
    if name == "auto" and chosen.type == "cuda":
        return [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    return [str(chosen)]


def describe_device(device: "torch.device") -> str:
    """Name the model of a device, as cost tables show it."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return _cpu_name()


def usable_cores() -> int:
    """Count the cores that this process may use, which may be fewer than the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def given_command() -> str:
    """Return what a person typed to start this process or the one that started it, as it works on other machines."""
    program = Path(sys.argv[0]).name  # not where it is installed
    command = ["augbench" if program == "__main__.py" else program, *sys.argv[1:]]
    return os.environ.get(COMMAND_VARIABLE) or shlex.join(command)


def describe_environment(device: "torch.device") -> dict[str, Any]:
    """Collect what `environment.json` records."""
    import torch

    from augbench.bench import fused_resampling

    properties = torch.cuda.get_device_properties(device) if device.type == "cuda" else None
    return {
        "augbench": augbench.__version__,
        "code": code_state(),
        "command": given_command(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node(),
        "packages": {name: package_version(name) for name in PACKAGES},
        **_describe_plugins(plugin_files()),
        "device": describe_device(device),
        "device_uuid": str(properties.uuid) if properties is not None else None,
        "float32_convolutions": float32_convolutions(device),
        "resampling": fused_resampling.in_words(device),
        "threads": torch.get_num_threads(),
        "cores": usable_cores(),
    }


@cache
def _describe_plugins(files: tuple[Path, ...]) -> dict[str, Any]:
    """Look for plug-ins once in a process, which loads each once; `files` are those that it knows of."""
    return describe_plugins()


def float32_convolutions(device: "torch.device") -> str:
    """Name the arithmetic of convolutions in float32: `tf32`, which torch takes where a GPU has it, or `ieee`."""
    import torch

    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (8, 0):
        return "ieee"
    precision: str = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]  # made while it is imported
    return "tf32" if precision == "tf32" else "ieee"


def code_state() -> dict[str, Any]:
    """Git commit of the code and whether files differ from it; both None outside a git checkout."""
    folder = Path(__file__).resolve().parent
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None or _git(folder, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return {"commit": None, "dirty": None}
    # run folders that lie in the checkout are no change of the code
    return {"commit": commit, "dirty": bool(_git(folder.parent, "status", "--porcelain", "--", *CODE_FOLDERS))}


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None


def package_version(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def _cpu_name() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
