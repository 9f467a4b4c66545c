"""The machine and the versions of the packages, on which the numbers depend besides the code."""

import platform
from pathlib import Path
from typing import Any

import torch

from augbench.bench.training.provenance import code_state, describe_device, package_version, usable_cores

PACKAGES = ("torch", "torchvision", "kornia", "fuse-augmentations", "torchtransform", "triton", "numpy", "pillow")


def describe(device: torch.device) -> dict[str, Any]:
    """Describe device, processor, memory, versions and the state of the code; numbers of bytes as such."""
    found = {
        "device": describe_device(device),
        "processor": describe_device(torch.device("cpu")),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "memory_bytes": _memory(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in PACKAGES},
        "code": code_state(),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found |= {"cuda": torch.version.cuda, "device_memory_bytes": properties.total_memory}
    return found


def _memory() -> int | None:
    """Bytes of this machine's memory, if the system tells."""
    information = Path("/proc/meminfo")
    if not information.exists():
        return None
    return kernel_bytes(information, "MemTotal")


def kernel_bytes(file: Path, key: str) -> int:
    """Read a number of bytes from a file of `/proc` that has lines such as `VmRSS: 12 kB`."""
    lines = file.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:")) * 1024
