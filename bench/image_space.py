"""The wide space: image-processing operations of AutoAugment and its successors, on whole groups of a batch.

`MAGNITUDES` says in which unit each operation takes its strength and at which value it leaves an image as it is.
Geometric operations act on the plane as torchvision's policies do: shears keep the top-left corner where it is, a
positive translation moves the image to the right or down, a positive rotation turns it counter-clockwise, and what
comes into view is black.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.space import to_unit_interval

OPERATIONS = (
    *("Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"),
    *("Brightness", "Color", "Contrast", "Sharpness"),
    *("Posterize", "Solarize", "AutoContrast", "Equalize", "Invert", "Cutout"),
)
GEOMETRIC = OPERATIONS[1:6]
ENHANCING = OPERATIONS[6:10]


@dataclass(frozen=True)
class Magnitude:
    """What an operation's strength means.

    Attributes:
        unit: Its unit, with the valid values where they are bounded.
        neutral: The value at which an image stays as it is.
        mirrored: Whether policies draw strengths on both sides of the neutral value.
    """

    unit: str
    neutral: float
    mirrored: bool = False


MAGNITUDES = MappingProxyType(
    {
        "ShearX": Magnitude("tangent of the angle, about the top-left corner", 0, mirrored=True),
        "ShearY": Magnitude("tangent of the angle, about the top-left corner", 0, mirrored=True),
        "TranslateX": Magnitude("share of the side, positive to the right", 0, mirrored=True),
        "TranslateY": Magnitude("share of the side, positive downwards", 0, mirrored=True),
        "Rotate": Magnitude("degrees, positive counter-clockwise", 0, mirrored=True),
        "Brightness": Magnitude("factor from 0 (black)", 1, mirrored=True),
        "Color": Magnitude("factor from 0 (grey)", 1, mirrored=True),
        "Contrast": Magnitude("factor from 0 (the mean grey everywhere)", 1, mirrored=True),
        "Sharpness": Magnitude("factor from 0 (smoothed)", 1, mirrored=True),
        "Posterize": Magnitude("bits kept of 8, a whole number from 1", 8),
        "Solarize": Magnitude("threshold in [0, 1] from which pixels are inverted, none above 1", 256 / 255),
        "Cutout": Magnitude("side of the square as a share of the image's side", 0),
    }
)
"""Strengths of the operations that have one; Identity, AutoContrast, Equalize and Invert ignore theirs."""


@dataclass(frozen=True)
class ImageSpace:
    """Image-processing operations at one image size.

    Attributes:
        image_size: Height and width of the images, in pixels.
        interpolation: How geometric operations resample; `nearest` has no gradient in their magnitudes.
    """

    image_size: int
    interpolation: Literal["nearest", "bilinear"] = "nearest"

    def apply(self, images: Tensor, operations: Tensor, magnitudes: Tensor, generator: torch.Generator) -> Tensor:
        """Apply one operation to each image.

        The batch is sorted by operation, so that each operation sees its images in one piece; the device is waited
        for once, when the sizes of the pieces are read.

        Args:
            images: (N, C, H, W) with 1 or 3 channels, uint8 in 0…255 or float in [0, 1].
            operations: Index into `OPERATIONS` for each image; (N,) long.
            magnitudes: Strength in the operation's own unit (`MAGNITUDES`); (N,) float.
            generator: Source of randomness (where Cutout cuts) on the images' device; the same count of numbers
                is drawn whatever the operations.

        Returns:
            Float images in [0, 1]. Differentiable in the images except through Posterize and Equalize, in the
            magnitudes of the enhancing operations and, where bilinear, in those of the geometric ones.

        Raises:
            ValueError: If a number in `operations` is not that of an operation.
        """
        images = to_unit_interval(images)
        centres = torch.rand(len(images), 2, device=images.device, generator=generator, dtype=images.dtype)
        order = operations.argsort(stable=True)
        counts = (operations[:, None] == torch.arange(len(OPERATIONS), device=operations.device)).sum(0).tolist()
        if sum(counts) != len(images):
            raise ValueError(f"Operations are numbered from 0 to {len(OPERATIONS) - 1}.")
        batch = _Piece(images[order], operations[order], magnitudes[order].to(images.dtype), centres[order])
        groups = self._groups()
        pieces = batch.split([sum(counts[OPERATIONS.index(name)] for name in names) for names, _ in groups])
        pairs = zip(groups, pieces, strict=True)
        parts = [transform(piece) for (_, transform), piece in pairs if len(piece.images)]
        return torch.cat(parts)[order.argsort()]

    def _groups(self) -> tuple[tuple[tuple[str, ...], "_Transform"], ...]:
        """Operations in the order of `OPERATIONS`, those that are computed together in one group."""
        return (
            (("Identity",), lambda piece: piece.images),
            (GEOMETRIC, self._move),
            (("Brightness",), lambda piece: _blend(piece, piece.images)),
            (("Color",), lambda piece: _blend(piece, piece.images - _grey(piece.images))),
            (("Contrast",), lambda piece: _blend(piece, piece.images - _grey(piece.images).mean((1, 2, 3), True))),
            (("Sharpness",), lambda piece: _blend(piece, _edges(piece.images))),
            (("Posterize",), _posterize),
            (("Solarize",), _solarize),
            (("AutoContrast",), _stretch_contrast),
            (("Equalize",), _equalize),
            (("Invert",), lambda piece: 1 - piece.images),
            (("Cutout",), self._cut_out),
        )

    def _move(self, piece: "_Piece") -> Tensor:
        """Shear, translate or rotate, all in one resampling with zero fill."""
        grid = F.affine_grid(inverse_matrices(piece.operations, piece.magnitudes), list(piece.images.shape), False)
        return F.grid_sample(piece.images, grid, mode=self.interpolation, padding_mode="zeros", align_corners=False)

    def _cut_out(self, piece: "_Piece") -> Tensor:
        """Blacken the pixels whose centre lies in a square; squares are clipped where they leave the image."""
        steps = (torch.arange(self.image_size, device=piece.images.device) + 0.5) / self.image_size
        inside = (steps - piece.centres[:, :, None]).abs() < piece.magnitudes[:, None, None] / 2
        square = inside[:, 0, None, :, None] & inside[:, 1, None, None, :]
        return piece.images.masked_fill(square, 0)


@dataclass(frozen=True)
class _Piece:
    """The images of a batch that one group of operations acts on, with what concerns them; the centres are (n, 2)."""

    images: Tensor
    operations: Tensor
    magnitudes: Tensor
    centres: Tensor

    def split(self, sizes: list[int]) -> list["_Piece"]:
        tensors = (self.images, self.operations, self.magnitudes, self.centres)
        return [_Piece(*parts) for parts in zip(*(tensor.split(sizes) for tensor in tensors), strict=True)]


_Transform = Callable[[_Piece], Tensor]


def inverse_matrices(operations: Tensor, magnitudes: Tensor) -> Tensor:
    """Matrices of the geometric operations, from output to input coordinates of `affine_grid`; (N, 2, 3).

    Args:
        operations: Index into `OPERATIONS`; what is not geometric gets the identity; (N,).
        magnitudes: Strength in the unit of the operation; (N,).
    """
    shear_x, shear_y, shift_x, shift_y, degrees = (
        magnitudes * (operations == OPERATIONS.index(name)) for name in GEOMETRIC
    )
    angle = degrees * (math.pi / 180)
    cosine, sine = angle.cos(), angle.sin()
    # the top-left corner is (−1, −1), so a shear about it adds itself to the translation; the side is 2
    top = torch.stack((cosine, shear_x - sine, shear_x - 2 * shift_x), dim=1)
    bottom = torch.stack((sine + shear_y, cosine, shear_y - 2 * shift_y), dim=1)
    return torch.stack((top, bottom), dim=1)


def _blend(piece: _Piece, difference: Tensor) -> Tensor:
    """Blend images with a degenerate image that they differ from by `difference`; exact at the factor 1."""
    return (piece.images + (piece.magnitudes - 1)[:, None, None, None] * difference).clamp(0, 1)


def _grey(images: Tensor) -> Tensor:
    """Luminance with torchvision's weights; (n, 1, H, W)."""
    if images.shape[1] == 1:
        return images
    return 0.2989 * images[:, :1] + 0.587 * images[:, 1:2] + 0.114 * images[:, 2:]


