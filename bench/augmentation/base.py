"""The base under every policy: random crop and mirror image before the learned transforms, cutout after them."""

from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from augbench.bench.augmentation.resampling import crop


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
            images: (B, C, S, S), of any type.
            copies: Copies M of each image.

        Returns:
            The copies, copy by copy as `repeat` makes them; (M·B, C, S, S). The images themselves, not repeated, where
            there is neither crop nor flip.
        """
        if not self.moves:
            return images
        count, device = copies * len(images), images.device
        offsets = torch.randint(2 * self.padding + 1, (count, 2), device=device, generator=self.source)
        moved = crop(images, offsets, self.padding)
        if not self.flips:
            return moved
        # a choice between two whole images is a third of the time of a choice between their pixels
        coins = torch.randint(2, (count,), device=device, generator=self.source)
        both = torch.cat((moved, moved.flip(-1)))
        return both.index_select(0, coins * count + torch.arange(count, device=device))

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
        # exact at the weights 0 and 1, and a third of the time of `where`
        return torch.lerp(images, colour.to(images.dtype)[:, None, None], squares)


@cache
def _lines(side: int, square: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Row c has ones where a line of a square centred on pixel c is, of an even one from c − square/2; (side, side)."""
    pixels = torch.arange(side, device=device)
    steps = pixels - (pixels[:, None] - square // 2)
    return ((steps >= 0) & (steps < square)).to(dtype)
