"""Where a result comes from: code, versions of libraries, machine, device and command; and what has changed since."""

import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import augbench
from augbench.bench.common.errors import UnfitMachineError, shortened
from augbench.bench.registry.plugins import describe_plugins, plugin_files
from augbench.bench.runs.run_log import logger

if TYPE_CHECKING:  # a launcher asks for no more than a command or the code, and need not wait for torch
    import torch

# A launcher passes the command that a person gave on to its workers in this variable.
COMMAND_VARIABLE = "AUGBENCH_COMMAND"
CODE_FOLDERS = ("bench", "methods", "datasets", "results", "slurm", "src")
HEEDED = ("GIT_CONFIG", "GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM")
"""How variables of git begin that do not say which repository is meant; who may be trusted is in the first."""
PACKAGES = ("torch", "torchvision", "numpy", "pydantic", "mlxtend")
RESULTS_DEPEND_ON = ("bench", "methods", "datasets")
SOURCES = (".py", ".toml")
MOST_NAMED = 10  # differences


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
    """Count the cores that this process may use, by its affinity and its job of Slurm; the machine may have more."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    of_job = os.environ.get("SLURM_CPUS_ON_NODE", "")
    return min(cores, int(of_job)) if of_job.isdecimal() and int(of_job) > 0 else cores


def given_command() -> str:
    """Return what a person typed to start this process or the one that started it, as it works on other machines."""
    program = Path(sys.argv[0]).name  # not where it is installed
    command = ["augbench" if program == "__main__.py" else program, *sys.argv[1:]]
    return os.environ.get(COMMAND_VARIABLE) or shlex.join(command)


def describe_environment(device: "torch.device") -> dict[str, Any]:
    """Collect what `environment.json` records."""
    import torch

    from augbench.bench.augmentation import fused_resampling

    properties = torch.cuda.get_device_properties(device) if device.type == "cuda" else None
    code, code_unknown = _ask_for_code()
    if code_unknown:
        logger.warning("The version of the code, or whether it was changed, is unknown: %s", code_unknown)
    return {
        "augbench": augbench.__version__,
        "code": code,
        "code_unknown": code_unknown or None,  # not in `code`, which is published: it may name folders
        "command": given_command(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node(),
        "packages": {name: package_version(name) for name in PACKAGES},
        **_describe_plugins(plugin_files()),
        "device": describe_device(device),
        "device_uuid": str(properties.uuid) if properties is not None else None,
        "float32_convolutions": float32_convolutions(device),
        "resampling": fused_resampling.backend_name(device),
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
    """Git commit of the code and whether files differ from it; each is None where it is not known."""
    return _ask_for_code()[0]


def _ask_for_code() -> tuple[dict[str, Any], str]:
    """Return the state of the code, and why a part of it is not known; empty outside a git checkout."""
    state: dict[str, Any] = {"commit": None, "dirty": None}
    code = Path(__file__).resolve()
    if not any((folder / ".git").exists() for folder in code.parents):  # a file in worktrees and submodules
        return state | {"commit": _installed_commit()}, ""
    try:
        if not _git(code.parent, "ls-files", "--", code.name):  # installed inside somebody's checkout
            return state | {"commit": _installed_commit()}, ""
        state["commit"] = _git(code.parent, "rev-parse", "--verify", "HEAD")
        # run folders that lie in the checkout are no change of the code
        changes = _git(code.parents[2], "status", "--porcelain", "--untracked-files=normal", "--", *CODE_FOLDERS)
        state["dirty"] = bool(changes)
    except OSError as error:
        return state, f"git cannot be started: {error.strerror}"
    except subprocess.CalledProcessError as error:
        return state, f"git says: {shortened(' '.join(error.stderr.split()))}"
    return state, ""


def _git(folder: Path, *arguments: str) -> str:
    # a hook of git, for one, has variables that name another repository
    variables = {
        key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key.startswith(HEEDED)
    }
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True, env=variables)  # noqa: S603
    return ended.stdout.strip()


def _installed_commit() -> str | None:
    """The commit that pip has written down of a package that it took from a git repository."""
    try:
        installed = distribution("augbench")
        here = str(installed.locate_file("augbench/bench/training/provenance.py"))
        if Path(here).resolve() != Path(__file__).resolve():
            return None
        commit = json.loads(installed.read_text("direct_url.json") or "{}")["vcs_info"]["commit_id"]
    except (PackageNotFoundError, ValueError, KeyError, TypeError):
        return None
    return str(commit)


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


def fingerprint() -> dict[str, Any]:
    """Identify the code of this process and its plug-ins, as it is on disk now.

    Returns:
        `commit` and `dirty` of the git checkout (None outside one), `files` with a checksum for each, `packages`.
    """
    return {
        **code_state(),
        "files": dict(_checksums()),
        "packages": {name: package_version(name) for name in PACKAGES},
    }


def _checksums() -> Iterator[tuple[str, str]]:
    for name in RESULTS_DEPEND_ON:
        # beside the package's first file, in a checkout by a link or at the top
        folder = next(Path(place, name).resolve() for place in augbench.__path__ if Path(place, name).is_dir())
        for path in sorted(folder.rglob("*")):
            if path.suffix in SOURCES:
                yield f"{name}/{path.relative_to(folder).as_posix()}", _checksum(path)
    for path in filter(Path.is_file, plugin_files()):  # one that is gone differs from before by not being there
        yield str(path), _checksum(path)


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Name what differs between two fingerprints, a text each; empty if the code is the same.

    Another commit that changes none of the files makes no difference.
    """
    old, new = before["files"], now["files"]
    found = [f"{name} has changed" for name in sorted(set(old) & set(new)) if old[name] != new[name]]
    found += [f"{name} is new" for name in sorted(set(new) - set(old))]
    found += [f"{name} is gone" for name in sorted(set(old) - set(new))]
    for name, version_then in before["packages"].items():
        if version_then != (version_now := now["packages"].get(name)):
            found.append(f"{name} {version_then} then, {version_now} now")
    if found and before["commit"] != now["commit"]:
        then, today = ((state["commit"] or "none")[:12] for state in (before, now))
        found.insert(0, f"commit {then} then, {today} now")
    if len(found) > MOST_NAMED:
        found = [*found[:MOST_NAMED], f"and {len(found) - MOST_NAMED} more"]
    return found


def other_code(submitted: Mapping[str, Any]) -> str:
    """Say how the code on this machine differs from the code that was submitted; empty if it does not.

    Args:
        submitted: The fingerprint of the code that was submitted.
    """
    changes = differences(submitted, fingerprint())
    if not changes:
        return ""
    return (
        f"The code on {os.uname().nodename} differs from the code that was submitted: {'; '.join(changes)}. Go back to "
        "that code, or install the same code on every machine and give the same command again. "
        "--allow-changed-code lets runs that wait use whatever code is there."
    )
