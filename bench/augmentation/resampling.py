"""Crop and resample images, fast without a compiler: crops as windows, grids as two planes, pieces that fit a cache."""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from augbench.bench.augmentation.network_input import NetworkInput

PIXELS_OF_A_PIECE = 1 << 17  # 512 KiB of float32, so that what is made of a piece is still in the cache when it is read


def crop(images: Tensor, offsets: Tensor, padding: int) -> Tensor:
    """Crop zero-padded images to the size they had, as torchvision's `RandomCrop` does.

    Args:
        images: (B, C, S, S), of any type.
        offsets: Row and column where each crop begins in the padded image; crop n is of image n mod B; (N, 2) long.
        padding: Pixels on each side.

    Returns:
        (N, C, S, S).
    """
    if not images.requires_grad:
        return torch.index_select(*crop_windows(images, offsets, padding))
    # The gradient of windows takes as much memory as all of them: here one for each place, and not for each pixel.
    batch, size = len(images), images.shape[-1]
    image = torch.arange(batch, device=images.device).repeat(len(offsets) // batch)
    windows = F.pad(images, (padding,) * 4).unfold(2, size, 1).unfold(3, size, 1)
    return windows[image, :, offsets[:, 0], offsets[:, 1]]


def crop_windows(images: Tensor, offsets: Tensor, padding: int) -> tuple[Tensor, int, Tensor]:
    """Every window of the padded images, one beginning at each pixel, and which of them are the crops.

    Takes what `crop` does and returns the arguments of `torch.index_select`: the windows, a view that costs nothing,
    their dimension, and the index of each crop; (N,) long.
    """
    batch, channels, size, _ = images.shape
    if len(offsets) % batch:
        raise ValueError(f"{len(offsets)} draws are not the same number for each of {batch} images.")
    padded = F.pad(images, (padding,) * 4).contiguous()
    side = size + 2 * padding
    area = side * side
    first = torch.arange(0, padded.numel(), channels * area, device=images.device)
    starts = (side * offsets[:, 0] + offsets[:, 1]).view(-1, batch) + first
    return windows(padded, size), 0, starts.flatten()


def windows(padded: Tensor, size: int) -> Tensor:
    """View contiguous images (…, C, P, P) as all their windows, one from each pixel on; (·, C, size, size)."""
    channels, side = padded.shape[-3:-1]
    count = padded.numel() - (channels - 1) * side**2 - (size - 1) * (side + 1)
    return padded.as_strided((count, channels, size, size), (1, side**2, side, 1))


def sampling_grid(inverse_matrices: Tensor, height: int, width: int) -> Tensor:
    """Input coordinates of the centre of every output pixel: what `affine_grid` gives, in less time.

    Where a coordinate is at a tie, rounding decides which pixel is the nearest, so centres and sums are rounded in the
    way of `affine_grid`.

    Args:
        inverse_matrices: From output to input coordinates; (N, 2, 2) linear or (N, 2, 3) affine.
        height: Pixels of a column.
        width: Pixels of a row.

    Returns:
        (N, H, W, 2), a view of (N, 2, H, W).
    """
    x, y = (centres(length, inverse_matrices.dtype, inverse_matrices.device) for length in (width, height))
    planes = inverse_matrices[:, :, 0, None, None] * x + (inverse_matrices[:, :, 1, None] * y)[..., None]
    if inverse_matrices.shape[-1] == 3:
        planes = planes + inverse_matrices[:, :, 2, None, None]
    return planes.permute(0, 2, 3, 1)


@cache
def centres(length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Coordinates of the centres of a line of pixels that fills [−1, 1], rounded as by `affine_grid`; (length,)."""
    return torch.linspace(-1, 1, length, dtype=dtype, device=device) * (length - 1) / length


def sampled(images: Tensor, grid: Tensor) -> Tensor:
    """Sample images (N, C, H, W) at a grid (N, H, W, 2): bilinear, zero outside, `align_corners=False`."""
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def normalised(images: Tensor, form: NetworkInput) -> Tensor:
    """Normalise images in [0, 1] for a network; (N, C, H, W)."""
    output = (images - form.mean[:, None, None]) / form.deviation[:, None, None]
    return output.to(form.dtype, memory_format=torch.channels_last)


def resample_in_pieces(images: Tensor, offsets: Tensor, padding: int, inverse_matrices: Tensor) -> Tensor:
    """Crop and resample uint8 images on a CPU, a few at a time; the gradient makes the crops again.

    Equals `sampled(crop(images, offsets, padding) / 255, sampling_grid(inverse_matrices, S, S))`, but whatever is
    between the images and the output stays in the cache, and neither floats nor grids are kept for the gradient.

    Args:
        images: (B, C, S, S), uint8.
        offsets: Row and column of each crop, as for `crop`; (N, 2) long.
        padding: Pixels on each side.
        inverse_matrices: From output to input coordinates; (N, 2, 2) float32.

    Returns:
        Images in [0, 1]; (N, C, S, S) float32, differentiable in the matrices.
    """
    windows, _, starts = crop_windows(images, offsets, padding)
    output: Tensor = _InPieces.apply(inverse_matrices, windows, starts)
    return output


class _InPieces(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inverse_matrices: Tensor, windows: Tensor, starts: Tensor) -> Tensor:
        ctx.save_for_backward(inverse_matrices, windows, starts)
        output = torch.empty(len(starts), *windows.shape[1:])
        piece = _images_of_a_piece(windows)
        pieces = (tensor.split(piece) for tensor in (inverse_matrices, starts, output))
        for matrices, chosen, part in zip(*pieces, strict=True):
            crops = windows.index_select(0, chosen) / 255
            part.copy_(sampled(crops, sampling_grid(matrices, *crops.shape[2:])))
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        inverse_matrices, windows, starts = ctx.saved_tensors
        piece = _images_of_a_piece(windows)
        pieces = (tensor.split(piece) for tensor in (inverse_matrices, starts, gradient))
        found = []
        for matrices, chosen, part in zip(*pieces, strict=True):
            crops = windows.index_select(0, chosen) / 255
            grid = sampling_grid(matrices, *crops.shape[2:])
            of_grid = torch.ops.aten.grid_sampler_2d_backward(part, crops, grid, 0, 0, False, [False, True])[1]
            found.append(of_grid.flatten(1) @ _grid_derivative(crops.shape[-1]))
        return torch.cat(found).view(-1, 2, 2), None, None


def _images_of_a_piece(windows: Tensor) -> int:
    return max(1, PIXELS_OF_A_PIECE // windows[0].numel())


@cache
def _grid_derivative(size: int) -> Tensor:
    """Derivative of the coordinates (S, S, 2) in the entries of the matrix (2, 2), both flat; (2·S², 4)."""
    line = centres(size, torch.float32, torch.device("cpu"))
    y, x = torch.meshgrid(line, line, indexing="ij")
    return torch.einsum("hwj,ik->hwikj", torch.stack((x, y), 2), torch.eye(2)).reshape(2 * size * size, 4)
