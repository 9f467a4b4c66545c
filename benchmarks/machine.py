"""What numbers depend on besides the code: the machine and the versions of what is compared."""

import os
import platform
from pathlib import Path
from typing import Any

import torch

from augbench.bench.environment import code_state, describe_device, package_version

PACKAGES = ("torch", "torchvision", "kornia", "triton", "numpy", "pillow")


def describe(device: torch.device) -> dict[str, Any]:
    """Describe device, processor, memory, versions and the state of the code; numbers of bytes as such."""
    found = {
        "device": describe_device(device),
        "processor": describe_device(torch.device("cpu")),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
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
    """Bytes of this machine's memory, where the system says so."""
    information = Path("/proc/meminfo")
    if not information.exists():
        return None
    line = next(line for line in information.read_text().splitlines() if line.startswith("MemTotal:"))
    return int(line.split()[1]) * 1024
