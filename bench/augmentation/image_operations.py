"""The image-operation space: operations of AutoAugment and its successors, on whole groups of a batch.

`MAGNITUDES` says in which unit each operation takes its strength and at which value it leaves an image as it is.
Geometric operations act on the plane as torchvision's policies do: shears keep the top-left corner where it is, a
positive translation moves the image to the right or down, a positive rotation turns it counter-clockwise, and what
comes into view is black.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation.affine_space import to_unit_interval
from augbench.bench.augmentation.resampling import sampling_grid
from augbench.bench.common.errors import UserError

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

    Examples:
        Turn two images by 30 degrees and make two others half as bright:

        >>> import torch
        >>> from augbench import ImageSpace
        >>> operations = torch.tensor([5, 5, 6, 6])  # of OPERATIONS: Rotate, Rotate, Brightness, Brightness
        >>> strengths = torch.tensor([30, 30, 0.5, 0.5])
        >>> images = torch.full((4, 3, 32, 32), 200, dtype=torch.uint8)
        >>> made = ImageSpace(32).apply(images, operations, strengths, torch.Generator())
        >>> [round(value, 2) for value in made.amax((1, 2, 3)).tolist()]
        [0.78, 0.78, 0.39, 0.39]
    """

    image_size: int
    interpolation: Literal["nearest", "bilinear"] = "nearest"

    def apply(self, images: Tensor, operations: Tensor, magnitudes: Tensor, generator: torch.Generator) -> Tensor:
        """Apply one operation to each image.

        On a CPU every operation works on its own images alone. Elsewhere that would wait for their number, so every
        operation works on all images and what was not asked for is dropped; the outcome is the same.

        Args:
            images: (N, C, H, W) with 1 or 3 channels, at least 2×2 pixels, uint8 in 0…255 or float in [0, 1].
            operations: Index into `OPERATIONS` for each image; (N,) long.
            magnitudes: Strength in the operation's own unit (`MAGNITUDES`); (N,) float.
            generator: Source of randomness (where Cutout cuts) on the images' device; the same count of numbers
                is drawn whatever the operations.

        Returns:
            Float images in [0, 1]. Differentiable in the images except through Posterize and Equalize, in the
            magnitudes of the enhancing operations and, where bilinear, in those of the geometric ones.

        Raises:
            UserError: If images are neither grey nor in three colours, or have a single pixel.
            ValueError: If a number in `operations` is not that of an operation; only on a CPU, elsewhere such images
                stay as they are.
        """
        shape = tuple(images.shape[1:])
        if shape[0] not in (1, 3) or min(shape[1:]) < 2:
            raise UserError(
                "Image operations such as Color and Sharpness take images with 1 or 3 channels and 2×2 pixels or more; "
                f"these have the shape {shape}. Choose methods in another space for this data set "
                "(`augbench list methods`)."
            )
        dtype = torch.float32 if images.dtype == torch.uint8 else images.dtype
        centres = torch.rand(len(images), 2, device=images.device, generator=generator, dtype=dtype)
        batch = _Piece(images, operations, magnitudes.to(dtype), centres)
        return self._apply_piecewise(batch) if images.device.type == "cpu" else self._apply_everywhere(batch)

    def _apply_piecewise(self, batch: "_Piece") -> Tensor:
        """Apply each operation to its own images, which are fetched, and become floats, a piece at a time."""
        counts = Counter(batch.operations.tolist())
        sizes = [sum(counts[number] for number in group.numbers) for group in self._groups]
        if sum(sizes) != len(batch.images):
            raise ValueError(f"Operations are numbered from 0 to {len(OPERATIONS) - 1}.")
        order, parts = batch.operations.argsort(stable=True), []
        sorted_ones = (each.index_select(0, order) for each in (batch.operations, batch.magnitudes, batch.centres))
        splits = (each.split(sizes) for each in (order, *sorted_ones))
        for group, indices, *numbers in zip(self._groups, *splits, strict=True):
            if len(indices):
                images = to_unit_interval(batch.images.index_select(0, indices))
                parts.append(group.transform(_Piece(images, *numbers)))
        return torch.cat(parts).index_select(0, order.argsort())

    def _apply_everywhere(self, batch: "_Piece") -> Tensor:
        """Apply all operations to all images and select; an operation gets neutral strengths for images of others."""
        output = images = to_unit_interval(batch.images)
        for group in self._groups:
            chosen = (batch.operations >= group.numbers[0]) & (batch.operations <= group.numbers[-1])
            # a strength from elsewhere may be out of range here, and 0 times an infinite derivative is none
            magnitudes = torch.where(chosen, batch.magnitudes, group.neutral)
            piece = _Piece(images, batch.operations, magnitudes, batch.centres)
            output = torch.where(chosen[:, None, None, None], group.transform(piece), output)
        return output

    @cached_property
    def _groups(self) -> tuple["_Group", ...]:
        """Operations in the order of `OPERATIONS`, those that are computed together in one group."""
        return (
            _Group(("Identity",), lambda piece: piece.images),
            _Group(GEOMETRIC, self._move),
            _Group(("Brightness",), lambda piece: _blend(piece, piece.images)),
            _Group(("Color",), lambda piece: _blend(piece, piece.images - _grey(piece.images))),
            _Group(("Contrast",), lambda piece: _blend(piece, piece.images - _mean_grey(piece.images))),
            _Group(("Sharpness",), lambda piece: _blend(piece, _edges(piece.images))),
            _Group(("Posterize",), _posterize),
            _Group(("Solarize",), _solarize),
            _Group(("AutoContrast",), _stretch_contrast),
            _Group(("Equalize",), _equalize),
            _Group(("Invert",), lambda piece: 1 - piece.images),
            _Group(("Cutout",), self._cut_out),
        )

    def _move(self, piece: "_Piece") -> Tensor:
        """Shear, translate or rotate, all in one resampling with zero fill."""
        grid = sampling_grid(inverse_matrices(piece.operations, piece.magnitudes), *piece.images.shape[2:])
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


