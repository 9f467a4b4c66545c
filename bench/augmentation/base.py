"""The base under every policy: random crop and mirror image before the learned transforms, cutout after them."""

from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from augbench.bench.augmentation.resampling import windows


@dataclass(frozen=True)
class BaseAugmentation:
    """The usual augmentation of training images, the same whichever method is compared on top of it.

    The crop is torchvision's `RandomCrop(size, padding)` with zero (black) fill, the flip `RandomHorizontalFlip()`.
    The cutout (DeVries and Taylor, arXiv 1708.04552) fills one square with the mean colour of the training images:
    zeros behind the normalisation, where the published code of the policies has it, too. Its centre is uniform over the
    pixels; what reaches beyond the border is cut off.

    Attributes:
        padding: Zero padding of the crop, in pixels on each side; 0 without a crop.
        flips: Whether images are mirrored left to right with probability ½.
        square: Side of the cutout's square, in pixels; 0 without a cutout.
        mean: Mean of each channel of the training images, in [0, 1]; (C,).
        source: Source of its randomness, on the device of the images; nothing else draws from it.
    """

    padding: int = 0
    flips: bool = False
    square: int = 0
    mean: Tensor = field(default_factory=lambda: torch.zeros(1))
    source: torch.Generator = field(default_factory=torch.Generator)

    @property
    def moves(self) -> bool:
        """Whether it does anything before the learned transforms."""
        return self.padding > 0 or self.flips

    def before(self, images: Tensor, copies: int = 1) -> Tensor:
        """Crop, then mirror, each copy by a draw of its own.

        Args:
            images: (B, C, S, S), uint8.
            copies: Copies M of each image.

        Returns:
            The copies, copy by copy as `repeat` makes them; (M·B, C, S, S). The images themselves, not repeated, where
            there is neither crop nor flip.
        """
        if not self.moves:
            return images
        shape, device = images.shape[1:], images.device
        starts, corners = _places(self.padding, self.flips, shape[-1], images.numel(), device)
        drawn = torch.randint(len(starts), (copies * len(images),), device=device, generator=self.source)
        first = torch.arange(0, images.numel(), shape.numel(), device=device).repeat(copies)
        windows_of_line = self._line(images).unfold(0, shape.numel(), 1)
        moved = windows_of_line.index_select(0, first + starts.index_select(0, drawn)).view(-1, *shape)
        if not self.padding:
            return moved
        visible = _frame(self.padding, shape[-1], device).index_select(0, corners.index_select(0, drawn))
        return moved.bitwise_and_(visible)

    def _line(self, images: Tensor) -> Tensor:
        """Put all pixels in one line, then those of mirrored images where there is a flip, with a margin at both ends.

        A crop is a piece of that line which begins some rows and columns from where its image does: copied at once, and
        not row by row. What lies in it of other rows and images is blackened afterwards.
        """
        margin = images.new_zeros(self.padding * (images.shape[-1] + 1))
        mirrored = [images.flip(-1).flatten()] if self.flips else []
        return torch.cat((margin, images.flatten(), *mirrored, margin))

    def after(self, images: Tensor, normalised: bool = False) -> Tensor:
        """Cut out a square of each image.

        Args:
            images: (N, C, S, S), float in [0, 1], or behind the network's normalisation.
            normalised: Which of the two.

        Returns:
            (N, C, S, S), of the same type and memory order; differentiable in the images outside the squares.
        """
        if not self.square:
            return images
        side = images.shape[-1]
        centres = torch.randint(side, (len(images), 2), device=images.device, generator=self.source)
        lines = _lines(side, self.square, images.dtype, images.device).index_select(0, centres.flatten())
        rows, columns = lines.view(-1, 2, side).unbind(1)
        squares = (rows[:, :, None] * columns[:, None, :])[:, None]
        colour = torch.zeros_like(self.mean) if normalised else self.mean
        # exact at the weights 0 and 1, and half the time of `where`
        return torch.lerp(images, colour.to(images.dtype)[:, None, None], squares)


@cache
def _places(padding: int, flips: bool, size: int, pixels: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Where crops begin in the line of `BaseAugmentation`, counted from their image's first pixel, and in `_frame`.

    All of them and, where there is a flip, those of the mirrored images, which follow the other `pixels`; each
    ((2·padding + 1)²,), or twice as many. The window at row r and column c of the mirrored image, counted from the
    right, is the mirrored crop at (r, c).
    """
    positions = torch.arange(2 * padding + 1, device=device)
    columns = torch.stack((positions, positions.flip(0))[: 1 + flips])
    starts, corners = ((positions[:, None] * line + columns[:, None]).flatten(1) for line in (size, size + 2 * padding))
    return (starts + pixels * torch.arange(len(columns), device=device)[:, None]).flatten(), corners.flatten()


@cache
def _frame(padding: int, size: int, device: torch.device) -> Tensor:
    """Every crop of a padded image whose bits are all set, none of those of the padding; (·, 1, size, size)."""
    image = torch.full((1, size, size), 255, dtype=torch.uint8, device=device)
    return windows(F.pad(image, (padding,) * 4), size)


@cache
def _lines(side: int, square: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Row c has ones where a line of a square centred on pixel c is, of an even one from c − square/2; (side, side)."""
    pixels = torch.arange(side, device=device)
    steps = pixels - (pixels[:, None] - square // 2)
    return ((steps >= 0) & (steps < square)).to(dtype)
