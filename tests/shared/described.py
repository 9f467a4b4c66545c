"""Methods with something learned, and what their described policies say."""

from typing import Any

import torch
from method_factories import make_method, seeded

from augbench.bench.contract.method import Method
from augbench.bench.experiment.catalogues import methods

FAST_AA = [[["Rotate", 0.5, 0.7], ["Posterize", 0.3, 0.4]], [["Cutout", 0.9, 0.7], ["ShearX", 0.3, 0.4]]]
DESCRIBED = [entry.name for entry in methods() if entry.name != "none"]
AFFINE = [name for name in DESCRIBED if methods().get(name).sample_transforms is not Method.sample_transforms]


def learned_method(name: str, side: int = 14, channels: int = 1) -> Method[Any]:
    """Make a method that has learned something other than its start."""
    method = make_method(
        methods().get(name), side=side, channels=channels, settings={"policy": FAST_AA} if name == "fast-aa" else None
    )
    source = seeded(1)
    with torch.no_grad():
        if name in ("scale", "scale-norm", "dada"):
            for key, tensor in method.learnable.items():
                if key != "kept":
                    tensor.uniform_(0.2, 0.8, generator=source)
        elif name.startswith("augerino"):
            method.learnable["raw_width"].uniform_(-2, 0.5, generator=source)
        elif name == "faster-aa":
            for tensor in method.learnable.values():
                tensor.uniform_(generator=source)
    return method