@dataclass(frozen=True)
class _Group:
    """Operations that follow one another in `OPERATIONS`, are computed together and have one neutral strength."""

    names: tuple[str, ...]
    transform: Callable[[_Piece], Tensor]

    @cached_property
    def numbers(self) -> range:
        first = OPERATIONS.index(self.names[0])
        return range(first, first + len(self.names))

    @cached_property
    def neutral(self) -> float:
        known = MAGNITUDES.get(self.names[0])
        return known.neutral if known else 0.0


def inverse_matrices(operations: Tensor, magnitudes: Tensor) -> Tensor:
    """Matrices of the geometric operations, from output to input coordinates of `affine_grid`; (N, 2, 3).

    Args:
        operations: Index into `OPERATIONS`; what is not geometric gets the identity; (N,).
        magnitudes: Strength in the unit of the operation; (N,).
    """
    numbers = torch.arange(len(GEOMETRIC), device=operations.device) + OPERATIONS.index(GEOMETRIC[0])
    own = magnitudes[:, None] * (operations[:, None] == numbers)
    shear_x, shear_y, shift_x, shift_y, degrees = own.unbind(1)
    angle = degrees * (math.pi / 180)
    cosine, sine = angle.cos(), angle.sin()
    # the top-left corner is (−1, −1), so a shear about it adds itself to the translation; the side is 2
    top = (cosine, shear_x - sine, shear_x - 2 * shift_x)
    bottom = (sine + shear_y, cosine, shear_y - 2 * shift_y)
    return torch.stack((*top, *bottom), dim=1).view(-1, 2, 3)


def _blend(piece: _Piece, difference: Tensor) -> Tensor:
    """Blend images with a degenerate image that they differ from by `difference`; exact at the factor 1."""
    return (piece.images + (piece.magnitudes - 1)[:, None, None, None] * difference).clamp(0, 1)


def _grey(images: Tensor) -> Tensor:
    """Luminance with torchvision's weights; (n, 1, H, W)."""
    if images.shape[1] == 1:
        return images
    return 0.2989 * images[:, :1] + 0.587 * images[:, 1:2] + 0.114 * images[:, 2:]


def _mean_grey(images: Tensor) -> Tensor:
    """Mean luminance of each image; (n, 1, 1, 1)."""
    return _grey(images).mean((1, 2, 3), True)


def _edges(images: Tensor) -> Tensor:
    """What smoothing with PIL's 3×3 kernel, ones around a 5, takes away; the border is not smoothed."""
    # sums of three and three: several times as fast as pooling or a convolution on a CPU
    columns = images[:, :, :-2] + images[:, :, 1:-1] + images[:, :, 2:]
    squares = columns[..., :-2] + columns[..., 1:-1] + columns[..., 2:]
    return F.pad((9 / 13) * (images[:, :, 1:-1, 1:-1] - squares / 9), (1, 1, 1, 1))


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
    """Flatten each channel's histogram of 256 grey levels, by PIL's rule.

    A level moves to the number of darker pixels over the step, rounded to the nearest, where 255 steps are all pixels
    but the brightest ones; a channel with less than one pixel to a step stays.
    """
    levels = _levels(piece.images).flatten(2).long()
    histogram = levels.new_zeros(*levels.shape[:2], 256).scatter_add_(2, levels, torch.ones_like(levels))
    brightest = histogram.gather(2, levels.amax(2, keepdim=True))
    step = (levels.shape[2] - brightest) // 255
    darker = histogram.cumsum(2) - histogram
    moved = ((darker + step // 2) // step.clamp(min=1)).clamp(max=255)
    equalized = torch.where(step > 0, moved.gather(2, levels), levels)
    return equalized.view_as(piece.images).to(piece.images.dtype) / 255
