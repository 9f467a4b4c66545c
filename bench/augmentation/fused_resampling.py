"""Gather, crop, resampling and normalisation of a batch in one kernel on a GPU, with its gradient, through Triton.

The plain path of `bench/augmentation/affine_space.py` computes the same, and is what this is tested against.
"""

import os
import shutil
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from augbench.bench.augmentation.network_input import NetworkInput


@dataclass(frozen=True)
class Launch:
    """How the kernels are launched.

    Attributes:
        block: Pixels that a program works on at a time, a power of 2.
        warps: Warps of 32 threads of a program.
    """

    block: int = 256
    warps: int = 4


@dataclass(frozen=True)
class Crops:
    """Crops of zero-padded images, made while they are resampled.

    Attributes:
        images: All images; (·, C, S, S), uint8.
        indices: Which of them are in the batch, all by default; (B,) long.
        offsets: Row and column where each crop begins in the padded image; crop n is of image n mod B; (N, 2) long.
        padding: Pixels on each side.
        form: What the images are made for, if for a network behind its normalisation.
    """

    images: Tensor
    indices: Tensor | None
    offsets: Tensor
    padding: int
    form: NetworkInput | None = None


@cache
def usable(device: torch.device) -> bool:
    """Tell whether the kernels can be used on a device: a GPU, where Triton is installed and finds a C compiler."""
    return device.type == "cuda" and find_spec("triton") is not None and _has_compiler()


def _has_compiler() -> bool:
    """Look where Triton does, which compiles a launcher for its kernels on every machine."""
    return bool(os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang"))


def backend_name(device: torch.device) -> str:
    """Say what resamples on a device, for the record of a run."""
    return f"fused (triton {import_module('triton').__version__})" if usable(device) else "torch"


def resample(crops: Crops, inverse_matrices: Tensor, launch: Launch | None = None) -> Tensor:
    """Crop and resample images once: bilinear, `align_corners=False`, zero (black) fill.

    Args:
        crops: What is resampled.
        inverse_matrices: From output to input coordinates; (N, 2, 2) float32.
        launch: How the kernels are launched.

    Returns:
        Images in [0, 1], float32, or as `crops.form` says; (N, C, S, S), differentiable in the matrices.
    """
    output: Tensor = _FusedResampling.apply(inverse_matrices, crops, launch or Launch())
    return output


def compile_kernels(images: Tensor, padding: int, form: NetworkInput | None) -> None:
    """Compile the kernels of a run before they are needed; no random number is drawn.

    They are those of training, with indices and for the network, and those of test-time draws, with neither; what of it
    was compiled on this machine before is read from Triton's cache.

    Args:
        images: All images; (·, C, S, S), uint8.
        padding: Pixels on each side.
        form: What images are made for in training, if for a network behind its normalisation.
    """
    offsets = torch.zeros(1, 2, dtype=torch.long, device=images.device)
    matrices = torch.eye(2, device=images.device)[None].requires_grad_()
    for crops in (Crops(images, offsets[:, 0], offsets, padding, form), Crops(images[:1], None, offsets, padding)):
        resample(crops, matrices).sum().backward()


class _FusedResampling(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inverse_matrices: Tensor, crops: Crops, launch: Launch) -> Tensor:
        from augbench.bench.augmentation.resampling_kernels import resample_kernel  # Triton is not installed everywhere

        form, images = crops.form, crops.images.contiguous()
        matrices, offsets = inverse_matrices.detach().contiguous(), crops.offsets.contiguous()
        indices = None if crops.indices is None else crops.indices.contiguous()
        ctx.save_for_backward(matrices, images, indices, offsets)
        ctx.crops, ctx.launch = crops, launch
        output = torch.empty(
            (len(offsets), *images.shape[1:]),
            dtype=torch.float32 if form is None else form.dtype,
            device=images.device,
            memory_format=_memory_format(crops),
        )
        mean, deviation = (None, None) if form is None else (form.mean, form.deviation)
        arguments = (output, images, indices, offsets, matrices, mean, deviation)
        with torch.cuda.device_of(images):
            resample_kernel[(len(offsets),)](*arguments, **_sizes(crops, launch))
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        from augbench.bench.augmentation.resampling_kernels import matrix_gradient_kernel

        matrices, images, indices, offsets = ctx.saved_tensors
        crops, output = ctx.crops, torch.empty_like(matrices)
        gradient = gradient.contiguous(memory_format=_memory_format(crops))
        deviation = None if crops.form is None else crops.form.deviation
        arguments = (output, gradient, images, indices, offsets, matrices, deviation)
        with torch.cuda.device_of(images):
            matrix_gradient_kernel[(len(offsets),)](*arguments, **_sizes(crops, ctx.launch))
        return output, None, None


def _memory_format(crops: Crops) -> torch.memory_format:
    return torch.contiguous_format if crops.form is None else torch.channels_last


def _sizes(crops: Crops, launch: Launch) -> dict[str, int]:
    """Arguments that the two kernels have in common."""
    images, channels, size, _ = crops.images.shape
    return {
        "batch": images if crops.indices is None else len(crops.indices),
        "padding": crops.padding,
        "size": size,
        "channels": channels,
        "pixel_stride": 1 if crops.form is None else channels,
        "channel_stride": size * size if crops.form is None else 1,
        "block": launch.block,
        "num_warps": launch.warps,
    }
