"""Which code it is that runs: git commit, checksums of every source file, versions of libraries; and what differs."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import augbench
from augbench.bench.registry.plugins import plugin_files
from augbench.bench.training.environment import PACKAGES, code_state, package_version

RESULTS_DEPEND_ON = ("bench", "methods", "datasets")
SOURCES = (".py", ".toml")
MOST_NAMED = 10


def fingerprint() -> dict[str, Any]:
    """Identify the code of this process and its plug-ins, as it lies on the disk now.

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
        folder = _folder(name)
        for path in sorted(folder.rglob("*")):
            if path.suffix in SOURCES:
                yield f"{name}/{path.relative_to(folder).as_posix()}", _checksum(path)
    for path in filter(Path.is_file, plugin_files()):  # one that is gone differs from before by not being there
        yield str(path), _checksum(path)


def _folder(name: str) -> Path:
    """Find a folder of the package: beside its first file, in a checkout by a link or at the top."""
    return next(Path(place, name).resolve() for place in augbench.__path__ if Path(place, name).is_dir())


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Say what differs between two fingerprints, one piece of text for each thing; empty if the code is the same.

    Another commit that changes none of the files makes no difference.
    """
    old, new = before["files"], now["files"]
    found = [f"{name} has changed" for name in sorted(set(old) & set(new)) if old[name] != new[name]]
    found += [f"{name} is new" for name in sorted(set(new) - set(old))]
    found += [f"{name} is gone" for name in sorted(set(old) - set(new))]
    for name, version in before["packages"].items():
        if version != now["packages"].get(name):
            found.append(f"{name} {version} then, {now['packages'].get(name)} now")
    if found and before["commit"] != now["commit"]:
        found.insert(0, f"commit {_short(before['commit'])} then, {_short(now['commit'])} now")
    if len(found) > MOST_NAMED:
        found = [*found[:MOST_NAMED], f"and {len(found) - MOST_NAMED} more"]
    return found


def _short(commit: str | None) -> str:
    return commit[:12] if commit else "none"