def _edges(images: Tensor) -> Tensor:
    """What smoothing with PIL's 3×3 kernel, ones around a 5, takes away; the border is not smoothed."""
    inner = images[:, :, 1:-1, 1:-1]
    return F.pad((9 / 13) * (inner - F.avg_pool2d(images, 3, stride=1)), (1, 1, 1, 1))


def _posterize(piece: _Piece) -> Tensor:
    """Keep the highest bits of the 8 that a grey level has."""
    bits = piece.magnitudes.round()[:, None, None, None]
    dropped = (8 - bits).to(torch.uint8)
    coarse = (_levels(piece.images) >> dropped) << dropped
    return torch.where(bits >= 8, piece.images, coarse.to(piece.images.dtype) / 255)


def _levels(images: Tensor) -> Tensor:
    """Grey levels in 0…255 by torchvision's rule for the conversion of floats; uint8."""
    return (images * (256 - 1e-3)).to(torch.uint8)


def _solarize(piece: _Piece) -> Tensor:
    """Invert the pixels from the threshold on; a threshold within rounding of a grey level counts as that level."""
    bright = piece.images >= piece.magnitudes[:, None, None, None] - 1e-6
    return torch.where(bright, 1 - piece.images, piece.images)


def _stretch_contrast(piece: _Piece) -> Tensor:
    """Map each channel's darkest pixel to 0 and its brightest to 1; a channel of one level stays."""
    low, high = piece.images.amin((2, 3), True), piece.images.amax((2, 3), True)
    flat = high == low
    return torch.where(flat, piece.images, (piece.images - low) / torch.where(flat, 1, high - low))


def _equalize(piece: _Piece) -> Tensor:
    """Flatten each channel's histogram of 256 grey levels."""
    from torchvision.transforms.v2 import functional as vision  # here, since it takes a second and few methods need it

    levels: Tensor = vision.equalize(_levels(piece.images))
    return levels.to(piece.images.dtype) / 255
